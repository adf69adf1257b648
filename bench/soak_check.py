"""Is what a session said under load what it says alone? Arrays and records in, plain figures out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.ties import ROUNDING, closeness
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.runtime.trace import Said, Solved, Trace

SAME_MEL, SAME_WAVE = 1e-3, 2e-2
Samples = NDArray[np.float32]


@dataclass(slots=True)
class Spoken:
    """One session: what each segment said, its mel [frames, 80], and the wave of them all."""

    said: list[Said]
    mel: list[Samples]
    wave: Samples


@dataclass(slots=True)
class Keeper:
    """An observer that keeps what the chosen `seeds` say until it is taken."""

    seeds: frozenset[int]
    _said: dict[int, list[Said]] = field(default_factory=dict)
    _mel: dict[int, dict[int, list[Samples]]] = field(default_factory=dict)

    def __call__(self, event: Trace) -> None:
        if isinstance(event, Said) and event.seed in self.seeds:
            self._said.setdefault(event.seed, []).append(event)
        elif isinstance(event, Solved) and event.seed in self.seeds:
            segments = self._mel.setdefault(event.seed, {})
            segments.setdefault(event.segment, []).append(event.mel.cpu().numpy().copy())

    def take(self, seed: int, wave: Samples) -> Spoken:
        """What a session that has ended said; it is kept no longer."""
        said, mel = self._said.pop(seed, []), self._mel.pop(seed, {})
        return Spoken(said, [np.concatenate(mel[each.segment]) for each in said], wave)


def store(spoken: Spoken, path: Path) -> None:
    """Arrays go to a file, so that what is kept for the comparison is not taken for growth."""
    np.savez(path, *spoken.mel, wave=spoken.wave)


def restore(said: Sequence[Said], path: Path) -> Spoken:
    """What `store` wrote."""
    with np.load(path) as arrays:
        return Spoken(list(said), [arrays[f"arr_{place}"] for place in range(len(said))], arrays["wave"])


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one session. margins: of each segment whose ids differ, how close the draw was where they part; infinite where
    one says nothing of it. mel, wave: largest differences where the ids are the same; None where nothing is."""

    margins: tuple[float, ...]
    mel: float | None
    wave: float | None


def judged(loaded: Spoken, alone: Spoken, checkpoint: Checkpoint) -> Verdict:
    """Compare one session, segment by segment; each draws from a stream of its own, so one that differs spoils no
    other."""
    if len(loaded.said) != len(alone.said):
        return Verdict((float("inf"),), None, None)
    margins, mel = [], []
    for place, (first, second) in enumerate(zip(loaded.said, alone.said, strict=True)):
        if first.ids == second.ids:
            mel.append(largest(loaded.mel[place], alone.mel[place]))
        elif (first.prompt, first.text, first.interleaved) == (second.prompt, second.text, second.interleaved):
            margins.append(closeness(checkpoint, second, parting(first.ids, second.ids)))
        else:
            margins.append(float("inf"))
    return Verdict(tuple(margins), max(mel, default=None), None if margins else largest(loaded.wave, alone.wave))


def parting(first: Sequence[int], second: Sequence[int]) -> int:
    """The first place where they differ, or the length of the shorter one."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))


def largest(first: Samples, second: Samples) -> float:
    """Largest absolute difference; infinite where the shapes differ."""
    if first.shape != second.shape:
        return float("inf")
    return float(np.abs(first - second).max(initial=0.0))


def summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Figures of all survivors."""
    margins = [margin for verdict in verdicts for margin in verdict.margins]
    mel = max((verdict.mel for verdict in verdicts if verdict.mel is not None), default=None)
    wave = max((verdict.wave for verdict in verdicts if verdict.wave is not None), default=None)
    return {
        "count": len(verdicts),
        "same_ids": sum(not verdict.margins for verdict in verdicts),
        "ties": sum(margin <= ROUNDING for margin in margins),
        "tie_margins": [margin for margin in margins if margin <= ROUNDING],
        "different": sum(margin > ROUNDING for margin in margins),
        "mel_max": mel,
        "wave_max": wave,
        "ok": all(margin <= ROUNDING for margin in margins)
        and (mel is None or mel <= SAME_MEL)
        and (wave is None or wave <= SAME_WAVE),
    }
