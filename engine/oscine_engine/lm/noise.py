"""Random numbers that depend on nothing but their key: the same on any device, in any batch, in any order.

A key is (seed, position, use); under it every vocabulary id has its own number. The generator is SplitMix64
(Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014) in counter form: id v of a key is
mix(key + v * gamma), in 64-bit integers that wrap, which is exact everywhere.
"""

import torch
from torch import Tensor

_WORD = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


def signed(word: int) -> int:
    """Any integer modulo 2**64, as a signed one."""
    word &= _WORD
    return word - (1 << 64) if word >> 63 else word


def _mix(word: int) -> int:
    word = (word ^ (word >> 30)) * _MIX_1 & _WORD
    word = (word ^ (word >> 27)) * _MIX_2 & _WORD
    return word ^ (word >> 31)


def key(seed: int, position: int, use: int) -> int:
    """The 64-bit key, as a signed integer, of one draw. Any integers; `seed` counts modulo 2**64."""
    word = _mix((seed + _GAMMA) & _WORD)
    word = _mix((word + position * _GAMMA + 1) & _WORD)
    return signed(_mix((word + use * _GAMMA + 2) & _WORD))


def keys(seeds: Tensor, positions: Tensor) -> Tensor:
    """`key` of uses 0 and 1, int64 [B, 2], for seeds and positions int64 [B]."""
    words = bits(seeds[:, None], torch.ones_like(seeds[:, None]))
    words = bits(words + 1, positions[:, None])
    return bits(words + 2, torch.arange(2, device=seeds.device))


def bits(keys: Tensor, ids: Tensor) -> Tensor:
    """64 random bits each, int64 [..., n], for keys [..., 1] and ids [..., n] or [n], both int64."""
    word = keys + ids * signed(_GAMMA)
    word = (word ^ _shift_right(word, 30)) * signed(_MIX_1)
    word = (word ^ _shift_right(word, 27)) * signed(_MIX_2)
    return word ^ _shift_right(word, 31)


def uniform(keys: Tensor, ids: Tensor) -> Tensor:
    """Uniform float64 strictly inside (0, 1), multiples of 2**-53 plus half of one; shapes as in `bits`."""
    return (_shift_right(bits(keys, ids), 11).double() + 0.5) * 2.0**-53


def gumbel(keys: Tensor, ids: Tensor) -> Tensor:
    """Standard Gumbel noise, float64: argmax(log p + gumbel) is distributed as p. Shapes as in `bits`."""
    return -torch.log(-torch.log(uniform(keys, ids)))


def _shift_right(word: Tensor, count: int) -> Tensor:
    """Logical shift; torch's own keeps the sign."""
    return (word >> count) & ((1 << (64 - count)) - 1)
