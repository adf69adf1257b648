"""One stream's vocoder state, between steps."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


@dataclass(slots=True, eq=False, weakref_slot=True)
class VocoderStream:
    """Made by `VocoderRunner.open`, changed only by its `step`. Dropping it frees all it holds.

    pending: mel frames received but not decoded yet, float32 [n, 80]; four of them stay behind until the last step.
    decoded: mel frames turned into samples so far.
    memory, pitch, phase: past of the network (see `carry.Layout`), of the F0 predictor (float64), and the running
    phase of the harmonics in turns a sample (float64 [H]); None before the first frame. slot: where they lie otherwise,
    until `freed` is called.
    """

    pending: NDArray[np.float32]
    decoded: int = 0
    ended: bool = False
    memory: Tensor | None = field(default=None, repr=False)
    pitch: Tensor | None = field(default=None, repr=False)
    phase: Tensor | None = field(default=None, repr=False)
    slot: int = -1
    freed: Callable[[], object] = field(default=lambda: None, repr=False)

    @classmethod
    def empty(cls, channels: int) -> "VocoderStream":
        return cls(np.zeros((0, channels), np.float32))
