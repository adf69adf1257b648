"""A listener who plays every packet as soon as it can be played, without collecting any beforehand. Plain functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bench.client import Packet

AUDIBLE_DB = -40.0
"""Against the loudest sample."""


class Playback(NamedTuple):
    """Seconds of the packets' clock. `onset`: when the first audible sample is heard, None if none is.

    gaps: how long the player stood still each time it ran dry before the end.
    """

    onset: float | None
    gaps: tuple[float, ...]


def play(packets: Sequence[Packet], rate: int) -> Playback:
    """Play `packets` in order, each when it is there and the one before it has ended."""
    peak = max((float(np.abs(packet.samples).max()) for packet in packets), default=0.0)
    onset: float | None = None
    gaps: list[float] = []
    free = packets[0].arrived if packets else 0.0
    for packet in packets:
        if packet.arrived > free:
            gaps.append(packet.arrived - free)
        begins = max(free, packet.arrived)
        if onset is None and peak > 0:
            loud = np.flatnonzero(np.abs(packet.samples) > peak * 10 ** (AUDIBLE_DB / 20))
            onset = begins + float(loud[0]) / rate if loud.size else None
        free = begins + packet.samples.size / rate
    return Playback(onset, tuple(gaps))
