"""A listener who plays every packet as soon as it can be played, without collecting any beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bench.client import Packet

AUDIBLE_DB = -40.0
"""Against the loudest sample."""


class Gap(NamedTuple):
    """A player ran dry at `began` and stood still for `seconds`."""

    began: float
    seconds: float


@dataclass(slots=True)
class Player:
    """Plays at `rate` Hz. Times in seconds of one clock. gaps: of all times that it stood still between two packets.

    dry_at: when it runs out of what it has, None before the first packet. received: samples in all.
    """

    rate: int
    gaps: list[Gap] = field(default_factory=list)
    dry_at: float | None = None
    received: int = 0

    def take(self, now: float, samples: int) -> float:
        """A packet came at `now`; returns when it begins to play."""
        if self.dry_at is not None and now > self.dry_at:
            self.gaps.append(Gap(self.dry_at, now - self.dry_at))
        begins = now if self.dry_at is None else max(now, self.dry_at)
        self.dry_at = begins + samples / self.rate
        self.received += samples
        return begins

    def played(self, now: float) -> int:
        """Samples played by `now`, which is not before the last packet."""
        waiting = 0.0 if self.dry_at is None else max(0.0, self.dry_at - now)
        return max(0, self.received - round(waiting * self.rate))


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
    player = Player(rate)
    for packet in packets:
        begins = player.take(packet.arrived, packet.samples.size)
        if onset is None and peak > 0:
            loud = np.flatnonzero(np.abs(packet.samples) > peak * 10 ** (AUDIBLE_DB / 20))
            onset = begins + float(loud[0]) / rate if loud.size else None
    return Playback(onset, tuple(gap.seconds for gap in player.gaps))
