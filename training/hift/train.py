"""Train the vocoder: python -m training.hift.train WORK OUT --seconds 1300.

WORK is where `training.data` prepared the corpus; OUT receives `hift.safetensors` (the averaged weights, fp16),
`state.pt` (all of the training, replaced every minute), `log.csv` and, at the end, a few resynthesised clips. The
same command resumes; `--seconds` counts the training time of all its runs together, and the learning rate follows it.

The first `--warm-up` steps see the mel and F0 losses alone; then the discriminators join. A later run of its own,
`--from-mels FLOW.npy --start OUT/state.pt`, tunes the vocoder on mels of the flow (see training.flow_mels).
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from oscine_engine.checkpoint.weights import save_quantised
from oscine_engine.config import F0Config, VocoderConfig
from oscine_engine.vocoder.f0 import LOOK_RIGHT
from oscine_engine.vocoder.network import HiFT
from training.data import MEL, Corpus
from training.graphed import Graphed, Update, autocast, pick_device
from training.hift import losses
from training.hift.crops import HOP, Crops, pick
from training.hift.discriminators import Discriminators
from training.hift.heard import HeardDistance
from training.hift.report import Log, write_wav
from training.loop import weighted

# HiFi-GAN's proportions, its sums over eight discriminators and their maps written as means.
MEL_WEIGHT, FEATURE_WEIGHT, ADVERSARIAL_WEIGHT = 45.0, 10.0, 8.0
HEARD_WEIGHT = 40.0
LAST_LR = 0.02
LOG_STEPS = 50
EMA_FROM = 500
RISE_STEPS = 600
# No bin of a wave in [-1, 1] exceeds exp(2.1) under the vocoder's window; beyond, its clamps would pass no gradient.
LOUDEST_LOG, LOUD_WEIGHT, WIDE_LIMIT = 2.5, 10.0, 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command line decides. Learning rates are the first ones of a cosine down to LAST_LR of themselves."""

    seconds: float
    warm_up: int = 2500
    batch: int = 32
    frames: int = 32
    width: int = 128
    period_channels: tuple[int, ...] = (32, 128, 256, 512, 512)
    spectrum_channels: int = 32
    lr: float = 3e-4
    f0_lr: float = 1e-3
    judge_lr: float = 2e-4
    seed: int = 0


def vocoder_config(width: int) -> VocoderConfig:
    """A vocoder of the released form with `width` base channels and as many in its F0 predictor."""
    return VocoderConfig(base_channels=width, f0_predictor=F0Config(cond_channels=width))


class Trainer:
    """The vocoder, its discriminators and one captured step of each kind."""

    def __init__(self, plan: Plan, crops: Crops, device: torch.device, heard: Path | None = None) -> None:
        torch.manual_seed(plan.seed)
        self.heard = HeardDistance(heard).to(device) if heard is not None else None
        self.plan, self.crops, self.device = plan, crops, device
        config = replace(vocoder_config(plan.width), audio_limit=WIDE_LIMIT)
        self.hift = HiFT(config).to(device).train()
        self.bins: list[Tensor] = []
        self.hift.conv_post.register_forward_hook(self._keep_bins)
        with torch.no_grad():
            # Start in the range of voices: the output is in Hz, and Adam moves a weight by its rate a step at most.
            self.hift.f0_predictor.classifier.weight.mul_(30)
            self.hift.f0_predictor.classifier.bias.fill_(120)
        self.judges = Discriminators(period_channels=plan.period_channels, spectrum_channels=plan.spectrum_channels).to(
            device
        )
        self.distance = losses.MelDistance().to(device)
        body = [part for name, part in self.hift.named_children() if name not in ("f0_predictor", "spectrum")]
        adam = {"betas": (0.8, 0.99), "weight_decay": 1e-3}
        self.updates = {
            "body": Update(body, plan.lr, clip=1000.0, ema_decay=0.999, **adam),  # type: ignore[arg-type]
            "f0": Update([self.hift.f0_predictor], plan.f0_lr, clip=10.0, ema_decay=0.999, **adam),  # type: ignore[arg-type]
            "judge": Update([self.judges], plan.judge_lr, clip=1000.0, **adam),  # type: ignore[arg-type]
        }
        self.steps, self.seconds = 0, 0.0
        self.run = Graphed(self.step, device)

    def _keep_bins(self, _: nn.Module, __: object, bins: Tensor) -> None:
        self.bins.append(bins)

    def generate(self, mel: Tensor, offset: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Samples [B, frames * 480] from frame `offset` on, F0 [B, T], log magnitudes. Phase and noise are new."""
        f0 = self.hift.f0(mel)
        batch, frames = f0.shape
        order = torch.arange(1, self.hift.config.nb_harmonics + 2, device=mel.device, dtype=torch.float64)
        start = torch.rand(batch, 1, device=mel.device, dtype=torch.float64) * order / HOP
        noise = torch.rand(batch, frames * HOP, len(order), device=mel.device)
        made = self.hift.decode(mel, self.hift.source(f0, noise, start))
        logs = self.bins.pop()[:, : self.hift.config.istft.n_fft // 2 + 1]
        return pick(made, offset, self.crops.frames * HOP, HOP), f0, logs

    def step(self, _: dict[str, Tensor], adversarial: bool) -> dict[str, Tensor]:
        """One update of everything that the phase trains."""
        crop = self.crops.draw(self.plan.batch)
        fake, f0, logs = self.generate(crop.mel, crop.offset)
        out = self._judge(crop.wave, fake.detach()) if adversarial else {}
        self.updates["body"].zero()
        self.updates["f0"].zero()
        mel = self.distance(fake, crop.wave)
        known = f0.shape[1] - LOOK_RIGHT
        f0, true_f0 = f0[:, :known], crop.f0[:, :known]
        pitch = losses.f0_loss(f0, true_f0)
        loud = F.relu(logs - LOUDEST_LOG).mean()
        total = MEL_WEIGHT * mel + pitch + LOUD_WEIGHT * loud
        if self.heard is not None:
            heard = self.heard(fake, crop.wave)
            total = total + HEARD_WEIGHT * heard
            out |= {"heard": heard}
        if adversarial:
            self.judges.requires_grad_(False)
            with autocast(self.device):
                with torch.no_grad():
                    real = self.judges(crop.wave)
                judged = self.judges(fake)
            fooled, feature = losses.adversarial_loss(judged), losses.feature_loss(real, judged)
            total = total + ADVERSARIAL_WEIGHT * fooled + FEATURE_WEIGHT * feature
            out |= {"fooled": fooled, "feature": feature}
        total.backward()
        self.judges.requires_grad_(True)
        out |= {"mel": mel, "loud": loud, "f0": pitch, **losses.f0_report(f0.detach(), true_f0)}
        out |= {"norm": self.updates["body"].apply(), "f0_norm": self.updates["f0"].apply()}
        return {name: value.detach() for name, value in out.items()}

    def _judge(self, true: Tensor, fake: Tensor) -> dict[str, Tensor]:
        self.updates["judge"].zero()
        with autocast(self.device):
            real, judged = self.judges(true), self.judges(fake)
        loss = losses.discriminator_loss(real, judged)
        loss.backward()
        return {"judge": loss, "judge_norm": self.updates["judge"].apply()}

    def set_rates(self) -> None:
        """Linear over the first RISE_STEPS, then a cosine over the planned seconds."""
        done = min(1.0, self.seconds / self.plan.seconds)
        share = LAST_LR + (1 - LAST_LR) * 0.5 * (1 + math.cos(math.pi * done))
        share *= min(1.0, (self.steps + LOG_STEPS) / RISE_STEPS)
        for name, rate in (("body", self.plan.lr), ("f0", self.plan.f0_lr), ("judge", self.plan.judge_lr)):
            self.updates[name].set_lr(rate * share)

    def save(self, out: Path) -> None:
        """Replace OUT's state and exported weights, each in one move."""
        state: dict[str, Any] = {name: update.state_dict() for name, update in self.updates.items()}
        torch.save({**state, "steps": self.steps, "seconds": self.seconds}, out / "state.part")
        os.replace(out / "state.part", out / "state.pt")
        self.swap()
        save_quantised(self.hift.state_dict(), out / "hift.part", "fp16")
        self.swap()
        os.replace(out / "hift.part", out / "hift.safetensors")

    def load(self, path: Path, fresh: bool) -> None:
        """Resume from a state, or with `fresh` start a new clock from its averaged weights.

        Of exported weights (.safetensors) only the vocoder can start; the discriminators begin anew.
        """
        if path.suffix == ".safetensors":
            self.hift.load_state_dict({name: value.float() for name, value in load_file(path).items()})
            self.updates["body"].reset_ema()
            self.updates["f0"].reset_ema()
            return
        state = torch.load(path, map_location=self.device, weights_only=True)
        for name, update in self.updates.items():
            update.load_state_dict(state[name])
        if fresh:
            self.swap()
            self.updates["body"].reset_ema()
            self.updates["f0"].reset_ema()
        else:
            self.steps, self.seconds = state["steps"], state["seconds"]
            torch.manual_seed(self.plan.seed + self.steps)

    def swap(self) -> None:
        """Exchange the vocoder's weights and their averages."""
        self.updates["body"].swap_ema()
        self.updates["f0"].swap_ema()

    @torch.no_grad()
    def resynthesise(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        """mel [80, T] -> samples [T * 480] and Hz [T], by the averaged weights as at inference."""
        self.swap()
        self.hift.eval()
        generator = torch.Generator(mel.device).manual_seed(0)
        shape = (1, mel.shape[1] * HOP, self.hift.config.nb_harmonics + 1)
        noise = torch.rand(shape, device=mel.device, generator=generator)
        # Clips of any length: searching for the fastest kernels of each would take longer than the work.
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=False):
            f0 = self.hift.f0(mel[None])
            made = self.hift.decode(mel[None], self.hift.source(f0, noise))
        self.bins.clear()
        self.hift.train()
        self.swap()
        return made[0].clamp(-1, 1), f0[0]


def validate(trainer: Trainer, corpus: Corpus, mels: Tensor, clips: list[int]) -> dict[str, float]:
    """Mean mel distance and F0 errors of whole held-out clips."""
    rows = []
    for clip in clips:
        frames = slice(int(corpus.starts[clip]) * MEL, int(corpus.starts[clip + 1]) * MEL)
        made, f0 = trainer.resynthesise(mels[frames].T.float())
        real = corpus.arrays["audio"][frames.start * HOP : frames.stop * HOP].float() / 32768
        report = losses.f0_report(f0, corpus.arrays["f0"][frames].float())
        with torch.no_grad():
            distance = trainer.distance(made[None], real[None])
        rows.append([float(distance), float(report["voicing_error"]), float(report["pitch_error"])])
    return dict(zip(("valid_mel", "valid_voicing", "valid_pitch"), map(float, np.mean(rows, axis=0)), strict=True))


def fit(trainer: Trainer, corpus: Corpus, mels: Tensor, out: Path, save_every: float = 60.0) -> None:
    """Train until the planned seconds are used up. Raises FloatingPointError if a loss is not finite."""
    log = Log(out / "log.csv")
    valid = list(corpus.valid[:8] if len(corpus.valid) else corpus.train[:2])
    base, began, saved = trainer.seconds, time.monotonic(), time.monotonic()
    while trainer.seconds < trainer.plan.seconds:
        trainer.set_rates()
        for _ in range(LOG_STEPS):
            values = trainer.run({}, trainer.steps >= trainer.plan.warm_up)
            trainer.steps += 1
            if trainer.steps == min(EMA_FROM, trainer.plan.warm_up):
                trainer.updates["body"].reset_ema()
                trainer.updates["f0"].reset_ema()
        read = {name: float(value) for name, value in values.items()}
        trainer.seconds = base + time.monotonic() - began
        if not all(map(math.isfinite, read.values())):
            raise FloatingPointError(f"step {trainer.steps}: {read}; {out}/state.pt is the last good state")
        last = trainer.seconds >= trainer.plan.seconds
        if last or time.monotonic() - saved > save_every:
            saved = time.monotonic()
            trainer.save(out)
            read |= validate(trainer, corpus, mels, valid)
        log.write({"steps": trainer.steps, "seconds": trainer.seconds, **read})
    for clip in valid[:4]:
        frames = slice(int(corpus.starts[clip]) * MEL, int(corpus.starts[clip + 1]) * MEL)
        write_wav(out / f"{corpus.clips[clip]['id']}.wav", trainer.resynthesise(mels[frames].T.float())[0])


def build(
    work: Path,
    plan: Plan,
    device: torch.device,
    flow_mels: Path | None,
    real_share: float,
    heard: Path | None = None,
    weight: Mapping[str, int] | None = None,
) -> tuple[Trainer, Corpus]:
    """Load the corpus onto the device and set up a trainer over its training clips.

    heard: weights of the speech tokenizer, for `HeardDistance`. weight: how often a language's clips count, else once.
    """
    corpus = Corpus(work / "data", device, ("audio", "mel", "f0"))
    mel = corpus.arrays["mel"][None]
    if flow_mels is not None:
        made = torch.from_numpy(np.load(flow_mels)).to(device)
        if made.shape != mel.shape[1:]:
            raise ValueError(
                f"{flow_mels} is {tuple(made.shape)}, the corpus needs {tuple(mel.shape[1:])}: make it anew"
            )
        mel = torch.stack((corpus.arrays["mel"].half(), made.half()))
    times = [(weight or {}).get(corpus.clips[clip]["lang"], 1) for clip in corpus.train]
    rows = np.repeat(corpus.train, times)
    starts, lengths = (torch.from_numpy(a[rows] * MEL) for a in (corpus.starts, corpus.lengths))
    crops = Crops(mel, corpus.arrays["f0"], corpus.arrays["audio"], starts, lengths, plan.frames, real_share)
    return Trainer(plan, crops, device, heard), corpus


def times(argument: str) -> tuple[str, int]:
    """`zh=2` as a pair. Raises argparse.ArgumentTypeError."""
    lang, factor = weighted(argument)
    if not factor.is_integer():
        raise argparse.ArgumentTypeError(f"{argument!r} is no language and a whole number of at least 1, such as zh=2")
    return lang, int(factor)


def main() -> None:
    """Command line entry point."""
    usual = Plan(seconds=0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm-up", type=int, help="steps without discriminators; none with --start")
    parser.add_argument("--batch", type=int, default=usual.batch)
    parser.add_argument("--frames", type=int, default=usual.frames, help="length of a crop, 20 ms each")
    parser.add_argument("--width", type=int, default=usual.width, help="base and F0 channels")
    parser.add_argument("--judge-scale", type=float, default=1.0, help="widths of the discriminators")
    parser.add_argument("--lr-scale", type=float, help="factor of all learning rates; 0.4 with --start, else 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--from-mels", type=Path, help="mels of the flow, as training.flow_mels writes them")
    parser.add_argument("--real-share", type=float, default=0.25, help="with --from-mels: share of true mels")
    parser.add_argument("--start", type=Path, help="state.pt or hift.safetensors of another run to begin from")
    parser.add_argument("--heard", type=Path, help="weights of the speech tokenizer, whose hearing then counts too")
    parser.add_argument("--weight", type=times, nargs="*", default=[], help="LANG=N: its clips count N times")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    scale = a.lr_scale or (0.4 if a.start else 1.0)
    plan = Plan(
        seconds=a.seconds,
        warm_up=(0 if a.start else usual.warm_up) if a.warm_up is None else a.warm_up,
        batch=a.batch,
        frames=a.frames,
        width=a.width,
        period_channels=tuple(max(2, int(c * a.judge_scale)) for c in usual.period_channels),
        spectrum_channels=max(4, int(usual.spectrum_channels * a.judge_scale)),
        lr=usual.lr * scale,
        f0_lr=usual.f0_lr * scale,
        judge_lr=usual.judge_lr * scale,
        seed=a.seed,
    )
    device = torch.device(a.device)
    if device.type == "cuda":
        pick_device()
    share = 1.0 if a.from_mels is None else a.real_share
    trainer, corpus = build(a.work, plan, device, a.from_mels, share, a.heard, dict(a.weight))
    if (a.out / "state.pt").exists():
        trainer.load(a.out / "state.pt", fresh=False)
    elif a.start is not None:
        trainer.load(a.start, fresh=True)
    mels = corpus.arrays["mel"] if a.from_mels is None else trainer.crops.mel[1]
    fit(trainer, corpus, mels, a.out)


if __name__ == "__main__":
    main()
