"""Train the listener that times words (`oscine_engine.word_times`).

    python -m training.word_times DATA --steps 250 575 700

DATA holds the corpus (`manifest.jsonl` and its tar shards) and `corpus_ids.jsonl` (training.text.corpus_ids); `--align`
is where training.align put the words of every clip, `continue/align.json.gz` by default.

Every frame of 20 ms is given a sound to begin with: within a word of the alignment its sounds in turn, all as long,
where it is not silent. The network learns to tell them, then the best path through each clip's own words (the engine's
lattice) says anew which frame is which sound, and it learns that; as many rounds as there are numbers of steps. In each
batch loudness, timbre, the place of the formants and a floor of noise are others, so that it hears more voices than the
corpus has. Writes the network, in 16 bits, to where the engine has it, or to `--out`.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import math
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torch import Tensor, nn

from oscine_engine import word_times
from oscine_engine.text.marks import added_tokens
from oscine_engine.text.sounds import SILENCE, sound, sounds
from oscine_engine.word_times.features import FRAME, SIZE, features, features_of_silence
from oscine_engine.word_times.lattice import Lattice
from oscine_engine.word_times.listener import DILATIONS, FIRST, REACH
from training.data import SAMPLES, is_valid

WIDTH = 144
BATCH, FRAMES = 24, 200
RATE = 2e-3
PRIOR = 0.5
"""How much of a sound's frequency is taken off its score: all of it would prefer the rare ones."""
QUIET = 2.0
"""Features below the loudest of a clip by this much, 35 dB, are silence to begin with."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Clip:
    """words: (its sounds, first frame, last frame + 1), frames counted from the clip's start."""

    name: str
    start: int
    frames: int
    words: list[tuple[list[int], int, int]]


class Network(nn.Module):
    """Features [B, SIZE, n + 2 * REACH] to logits [B, sounds, n], as `word_times.listener` computes them."""

    def __init__(self, size: int = WIDTH) -> None:
        super().__init__()
        self.first = nn.Conv1d(SIZE, size, FIRST)
        self.mid = nn.ModuleList(nn.Conv1d(size, size, 3, dilation=dilation) for dilation in DILATIONS)
        self.out = nn.Conv1d(size, len(sounds()) + 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        for layer, dilation in zip(self.mid, DILATIONS, strict=True):
            x = x[..., dilation:-dilation] + F.relu(layer(x))
        logits: Tensor = self.out(x)
        return logits


def prepare(data: Path, align: Path, limit: int | None) -> tuple[Floats, list[Clip]]:
    """Features of all aligned clips in a row, and the clips."""
    import soundfile

    marks = added_tokens()
    lines = (data / "corpus_ids.jsonl").read_text(encoding="utf-8").splitlines()
    text: dict[str, list[int]] = {row["id"]: row["ids"] for row in map(json.loads, lines)}
    with gzip.open(align, "rt", encoding="utf-8") as stored:
        aligned: dict[str, list[tuple[int, int, int, int]]] = json.load(stored)
    parts: list[npt.NDArray[np.float16]] = []
    clips: list[Clip] = []
    start = 0
    for shard in sorted(data.glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                name, packed = Path(member.name).stem, tar.extractfile(member)
                if name not in aligned or packed is None or (limit is not None and len(clips) >= limit):
                    continue
                samples, _ = soundfile.read(io.BytesIO(packed.read()), dtype="float32")
                frames = len(samples) // SAMPLES * SAMPLES // FRAME
                parts.append(features(np.pad(samples[: frames * FRAME], 180)).astype(np.float16))
                words = []
                for first, last, begin, end in aligned[name]:
                    heard = [sound(marks[i]) for i in text[name][first:last] if i < len(marks)]
                    numbers = [number for number in heard if number is not None]
                    if numbers:
                        words.append((numbers, begin * SAMPLES // FRAME, end * SAMPLES // FRAME))
                clips.append(Clip(name, start, frames, words))
                start += frames
        print(f"{shard.name}: {len(clips)} clips, {start * FRAME / 24000 / 3600:.2f} h", flush=True)
    return np.concatenate(parts).astype(np.float32), clips


def flat(frames: Floats, clips: list[Clip]) -> Ints:
    """Each word's sounds in turn, all as long, where it is not silent."""
    target = np.full(len(frames), SILENCE, np.int64)
    for clip in clips:
        loudest = frames[clip.start : clip.start + clip.frames].max(1)
        sounding = loudest >= np.percentile(loudest, 95) - QUIET
        for numbers, begin, end in clip.words:
            places = begin + np.flatnonzero(sounding[begin:end])
            if len(places) < len(numbers):
                places = np.arange(begin, min(end, clip.frames))
            target[clip.start + places] = [numbers[at * len(numbers) // len(places)] for at in range(len(places))]
    return target


def augment(x: Tensor) -> Tensor:
    """Features [B, n, SIZE] of somebody else, somewhere else."""
    rows = len(x)
    bands = SIZE // 2
    levels = x.view(rows, -1, 2, bands) / 0.25 - 12
    places = torch.arange(bands) * (1 + 0.12 * _either(rows, 1)) + _either(rows, 1)
    places = places.clamp(0, bands - 1)
    lower = places.floor().long().clamp(max=bands - 2)
    share = (places - lower)[:, None, None]
    index = lower[:, None, None].expand_as(levels)
    levels = torch.gather(levels, 3, index) * (1 - share) + torch.gather(levels, 3, index + 1) * share
    levels = levels + 2 * _either(rows, 1, 1, 1) + _either(rows, 1, 1, 1) * torch.linspace(-1, 1, bands)
    floor = math.log(1e-8) + 7 * torch.rand(rows, 1, 1, 1) * (torch.rand(rows, 1, 1, 1) < 0.5)
    return ((torch.logaddexp(levels, floor.expand_as(levels)) + 12) * 0.25).view(rows, -1, SIZE)


def _either(*shape: int) -> Tensor:
    """Evenly from -1 to 1."""
    return torch.rand(*shape) * 2 - 1


def fit(network: Network, frames: Tensor, target: Tensor, places: Ints, steps: int, rng: np.random.Generator) -> None:
    """So many steps on stretches of FRAMES frames that begin at `places`."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=1e-3)
    began = time.monotonic()
    mean = math.nan
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = (
            RATE * min(1.0, (step + 1) / 30) * (0.02 + math.cos(step / steps * math.pi / 2) ** 2)
        )
        index = torch.from_numpy(rng.choice(places, BATCH))[:, None] + torch.arange(FRAMES + 2 * REACH)
        logits = network(augment(frames[index]).transpose(1, 2))
        loss = F.cross_entropy(logits, target[index[:, REACH:-REACH]], label_smoothing=0.02)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        mean = loss.item() if math.isnan(mean) else 0.98 * mean + 0.02 * loss.item()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {mean:.3f} after {time.monotonic() - began:.0f} s", flush=True)


def prior(target: Ints) -> Floats:
    """What is taken off each sound's logarithm."""
    share = np.bincount(target, minlength=len(sounds()) + 1) / len(target)
    taken: Floats = (PRIOR * np.log(share + 1e-4)).astype(np.float32)
    return taken


@torch.no_grad()
def realign(network: Network, frames: Tensor, target: Ints, clips: list[Clip]) -> Ints:
    """The best paths; prints how many frames of the clips held out had been told right."""
    found, taken = target.copy(), prior(target)
    right = held = 0
    edge = torch.from_numpy(features_of_silence())
    for clip in clips:
        span = slice(clip.start, clip.start + clip.frames)
        x = torch.cat((edge.expand(REACH, -1), frames[span], edge.expand(REACH, -1)))
        scores = network(x.T[None])[0].T.log_softmax(-1).numpy()
        if is_valid(clip.name):
            right += int((scores.argmax(1) == target[span]).sum())
            held += clip.frames
        lattice = Lattice()
        for numbers, _, _ in clip.words:
            lattice.add(numbers)
        lattice.push(scores - taken)
        path = lattice.path()
        if path:
            found[span] = path
    print(
        f"{right / max(1, held):.3f} of {held} held-out frames right; {(found != target).mean():.3f} moved", flush=True
    )
    return found


def save(network: Network, target: Ints, out: Path) -> None:
    """As the engine reads it."""
    stored = {"prior": prior(target).astype(np.float16)}
    for name, value in network.state_dict().items():
        array = value.numpy()
        if name.endswith("weight"):
            array = array.transpose(2, 1, 0).reshape(-1, array.shape[0])
        stored[name] = np.ascontiguousarray(array).astype(np.float16)
    save_file(stored, out)


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--align", type=Path, default=Path(__file__).parent / "continue" / "align.json.gz")
    parser.add_argument("--steps", type=int, nargs="+", default=[250, 575, 700], help="of each round")
    parser.add_argument("--limit", type=int, help="take only the first clips, to try the recipe")
    parser.add_argument("--out", type=Path, default=Path(word_times.__file__).parent / "listener.safetensors")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)
    frames, clips = prepare(a.data, a.align, a.limit)
    learned = [np.arange(clip.start, clip.start + clip.frames) for clip in clips if not is_valid(clip.name)]
    places = np.concatenate(learned)
    places = places[places < len(frames) - FRAMES - 2 * REACH]
    target, network, x = flat(frames, clips), Network(), torch.from_numpy(frames)
    for steps in a.steps:
        fit(network, x, torch.from_numpy(target), places, steps, rng)
        save(network, target, a.out)
        target = realign(network, x, target, clips)


if __name__ == "__main__":
    main()
