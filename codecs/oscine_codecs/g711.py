"""G.711: 16-bit samples <-> 8-bit codes of mu-law and A-law, as ITU-T's reference software (G.191) has them."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from oscine_codecs import pcm

Integers: TypeAlias = npt.NDArray[np.signedinteger[Any]]

_SEGMENTS, _STEPS = np.divmod(np.arange(128, dtype=np.int64), 16)
"""Of each step of the staircase, smallest first: its segment, and its place within that."""


@dataclass(frozen=True, slots=True)
class Law:
    """One of the two laws. `silence` is the code of zero, with which a last frame is padded: a zero byte is loud."""

    name: str
    silence: int
    codes: npt.NDArray[np.uint8]
    """[65536]: the code of each 16-bit sample, by its bits taken as unsigned."""
    values: npt.NDArray[np.int16]
    """[256]: the sample that each code stands for."""

    def encode(self, samples: npt.ArrayLike) -> bytes:
        """Float samples [n] in [-1, 1] (clipped beyond) -> n bytes. Raises CodecError as `pcm.check` does."""
        data: bytes = self.codes[pcm.steps(samples).view(np.uint16)].tobytes()
        return data

    def decode(self, data: bytes) -> pcm.Samples:
        """n bytes -> float samples [n]."""
        return self.values[np.frombuffer(data, np.uint8)].astype(np.float32) / np.float32(pcm.SCALE)


def _law(name: str, starts: Integers, sizes: Integers, flip: int) -> Law:
    """starts [128]: magnitude, of 16 bits, at which each step begins; sizes [128]: the magnitude it is decoded to.
    flip: bits of the code that are sent inverted, the sign bit being set for what is not negative."""
    samples = np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int64)
    negative = samples < 0
    # The magnitude in ones' complement: so has the reference, and so both signs have steps of one size.
    magnitudes = np.where(negative, ~samples, samples)
    steps = np.searchsorted(starts, magnitudes, side="right") - 1
    codes = (np.where(negative, 0, 0x80) | steps) ^ flip
    plain = np.arange(256) ^ flip
    values = np.where(plain & 0x80, 1, -1) * sizes[plain & 0x7F]
    return Law(name, 0x80 ^ flip, codes.astype(np.uint8), values.astype(np.int16))


MULAW = _law(
    "mu-law",
    starts=4 * (((16 + _STEPS) << (_SEGMENTS + 1)) - 32 - (np.arange(128) > 0)),
    sizes=4 * (((33 + 2 * _STEPS) << _SEGMENTS) - 33),
    flip=0x7F,
)
# The first two segments have steps of one size.
_PLACES, _SHIFTS = np.where(_SEGMENTS > 0, 16 + _STEPS, _STEPS), np.maximum(_SEGMENTS - 1, 0)
ALAW = _law(
    "A-law",
    starts=16 * (_PLACES << _SHIFTS),
    sizes=8 * ((2 * _PLACES + 1) << _SHIFTS),
    flip=0x55,
)
