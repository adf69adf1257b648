"""What a draft head learns from: sentences that its target says, with the target's own states.

A draft is right when it says what the target will say, so recordings are of no use here: the target speaks the corpus'
texts with the engine's runner, its sampling and its noise, and a plain forward gives the outputs of its layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.config import SamplingConfig
from oscine_engine.lm.interleave import Kind, Prompt
from oscine_engine.lm.network import SpeechLM, rope_table
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.sampling import nucleus
from oscine_engine.lm.sequence import IGNORE, training_sequence
from oscine_engine.lm.stream import LMStream, Mode
from oscine_engine.runtime.pages import PagePool
from training import sizes
from training.data import Batch, Corpus, Ints, bucketed, save_array
from training.lm import SPEECH_FROM, WIDTHS, embed

GROUP, PAGE_TOKENS = 48, 64
LONGEST = WIDTHS[-1]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was said, flat: row i at starts[i] .. starts[i + 1] of `codes` and `targets`, as in training.lm.Sequences.

    seeds: the noise that each row was said under. mixed: whether it is interleaved.
    """

    codes: npt.NDArray[np.int16]
    targets: npt.NDArray[np.int16]
    starts: Ints
    seeds: Ints
    mixed: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.seeds)

    def save(self, path: Path) -> None:
        """Write all arrays to one .npz file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part.npz")
        np.savez(
            partial, codes=self.codes, targets=self.targets, starts=self.starts, seeds=self.seeds, mixed=self.mixed
        )
        partial.rename(path)

    @classmethod
    def load(cls, path: Path) -> Spoken:
        """What `save` wrote."""
        return cls(**np.load(path))


def speak(model: Checkpoint, corpus: Corpus, clips: Sequence[int], seed: int) -> Spoken:
    """Let the model say the texts of `clips`, every other one interleaved, each under a seed of its own."""
    runner = _runner(model)
    rows, seeds, mixed = [], [], []
    for first in range(0, len(clips), GROUP):
        group: list[tuple[int, bool, LMStream]] = []
        for place, clip in enumerate(clips[first : first + GROUP], first):
            mode: Mode = "interleaved" if place % 2 else "whole"
            stream = runner.open(_prompt(corpus, clip), mode=mode, seed=seed * 1_000_003 + place)
            stream.add_text(corpus.text_of(clip))
            stream.end_text()
            group.append((clip, mode == "interleaved", stream))
        streams = [stream for _, _, stream in group]
        while any(stream.wants_step for stream in streams):
            runner.step(streams)
        for clip, interleaved, stream in group:
            if stream.failure is not None:
                raise stream.failure
            prefix = _prompt(corpus, clip).prefix
            made = training_sequence(corpus.text_of(clip), stream.tokens, runner.layout, interleaved, prefix)
            codes = [i + SPEECH_FROM * (kind == Kind.SPEECH) for kind, i in zip(made.kinds, made.ids, strict=True)]
            if len(codes) <= LONGEST:
                rows.append((codes, made.targets))
                seeds.append(stream.seed)
                mixed.append(interleaved)
            runner.close(stream)
    return Spoken(
        np.concatenate([np.asarray(codes, np.int16) for codes, _ in rows]),
        np.concatenate([np.asarray(targets, np.int16) for _, targets in rows]),
        np.concatenate([[0], np.cumsum([len(codes) for codes, _ in rows])]).astype(np.int64),
        np.asarray(seeds, np.int64),
        np.asarray(mixed, np.bool_),
    )


def _runner(model: Checkpoint) -> LMRunner:
    pages = GROUP * (-(-2 * LONGEST // PAGE_TOKENS))
    device, dtype = model.lm.llm_decoder.weight.device, model.lm.llm_decoder.weight.dtype
    pool = PagePool(pages, page_shape(model.config.lm, PAGE_TOKENS), dtype=dtype, device=device)
    return LMRunner(model.lm, pool, model.config.sampling, model.config.text)


def _prompt(corpus: Corpus, clip: int) -> Prompt:
    return Prompt(prefix=(sizes.FIRST_VOICE_TAG + int(corpus.voice[clip]), sizes.END_OF_PROMPT))


@torch.inference_mode()
def states(lm: SpeechLM, codes: Tensor, layers: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Outputs of `layers`, side by side, [B, T, layers * hidden], and logits [B, T, decoder_rows]."""
    x = embed(lm, codes)
    turn = rope_table(torch.arange(codes.shape[1], device=codes.device), lm.config.head_dim, lm.config.rope_theta)
    kept: dict[int, Tensor] = {}
    for index, layer in enumerate(lm.decoder.layers):
        x = layer(x, *turn, 0.0)
        if index in layers:
            kept[index] = x
    return torch.cat([kept[index] for index in layers], dim=-1), lm.head(lm.decoder.norm(x))


def drawn_from(logits: Tensor, speech_ids: int, sampling: SamplingConfig) -> tuple[Tensor, Tensor]:
    """What the target draws from, given its logits [n, rows]: ids and probabilities [n, k], 0 outside of the nucleus.

    eos is left out, so the rest may sum to less than one: no draft can say it.
    """
    legal = logits[:, : speech_ids + 2].float().clone()
    legal[:, speech_ids] = -torch.inf
    ids, kept, inside = nucleus(legal.softmax(-1), sampling)
    kept = torch.where(inside, kept, 0.0)
    speech = ids < speech_ids
    return torch.where(speech, ids, 0), torch.where(speech, kept / kept.sum(-1, keepdim=True), 0.0)


class Source:
    """Batches of spoken rows with what the target held and drew from, computed once and kept as files in `folder`.

    A row's anchors are drawn anew for each batch: `blocks` places whose id is speech and whose next one is, too.
    """

    def __init__(self, spoken: Spoken, model: Checkpoint, layers: Sequence[int], folder: Path) -> None:
        self.spoken, self._speech = spoken, model.config.lm.speech_token_size
        files = {name: folder / f"{name}.npy" for name in ("features", "ids", "shares")}
        if not files["shares"].exists():
            for name, array in self._compute(model, layers).items():
                save_array(files[name], array)
        self.arrays = {name: np.load(path, mmap_mode="r") for name, path in files.items()}
        is_speech = (spoken.codes >= SPEECH_FROM) & (spoken.codes < SPEECH_FROM + self._speech)
        says = (spoken.targets >= 0) & (spoken.targets < self._speech)
        self._anchors = [
            np.flatnonzero((is_speech & says)[begin:end])
            for begin, end in zip(spoken.starts[:-1], spoken.starts[1:], strict=True)
        ]

    def _compute(self, model: Checkpoint, layers: Sequence[int], budget: int = 4096) -> dict[str, npt.NDArray[Any]]:
        lm, sampling, spoken = model.lm, model.config.sampling, self.spoken
        device, count = lm.llm_decoder.weight.device, len(spoken.codes)
        made: dict[str, npt.NDArray[Any]] = {
            "features": np.zeros((count, len(layers) * lm.config.hidden_size), np.float16),
            "ids": np.zeros((count, sampling.top_k), np.int16),
            "shares": np.zeros((count, sampling.top_k), np.float16),
        }
        for width, rows in bucketed(np.random.default_rng(0), np.diff(spoken.starts), WIDTHS, budget, all_rows=True):
            codes = torch.from_numpy(self._rows(spoken.codes, rows, width, 0)).to(device).long()
            features, logits = states(lm, codes, layers)
            ids, shares = drawn_from(logits.flatten(0, 1), self._speech, sampling)
            place, real = self._places(rows, width)
            for name, values in (("features", features), ("ids", ids), ("shares", shares)):
                made[name][place[real]] = values.view(*codes.shape, -1).cpu().numpy()[real]
        return made

    def _rows(self, array: npt.NDArray[np.int16], rows: Ints, width: int, padding: int) -> npt.NDArray[np.int16]:
        place, real = self._places(rows, width)
        return np.where(real, array[place], padding).astype(np.int16)

    def _places(self, rows: Ints, width: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
        place = self.spoken.starts[rows, None] + np.arange(width)
        real = place < self.spoken.starts[rows + 1, None]
        return np.where(real, place, 0), real

    def epoch(self, rng: np.random.Generator, budget: int, blocks: int) -> Iterator[Batch]:
        """Every row that has an anchor, once, in batches of about `budget` positions."""
        totals = np.array([len(a) and int(n) for a, n in zip(self._anchors, np.diff(self.spoken.starts), strict=True)])
        for width, rows in bucketed(rng, totals, WIDTHS, budget):
            place, _ = self._places(rows, width)
            yield Batch(
                {
                    "codes": self._rows(self.spoken.codes, rows, width, 0),
                    "targets": self._rows(self.spoken.targets, rows, width, IGNORE),
                    "anchors": np.stack([rng.choice(self._anchors[row], blocks) for row in rows]),
                    **{name: array[place] for name, array in self.arrays.items()},
                }
            )

    def epochs(self, seed: int, budget: int, blocks: int) -> Iterator[Batch]:
        """Batches of endless epochs."""
        rng = np.random.default_rng(seed)
        while True:
            yield from self.epoch(rng, budget, blocks)
