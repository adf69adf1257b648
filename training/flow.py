"""Train the flow: speech ids, a speaker and an optional prompt to mel, by optimal-transport flow matching.

    python -m training.flow WORK --seconds 700

Needs WORK/data, WORK/tokens.npy, WORK/speakers.npy. Rows are single clips or several of one voice end to end, since a
prompt and its continuation are that too. As in the reference's training: t = 1 - cos(u * pi / 2), conditions dropped
together for one row in five, a random prefix given as prompt mel to half of the rows. Chunk-causal masks, which is how
the engine runs it, on three batches of four, full attention on the others; a few ids are replaced, since the language
model's will not all be right. Writes WORK/export/flow.safetensors (averaged weights, fp16).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from oscine_engine.flow.network import Flow
from training import sizes
from training.data import MEL, VOICES, Batch, Corpus, bucketed, expand, index_rows, on_device, upload
from training.graphed import Graphed, Update, autocast, pick_device
from training.loop import Stage, save_weights, train

WIDTHS = (48, 64, 96, 144, 224, 352, 512, 768)
LONGEST = 700
DROP, REPLACED, PROMPTED, LONGEST_PROMPT = 0.2, 0.04, 0.5, 0.5
SIGMA_MIN = sizes.FLOW.cfm.sigma_min


class Data:
    """The corpus with its ids and embeddings, on the device."""

    def __init__(self, work: Path, device: torch.device) -> None:
        self.corpus = Corpus(work / "data", device, ("mel",))
        self.mel = self.corpus.arrays["mel"]
        self.ids = torch.from_numpy(np.load(work / "tokens.npy")).to(device)
        speakers, train = np.load(work / "speakers.npy"), self.corpus.train
        means = [
            speakers[train[self.corpus.voice[train] == v]].mean(0)
            if (self.corpus.voice[train] == v).any()
            else np.zeros(192, np.float32)
            for v in range(len(VOICES))
        ]
        # Rows after the clips' are the voices' means.
        self.speakers = torch.from_numpy(np.concatenate([speakers, np.stack(means)])).to(device)
        self.clip_count = len(speakers)


def groups(corpus: Corpus, rng: np.random.Generator) -> list[list[int]]:
    """Every training clip once: half of the groups single clips, half several of one voice, up to LONGEST tokens."""
    made = []
    for voice in np.unique(corpus.voice[corpus.train]):
        order = rng.permutation(corpus.train[corpus.voice[corpus.train] == voice]).tolist()
        while order:
            group = [order.pop()]
            aim = rng.integers(80, LONGEST) if rng.random() < 0.5 else 0
            total = int(corpus.lengths[group[0]])
            while order and total + int(corpus.lengths[order[-1]]) <= aim:
                total += int(corpus.lengths[order[-1]])
                group.append(order.pop())
            made.append(group)
    return made


def epoch(
    data: Data, made: list[list[int]], rng: np.random.Generator, budget: int, all_rows: bool = False
) -> list[Batch]:
    """Batches of about `budget` tokens; the variant says whether attention is chunk-causal."""
    corpus = data.corpus
    most = max(map(len, made))
    clips = np.array([g + [-1] * (most - len(g)) for g in made])
    starts, lengths = corpus.starts[clips], np.where(clips >= 0, corpus.lengths[clips], 0)
    batches = []
    for width, rows in bucketed(rng, lengths.sum(1), WIDTHS, budget, all_rows):
        other = corpus.same_voice(rng, clips[rows, 0])
        mean = data.clip_count + corpus.voice[clips[rows, 0]]
        speaker = np.where(rng.random(len(rows)) < 0.5, other, mean)
        batches.append(
            Batch(
                {
                    "tokens": index_rows(starts[rows], lengths[rows], width),
                    "speaker": speaker.astype(np.int32),
                },
                (bool(rng.random() < 0.75),),
            )
        )
    return batches


def example(data: Data, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(x1 [B, 80, T], mask [B, 1, T], ids [B, W], frames [B]) of a batch of token positions."""
    at = batch["tokens"]
    real = at >= 0
    mask = real.repeat_interleave(MEL, 1)[:, None].float()
    mel = data.mel[expand(at, MEL)].transpose(1, 2) * mask
    return mel, mask, data.ids[at.clamp(min=0).long()].long(), MEL * real.sum(1)


def loss_of(flow: Flow, data: Data, batch: dict[str, Tensor], streaming: bool, training: bool) -> Tensor:
    """Mean squared error of the velocity on real frames. Outside of training nothing is dropped, replaced or given."""
    mel, mask, ids, frames = example(data, batch)
    rows, device = mel.shape[0], mel.device

    def chance(share: float, *shape: int) -> Tensor:
        return torch.rand(shape, device=device) < share

    if training:
        strange = data.ids[torch.randint(len(data.ids), ids.shape, device=device)].long()
        ids = torch.where(chance(REPLACED, *ids.shape), strange, ids)
    mu = flow.encode(ids, frames // MEL).float()
    speaker = flow.speaker(data.speakers[batch["speaker"].long()]).float()
    cond = torch.zeros_like(mel)
    if training:
        prompt = (torch.rand(rows, device=device) * LONGEST_PROMPT * frames).int() * chance(PROMPTED, rows)
        given = torch.arange(mel.shape[2], device=device) < prompt[:, None]
        cond = mel * given[:, None]
        kept = (~chance(DROP, rows)).float()
        mu, speaker, cond = mu * kept[:, None, None], speaker * kept[:, None], cond * kept[:, None, None]
    t = 1 - torch.cos(torch.rand(rows, device=device) * (math.pi / 2))
    noise = torch.randn_like(mel)
    mixed = (1 - (1 - SIGMA_MIN) * t[:, None, None]) * noise + t[:, None, None] * mel
    found = flow.estimator(mixed * mask, mask, mu * mask, t, speaker, cond, streaming)
    error = (found.float() - (mel - (1 - SIGMA_MIN) * noise)) * mask
    return error.square().sum() / (mask.sum() * mel.shape[1])


def start_simple(flow: Flow, mean: Tensor) -> None:
    """Zero the modulations and the output, so that every block begins as the identity (adaLN-Zero) and the velocity as
    the mean mel [80], which is what it is on average."""
    dit = flow.estimator
    for layer in (*(b.attn_norm.linear for b in dit.transformer_blocks), dit.norm_out.linear, dit.proj_out):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    with torch.no_grad():
        dit.proj_out.bias.copy_(mean)


def solve(flow: Flow, mel: Tensor, mask: Tensor, mu: Tensor, speaker: Tensor, cond: Tensor, first: int = 0) -> Tensor:
    """The engine's solver in one shot: 10 Euler steps on the cosine grid with guidance, chunk-causal.

    With `first` > 0 it starts from `mel` noised to that step instead of from noise alone.
    """
    steps, rate = sizes.FLOW.cfm.n_timesteps, sizes.FLOW.cfm.inference_cfg_rate
    grid = [1 - math.cos(math.pi / 2 * k / steps) for k in range(steps + 1)]
    x = (1 - grid[first]) * torch.randn_like(mel) + grid[first] * mel
    none = torch.zeros_like
    for now, after in zip(grid[first:-1], grid[first + 1 :], strict=True):
        t = torch.full((2 * len(x),), now, device=x.device)
        both = flow.estimator(
            torch.cat([x, x]) * torch.cat([mask, mask]),
            torch.cat([mask, mask]),
            torch.cat([mu, none(mu)]),
            t,
            torch.cat([speaker, none(speaker)]),
            torch.cat([cond, none(cond)]),
            True,
        ).float()
        with_, without = both.chunk(2)
        x = x + (after - now) * ((1 + rate) * with_ - rate * without)
    return x * mask


def fit(stage: Stage, device: torch.device, budget: int, seed: int) -> None:
    """Train as `stage` says and export."""
    torch.manual_seed(seed)
    data = Data(stage.work, device)
    flow = Flow(sizes.FLOW).to(device)
    start_simple(flow, data.mel[:: max(1, len(data.mel) // 100000)].mean(0))
    # Under autocast the residual sum keeps full precision, as it has in use.
    flow.estimator.input_embed.register_forward_hook(lambda _module, _inputs, out: out.float())
    update = Update([flow], lr=8e-4, betas=(0.9, 0.99), weight_decay=0.01, ema_decay=0.9995)

    def step(batch: dict[str, Tensor], streaming: bool) -> dict[str, Tensor]:
        flow.train()
        update.zero()
        with autocast(device):
            loss = loss_of(flow, data, batch, streaming, training=True)
        loss.backward()
        return {"loss": loss, "norm": update.apply()}

    singles = [[int(c)] for c in data.corpus.valid]
    held = list(upload(epoch(data, singles, np.random.default_rng(1), 4096, all_rows=True), device))

    def validate() -> dict[str, float]:
        flow.eval()
        state = torch.random.get_rng_state()
        torch.manual_seed(1)
        loss = 0.0
        with torch.no_grad(), autocast(device):
            for batch, _ in held:
                loss += float(loss_of(flow, data, batch, True, training=False)) / len(held)
            batch = held[0][0]
            mel, mask, ids, frames = example(data, batch)
            mu = flow.encode(ids, frames // MEL).float() * mask
            speaker = flow.speaker(data.speakers[batch["speaker"].long()]).float()
            said = solve(flow, mel, mask, mu, speaker, torch.zeros_like(mel))
            error = float(((said - mel).abs() * mask).sum() / (mask.sum() * 80))
        torch.random.set_rng_state(state)
        return {"loss": loss, "mel_l1": error}

    def export(folder: Path) -> None:
        save_weights(folder / "flow.safetensors", flow)

    def epochs() -> Iterator[list[Batch]]:
        rng = np.random.default_rng(seed)
        while True:
            yield epoch(data, groups(data.corpus, rng), rng, budget)

    train(stage, [update], Graphed(step, device), on_device(epochs(), device), validate, export)


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seconds", type=float, default=700)
    parser.add_argument("--batch", type=int, default=8192, help="tokens a batch; a token is two frames")
    parser.add_argument("--max-steps", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    device = pick_device()
    stage = Stage("flow", a.work, a.seconds, max_steps=a.max_steps, warmup_steps=500)
    fit(stage, device, a.batch, a.seed)


if __name__ == "__main__":
    main()
