"""Samples as the listener's features: log energies of 40 mel bands, two rows of 10 ms to a frame of 20 ms."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

RATE = 24000
FRAME = 480
"""Samples of a frame."""
SIZE = 80
"""Features of a frame."""
_HOP = 240
_WINDOW = 600
_EDGE = (_WINDOW - _HOP) // 2
"""Samples on each side of a row that its window sees as well."""
_BANDS = 40
_LOW_HZ, _HIGH_HZ = 60.0, 8000.0
_FLOOR = 1e-8
"""Mean square of a band below which nothing is told apart: about -80 dBFS."""
_SHIFT, _SCALE = 12.0, 0.25


class Features:
    """The features of one stream; frame i covers the samples from 480 i on."""

    def __init__(self) -> None:
        self._waiting = np.zeros(_EDGE, np.float32)

    def push(self, samples: Floats) -> Floats:
        """Frames [n, 80] that `samples` (float32 mono at 24 kHz) complete: 180 samples behind a frame must be here."""
        self._waiting = np.concatenate((self._waiting, samples))
        count = max(0, len(self._waiting) - 2 * _EDGE) // FRAME
        if not count:
            return np.zeros((0, SIZE), np.float32)
        used = self._waiting[: count * FRAME + 2 * _EDGE]
        self._waiting = self._waiting[count * FRAME :]
        return features(used)

    def finish(self) -> Floats:
        """The frames that are left, the last one perhaps filled up, zeros behind it."""
        missing = -(len(self._waiting) - _EDGE) % FRAME
        return self.push(np.zeros(missing + _EDGE, np.float32))


def features(samples: Floats) -> Floats:
    """Frames [n, 80] of n * 480 samples with 180 more on each side."""
    rows = np.lib.stride_tricks.sliding_window_view(samples, _WINDOW)[::_HOP]
    window = _window()
    spectrum = np.fft.rfft(rows * window, axis=1)
    power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
    bands = power @ _bank()
    scaled: Floats = ((np.log(bands + _FLOOR) + _SHIFT) * _SCALE).reshape(-1, SIZE).astype(np.float32)
    return scaled


@cache
def features_of_silence() -> Floats:
    """A frame [80] of zeros."""
    return np.full(SIZE, (np.log(_FLOOR) + _SHIFT) * _SCALE, np.float32)


@cache
def _window() -> Floats:
    """Hann's window, scaled so that the powers of the spectrum add up to the mean square of the samples."""
    window = np.hanning(_WINDOW + 1)[:-1]
    scaled: Floats = (window * np.sqrt(2 / (_WINDOW * np.square(window).sum()))).astype(np.float32)
    return scaled


@cache
def _bank() -> Floats:
    """Triangles over the mel scale, of height 1: [301, 40]."""
    low, high = math.log1p(_LOW_HZ / 700), math.log1p(_HIGH_HZ / 700)
    edges = low + np.arange(_BANDS + 2) * ((high - low) / (_BANDS + 1))
    points = np.log1p(np.fft.rfftfreq(_WINDOW, 1 / RATE) / 700)[:, None]
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rise, fall = (points - left) / (centre - left), (right - points) / (right - centre)
    bank: Floats = np.maximum(0.0, np.minimum(rise, fall)).astype(np.float32)
    return bank
