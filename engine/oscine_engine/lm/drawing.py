"""How ids are drawn for a stream that was asked to be drawn for in its own way, as numbers and as words of its line."""

import math
from typing import NamedTuple

import numpy as np

from oscine_engine.config import SamplingConfig
from oscine_engine.errors import InvalidInput
from oscine_engine.options import Knobs

NEVER = 1 << 30
"""A limit that no count of repetitions comes to."""


class Drawing(NamedTuple):
    """scale: what logits are multiplied with, the inverse of a temperature. top_p, top_k: of the nucleus. An id that is
    among the last `window` ids at least `limit` times is drawn again from all others."""

    scale: float
    top_p: float
    top_k: int
    window: int
    limit: int

    @property
    def words(self) -> tuple[int, int, int, int, int]:
        """As integers, numbers by the bits of their float32. None of them is 0, which stands for the model's own."""
        return _bits(self.scale), _bits(self.top_p), self.top_k, self.window, self.limit


def usual(sampling: SamplingConfig, temperature: float = 1.0) -> Drawing:
    """As the model says."""
    return Drawing(1.0 / temperature, sampling.top_p, sampling.top_k, sampling.win_size, limit_of(sampling))


def limit_of(sampling: SamplingConfig) -> int:
    """The least count that is at least win_size * tau_r."""
    return math.ceil(sampling.win_size * sampling.tau_r)


def drawing(knobs: Knobs, sampling: SamplingConfig, temperature: float = 1.0) -> Drawing | None:
    """How to draw with `knobs` where the model says `sampling`; None if they leave it at that.

    Raises InvalidInput for a window that is longer than the model's own.
    """
    if knobs == Knobs():
        return None
    if knobs.repetition_window is not None and knobs.repetition_window > sampling.win_size:
        raise InvalidInput(
            f"repetition_window: {knobs.repetition_window} is out of range; this model looks back at 0 to "
            f"{sampling.win_size} sounds"
        )
    found = usual(sampling, temperature)
    if knobs.temperature is not None:
        found = found._replace(scale=1.0 / knobs.temperature)
    if knobs.top_p is not None:
        found = found._replace(top_p=knobs.top_p)
    if knobs.top_k is not None:
        found = found._replace(top_k=knobs.top_k)
    if knobs.repetition_limit is not None:
        found = found._replace(limit=knobs.repetition_limit)
    if knobs.repetition_window is not None:
        found = found._replace(window=knobs.repetition_window)
    return found if found.window else found._replace(window=1, limit=NEVER)


def _bits(value: float) -> int:
    return int(np.float32(value).view(np.int32))
