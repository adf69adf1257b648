"""A stream of samples at one rate -> the same sound at another, cut anywhere, without delay between the two.

A Kaiser-windowed sinc (J. O. Smith, "Digital Audio Resampling"), evaluated for a whole period of output positions at a
time as one matrix product.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oscine_codecs import pcm
from oscine_codecs.errors import CodecError

CROSSINGS = 32
"""Of the sinc on either side of its middle."""
CUTOFF = 0.92
"""Of the lower rate's Nyquist frequency, half way down: up to 0.84 of it passes unchanged, all above is 90 dB lower."""
BETA = 8.96
_NARROW = 64
"""Fewest outputs a row: fewer would leave the matrix product nothing but overhead."""
_SMALL = 250_000
"""Multiplications in one product: libraries spread larger ones over threads, which other streams need."""
_LARGEST = 2_000_000
"""Coefficients of a filter, above which two rates have too little in common."""


@dataclass(frozen=True, slots=True)
class Filter:
    """up / down is the ratio of the rates in lowest terms. Outputs come in blocks of `rows` times `outputs`, made from
    `rows` windows that are `inputs` apart, each with `reach` samples more on either side.

    matrix: float64 [inputs + 2 * reach, outputs].
    """

    up: int
    down: int
    inputs: int
    outputs: int
    reach: int
    rows: int
    matrix: npt.NDArray[np.float64]


@functools.lru_cache(maxsize=32)
def design(source: int, target: int) -> Filter:
    """Raises CodecError for rates below 1 Hz, or so nearly coprime that the filter would not fit in a cache."""
    if source < 1 or target < 1:
        raise CodecError(f"sample rates must be positive, got {source} and {target} Hz")
    common = math.gcd(source, target)
    up, down = target // common, source // common
    cutoff = CUTOFF * min(1.0, up / down)
    reach = math.ceil(CROSSINGS / cutoff)
    repeats = -(-_NARROW // up)
    inputs, outputs = down * repeats, up * repeats
    width = inputs + 2 * reach
    if width * outputs > _LARGEST:
        raise CodecError(f"{source} Hz cannot become {target} Hz: use a usual rate, such as 16000, 24000 or 48000")
    at = np.arange(-reach, inputs + reach)[:, None] - np.arange(outputs) * (down / up)
    inside = np.clip(at * cutoff / CROSSINGS, -1.0, 1.0)
    taps = np.sinc(at * cutoff) * np.i0(BETA * np.sqrt(1.0 - inside * inside)) * (np.abs(inside) < 1.0)
    taps /= taps.sum(axis=0)
    taps.setflags(write=False)
    return Filter(up, down, inputs, outputs, reach, max(1, _SMALL // (width * outputs)), taps)


class Resampler:
    """`push` blocks of any size; `finish` gives the rest, and what is pushed after that is a sound of its own.

    Output n is the sound at input n * source / target: there is no delay to account for, only some milliseconds (32
    samples of the lower rate) that are held back until what follows is known. Of n samples come ceil(n * target /
    source) in all. How the input was cut changes nothing, not even rounding.
    """

    def __init__(self, source: int, target: int) -> None:
        self._filter = None if source == target else design(source, target)
        self._begin()

    def _begin(self) -> None:
        reach = 0 if self._filter is None else self._filter.reach
        self._held = np.zeros(reach, np.float32)
        self._origin = -reach
        self._taken = self._given = 0

    def push(self, block: npt.ArrayLike) -> pcm.Samples:
        """Float samples [n], n >= 0 -> those that are now known, often of another length than n times the ratio."""
        samples = pcm.check(block)
        if self._filter is None:
            return samples
        self._held = np.concatenate((self._held, samples))
        self._taken += len(samples)
        return self._give(self._taken - self._filter.reach)

    def finish(self) -> pcm.Samples:
        """The rest of what was pushed; silence is taken to follow it."""
        rest = np.zeros(0, np.float32) if self._filter is None else self._give(self._taken)
        self._begin()
        return rest

    def _give(self, known: int) -> pcm.Samples:
        """The outputs not given yet that lie before input `known`."""
        assert self._filter is not None
        filter = self._filter
        first, last = self._given, max(self._given, -(-known * filter.up // filter.down))
        size, step = filter.rows * filter.outputs, filter.rows * filter.inputs
        blocks = [self._block(number * step) for number in range(first // size, -(-last // size))]
        start = first // size * size
        made = np.concatenate(blocks or [np.zeros(0)])[first - start : last - start]
        self._given = last
        self._forget(last // size * step - filter.reach)
        return made.astype(np.float32)

    def _block(self, begin: int) -> npt.NDArray[np.float64]:
        """All outputs of the block whose first window begins at input `begin`: those that need what has not come yet
        are wrong, and are made again later."""
        assert self._filter is not None
        filter = self._filter
        width = filter.rows * filter.inputs + 2 * filter.reach
        window = np.zeros(width)
        there = self._held[begin - filter.reach - self._origin :][:width]
        window[: len(there)] = there
        rows = np.lib.stride_tricks.sliding_window_view(window, filter.inputs + 2 * filter.reach)[:: filter.inputs]
        made: npt.NDArray[np.float64] = rows @ filter.matrix
        return made.reshape(-1)

    def _forget(self, before: int) -> None:
        """Drop inputs that no later output needs."""
        self._held = self._held[max(0, before - self._origin) :]
        self._origin = max(self._origin, before)
