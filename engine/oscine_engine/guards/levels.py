"""How loud sound is, from samples and from mel frames: dBFS, a full-scale square wave being at 0.

What counts as silence is judged against the loudness of the voice, so a quiet recording makes a quiet voice and not a
silent one.
"""

import math

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
Levels = NDArray[np.float64]

FLOOR_DB = -120.0
LOUD_SHARE = 95
"""Percentile of a voice's frames that is taken for its loudness: its vowels, but not its one loudest moment."""
BELOW_LOUD_DB = 45.0
"""Silence is this far below the voice's loudness: 10 to 20 dB below the softest onsets (f, s, h), above its pauses."""
QUIETEST_DB, LOUDEST_DB = -70.0, -50.0
"""Bounds of what counts as silence, whatever the voice."""

_RATE, _WINDOW, _BANDS = 24000, 1920, 80
"""How the acoustic mel is made (`features.mel.mel24k`)."""


def window_levels(samples: Samples, size: int) -> Levels:
    """Level of each whole window of `size` samples."""
    return _decibels(window_energies(samples, size).astype(np.float64) / size)


def window_energies(samples: Samples, size: int) -> Samples:
    """Sum of the squares in each whole window of `size` samples."""
    windows = samples[: len(samples) // size * size].reshape(-1, size)
    # A dot product of each window with itself: a tenth of the time of squaring all and taking sums.
    energies: Samples = (windows[:, None, :] @ windows[:, :, None])[:, 0, 0]
    return energies


def energy_at(level: float, size: int) -> float:
    """Of `size` samples of that level."""
    return float(10 ** (level / 10) * size)


def frame_levels(mel: NDArray[np.floating]) -> Levels:
    """Level of each frame of a log mel [n, 80]; for steady sound 1 to 3 dB below that of its samples."""
    if mel.ndim != 2 or mel.shape[1] != _BANDS:
        raise ValueError(f"mel must be [n, {_BANDS}], not {list(mel.shape)}")
    power = np.exp(2 * np.minimum(mel.astype(np.float32, copy=False), np.float32(10.0))) @ _BAND_POWER
    return _decibels(power.astype(np.float64))


def speech_level(mel: NDArray[np.floating]) -> float:
    """Loudness of a voice from the mel [n, 80] of its reference speech; n is at least 1."""
    return float(np.percentile(frame_levels(mel), LOUD_SHARE))


def silence_level(loudness: float) -> float:
    """What is quieter than this is silence, in a voice of that loudness."""
    return min(max(loudness - BELOW_LOUD_DB, QUIETEST_DB), LOUDEST_DB)


def _decibels(power: Levels) -> Levels:
    return 10 * np.log10(np.maximum(power, 10 ** (FLOOR_DB / 10)))


def _band_power() -> Samples:
    """Weights [80] that turn squared band magnitudes into mean power of the samples.

    A band's triangle has an area of 1 over Hz, so its value times the bin width is a mean magnitude; of that a band
    stands for as many bins as lie between its neighbours' centres, halved. The window passes 3/8 of the power.
    """
    top_hz, break_hz, linear, step = _RATE / 2, 1000.0, 200 / 3, math.log(6.4) / 27
    break_mel = break_hz / linear
    mels = np.linspace(0, break_mel + math.log(top_hz / break_hz) / step, _BANDS + 2)
    edges = np.where(mels < break_mel, mels * linear, break_hz * np.exp((mels - break_mel) * step))
    bin_hz = _RATE / _WINDOW
    bins = (edges[2:] - edges[:-2]) / (2 * bin_hz)
    return np.asarray(2 * bin_hz**2 * bins / (_WINDOW**2 * 3 / 8), np.float32)


_BAND_POWER = _band_power()
