"""Can the places be heard where speech was put together? Plain arithmetic on samples.

Speech is made in chunks. Between two chunks of the vocoder a packet ends; between two of the flow, `HELD` samples
later, since the vocoder holds back what it cannot finish yet. At such a place two things can go wrong:

    jump    the spectrum changes at once: distance of log mel spectra of the 20 ms before and the 20 ms behind
    click   what is there is nowhere near: distance of the spectrum of the 20 ms around it to the mean of both sides'

Speech jumps by itself. So a place is compared with all other places of the same voice that are no joins: its rank is
the share of those that jump (click) less. Ranks of joins that nobody can tell from other places are 0.5 on average; 1
would be a jump beyond all others at every join.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bench.asr import Samples
from oscine_engine.features.filterbanks import slaney

RATE = 24000
FRAME = 480
"""Samples, 20 ms: a window, and a frame of the mel."""
HELD = 4 * FRAME + 8
"""What the vocoder holds back: four frames, and half a window of its last transform."""
STEP = 240
NEAR = 2 * FRAME
"""Places within so much of a join are not taken for others."""
BANDS = 40
RANGE_DB = 60.0
"""Below the loudest band, differences are not heard."""
QUIET_DB = -40.0
"""Places are compared where both sides are within this of the loudest window."""
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Jumps:
    """In dB, of one piece of speech: at its joins, and everywhere else."""

    packet_jump: Values
    chunk_jump: Values
    packet_click: Values
    chunk_click: Values
    other_jump: Values
    other_click: Values


def measure(samples: Samples, joins: Sequence[int]) -> Jumps:
    """Of 24 kHz `samples` whose packets begin at `joins`, in one segment. Places in silence are left out."""
    packets = [at for at in joins if FRAME <= at <= len(samples) - FRAME]
    chunks = [at + HELD for at in joins if at + HELD <= len(samples) - FRAME]
    taken = np.array(sorted([*packets, *chunks]), np.int64)
    grid = np.arange(FRAME, max(FRAME, len(samples) - FRAME), STEP)
    if len(taken) and len(grid):
        grid = grid[np.abs(grid[:, None] - taken[None]).min(1) > NEAR]
    found = [_at(samples, places) for places in (packets, chunks, grid.tolist())]
    return Jumps(found[0][0], found[1][0], found[0][1], found[1][1], found[2][0], found[2][1])


def rank(values: Values, others: Values) -> float | None:
    """Mean share of `others` that are less than each of `values`, ties by half."""
    if not len(values) or not len(others):
        return None
    ordered = np.sort(others)
    below = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    return float(below.mean() / (2 * len(ordered)))


def together(all_of: Iterable[Jumps]) -> Jumps:
    """Those of many pieces of speech."""
    pieces = list(all_of)
    names = Jumps.__slots__
    return Jumps(*(np.concatenate([getattr(piece, name) for piece in pieces] or [np.zeros(0)]) for name in names))


def _at(samples: Samples, places: Sequence[int]) -> tuple[Values, Values]:
    """Jumps and clicks at those of `places` that are audible."""
    if not len(places):
        return np.zeros(0), np.zeros(0)
    middle = np.asarray(places)[:, None] + np.arange(FRAME)[None]
    before, around, behind = (_spectra(samples[middle - shift]) for shift in (FRAME, FRAME // 2, 0))
    loudest = _loudest(samples)
    audible = np.minimum(_level(samples[middle - FRAME]), _level(samples[middle])) > loudest + QUIET_DB
    jump = np.sqrt(np.square(behind - before).mean(1))
    click = np.sqrt(np.square(np.maximum(around - (before + behind) / 2, 0)).mean(1))
    return jump[audible], click[audible]


def _spectra(windows: Samples) -> Values:
    """Log mel powers of windows [n, FRAME] in dB, cut off RANGE_DB below the loudest of each: [n, BANDS]."""
    wave = torch.from_numpy(np.ascontiguousarray(windows, np.float32)) * torch.hann_window(FRAME)
    power = torch.fft.rfft(wave).abs().square() @ slaney(RATE, FRAME, BANDS, wave.device).T
    level = 10 * np.log10(np.maximum(power.numpy().astype(np.float64), 1e-12))
    return np.asarray(np.maximum(level, level.max(1, keepdims=True) - RANGE_DB))


def _level(windows: Samples) -> Values:
    return np.asarray(10 * np.log10(np.square(windows, dtype=np.float64).mean(1) + 1e-12))


def _loudest(samples: Samples) -> float:
    windows = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    return float(_level(windows).max())
