"""Which stage runs next: a pure function of plain data.

A tick serves every stream that is ready in the picked stage, so the choice is only whose need decides. In order:

1. URGENT   a listener runs dry within `margin_s`: the nearest deadline first.
2. FIRST    a stream that has sent nothing yet: in order of arrival.
3. AHEAD    everybody else: the nearest deadline first.

The chosen stream runs its most downstream ready stage: what is closest to sound goes first, so that a chunk once begun
becomes audio before the language model runs further ahead.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Stage(IntEnum):
    """Stages of one stream, upstream to downstream."""

    LM = 0
    FLOW = 1
    VOCODER = 2


@dataclass(frozen=True, slots=True)
class StreamView:
    """What the policy knows of one stream. Times in seconds of one monotonic clock.

    `ready` holds the stages that could run now; `dry_at` is when the listener runs out of sent audio, None before the
    first packet.
    """

    arrived: float
    dry_at: float | None
    ready: frozenset[Stage]


def pick(streams: Iterable[StreamView], now: float, margin_s: float = 0.25) -> Stage | None:
    """The stage to tick next, or None when no stream can do anything."""
    best: tuple[int, float] | None = None
    stage: Stage | None = None
    for view in streams:
        if not view.ready:
            continue
        if view.dry_at is None:
            rank = (1, view.arrived)
        elif view.dry_at - now < margin_s:
            rank = (0, view.dry_at)
        else:
            rank = (2, view.dry_at)
        if best is None or rank < best:
            best, stage = rank, max(view.ready)
    return stage
