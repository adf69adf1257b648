"""Find the speech token at which every word of the corpus begins.

    python -m training.align WORK --seconds 180

A small head is trained by CTC to hear the phones in the speech ids; the best path through its own text (Viterbi over
the CTC lattice) then says where each phone lies. A word begins between the last phone before it and its own first one.
A Mandarin word is one syllable.

Needs WORK/data (training.data) and WORK/tokens.npy (training.tokenizer). Writes WORK/align.json.gz: for each clip id a
list of words [text_start, text_end, token_start, token_end], half-open, counted from the clip's start. The words of a
clip cover all its text ids and all its tokens without a gap; spaces, punctuation and pauses belong to the word before.
Clips with fewer tokens than their phones need are left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oscine_engine.text.marks import added_tokens
from training.ctc import BLANK, edits, greedy
from training.data import VOICES, Corpus, Ints, bucketed, index_rows
from training.graphed import pick_device
from training.networks import CODE_SIZE, LEVELS
from training.tokenizer import LETTERS_FROM, WIDTHS, phones

SPACE = len(added_tokens()) + len(VOICES)
FIRST_PINYIN = added_tokens().index("[a]")
INITIALS = frozenset(
    added_tokens().index(f"[{name}]") for name in "b c ch d f g h j k l m n p q r s sh t w x y z zh".split()
)
ONSET = 1
"""Tokens by which a word's sound precedes its first phone's place, after a pause."""

Word = tuple[int, int, int, int]


class Listener(nn.Module):
    """Speech ids int64 [B, T] (-1 is padding) to text-id log-probabilities [B, T, vocabulary].

    It hears 6 tokens to each side, so that a phone is found where it is."""

    def __init__(self, vocabulary: int = LETTERS_FROM + 26, size: int = 256) -> None:
        super().__init__()
        widths = (CODE_SIZE, size, size, size)
        self.convs = nn.ModuleList(nn.Conv1d(a, b, 5, padding=2) for a, b in pairwise(widths))
        self.out = nn.Linear(size, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        real = (ids >= 0)[:, None]
        digits = ids[:, None] // LEVELS ** torch.arange(CODE_SIZE, device=ids.device)[:, None] % LEVELS
        x = (digits - 1).float() * real
        for conv in self.convs:
            x = F.gelu(conv(x)) * real
        return self.out(x.transpose(1, 2)).log_softmax(-1)


def places(log_probs: npt.NDArray[np.float32], labels: list[int]) -> list[tuple[int, int]]:
    """First and last frame of each label on the best CTC path through `log_probs` [T, V]; empty if they do not fit."""
    path = np.full(2 * len(labels) + 1, BLANK)
    path[1::2] = labels
    emit = log_probs[:, path]
    skip = np.full(len(path), -np.inf)
    skip[3::2] = np.where(path[3::2] == path[1:-2:2], -np.inf, 0.0)
    score = np.full(len(path) + 2, -np.inf)
    score[2:4] = emit[0, :2]
    came = np.zeros(emit.shape, np.int64)
    for t in range(1, len(emit)):
        ways = np.stack([score[2:], score[1:-1], score[:-2] + skip])
        came[t] = ways.argmax(0)
        score[2:] = ways.max(0) + emit[t]
    state = len(path) - 1 - int(score[-2] > score[-1])
    if not np.isfinite(score[state + 2]):
        return []
    found = [(0, 0)] * len(labels)
    for t in range(len(emit) - 1, -1, -1):
        if state % 2:
            label = state // 2
            later = found[label][1] if t + 1 < len(emit) and found[label][0] == t + 1 else t
            found[label] = (t, later)
        state -= int(came[t, state])
    return found


def words(text_ids: list[int]) -> list[tuple[int, int]]:
    """Half-open spans of the words in `text_ids`, each with what follows it; empty if nothing sounds."""
    sounding = set(phones(text_ids))
    starts: list[int] = []
    before = -1
    for i, now in enumerate(text_ids):
        if now in sounding:
            pinyin = FIRST_PINYIN <= now < SPACE
            inside = before in sounding and (before in INITIALS if pinyin else not FIRST_PINYIN <= before < SPACE)
            if not inside:
                starts.append(i)
        before = now
    return list(zip([0, *starts[1:]], [*starts[1:], len(text_ids)], strict=True)) if starts else []


def cut(text_ids: list[int], where: list[tuple[int, int]], tokens: int) -> list[Word]:
    """The words of a clip of `tokens` tokens whose phones lie at `where` (as `places` gives them)."""
    spans, sounding = words(text_ids), set(phones(text_ids))
    counts = [len(phones(text_ids[a:b])) for a, b in spans]
    firsts = np.concatenate([[0], np.cumsum(counts)]).astype(int)
    begins = [0]
    for (before, start), phone in zip(spans[:-1], firsts[1:-1], strict=True):
        last, first = where[phone - 1][1], where[phone][0]
        paused = any(i != SPACE for i in text_ids[before:start] if i not in sounding)
        begins.append(max(last + 1, first - ONSET) if paused else (last + first + 1) // 2)
    return [(a, b, c, d) for (a, b), c, d in zip(spans, begins, [*begins[1:], tokens], strict=True)]


def batches(
    corpus: Corpus, ids: Ints, clips: Ints, rng: np.random.Generator, budget: int
) -> Iterator[tuple[Ints, Tensor]]:
    """`clips` once in random order: clip numbers and their speech ids [B, T], -1 after the last."""
    for width, rows in bucketed(rng, corpus.lengths[clips], WIDTHS, budget, all_rows=True):
        at = index_rows(corpus.starts[clips[rows], None], corpus.lengths[clips[rows], None], width)
        yield clips[rows], torch.from_numpy(np.where(at >= 0, ids[at], -1))


def fit(corpus: Corpus, ids: Ints, device: torch.device, seconds: float, budget: int, seed: int) -> Listener:
    """Train a listener on the training clips for so many seconds."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = Listener().to(device).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    start, steps = time.monotonic(), 0
    while True:
        for clips, tokens in batches(corpus, ids, corpus.train, rng, budget):
            spent = (time.monotonic() - start) / seconds
            if spent >= 1:
                return model.eval()
            optimiser.param_groups[0]["lr"] = 2e-3 * min(1.0, (steps + 1) / 50) * (0.02 + math.cos(spent * math.pi / 2))
            labels = [phones(corpus.text_of(int(clip))) for clip in clips]
            log_probs = model(tokens.to(device)).transpose(0, 1)
            loss = F.ctc_loss(
                log_probs,
                torch.tensor([i for row in labels for i in row], device=device),
                torch.from_numpy(corpus.lengths[clips]),
                torch.tensor([len(row) for row in labels]),
                blank=BLANK,
                zero_infinity=True,
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            steps += 1
            if steps % 50 == 0:
                print(f"step {steps} ctc {float(loss.detach()):.3f} after {spent * seconds:.0f} s", flush=True)


def align(corpus: Corpus, ids: Ints, model: Listener, device: torch.device) -> dict[str, list[Word]]:
    """The words of every clip; prints the phone error on the held-out ones."""
    found: dict[str, list[Word]] = {}
    wrong = total = 0
    held = set(corpus.valid.tolist())
    everything = np.arange(len(corpus.clips))
    for clips, tokens in batches(corpus, ids, everything, np.random.default_rng(0), 8192):
        with torch.no_grad():
            log_probs = model(tokens.to(device)).cpu()
        said = greedy(log_probs, torch.from_numpy(corpus.lengths[clips]))
        for row, clip in enumerate(clips.tolist()):
            text, length = corpus.text_of(clip), int(corpus.lengths[clip])
            truth = phones(text)
            where = places(log_probs[row, :length].numpy(), truth) if truth else []
            if where:
                found[corpus.clips[clip]["id"]] = cut(text, where, length)
            if clip in held:
                wrong, total = wrong + edits(said[row], truth), total + len(truth)
    mean = sum(map(len, found.values())) / max(1, len(found))
    print(f"{len(found)} of {len(everything)} clips aligned, {mean:.2f} words each", flush=True)
    print(f"phone error on {len(held)} held-out clips {wrong / max(1, total):.3f}", flush=True)
    return found


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seconds", type=float, default=180, help="training time")
    parser.add_argument("--batch", type=int, default=4096, help="tokens a batch")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    device = pick_device()
    corpus = Corpus(a.work / "data", device)
    ids: Ints = np.load(a.work / "tokens.npy").astype(np.int64)
    if len(ids) != corpus.starts[-1]:
        raise ValueError(f"tokens.npy has {len(ids)} ids, the corpus {corpus.starts[-1]}: run training.tokenizer")
    model = fit(corpus, ids, device, a.seconds, a.batch, a.seed)
    found = align(corpus, ids, model, device)
    partial = a.work / "align.part"
    with gzip.open(partial, "wt", encoding="utf-8") as out:
        json.dump(found, out, separators=(",", ":"))
    partial.rename(a.work / "align.json.gz")


if __name__ == "__main__":
    main()
