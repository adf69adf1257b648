"""Speech that must be the same, to the rounding that depends on what else is computed beside it."""

import numpy as np

STEPS = 2
"""Of 16 bits, after resampling; without it one."""


def assert_alike(heard: bytes, expected: bytes) -> None:
    """Both are 16-bit samples, little-endian."""
    assert len(heard) == len(expected) > 0
    apart = np.abs(np.frombuffer(heard, "<i2").astype(int) - np.frombuffer(expected, "<i2"))
    assert apart.max() <= STEPS
