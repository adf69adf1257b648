"""What the device loop tells an observer: every tick with its cost, and what each stream said and became.

For measuring and tracing; nothing is gathered unless an observer is given. A tick comes before what it brought about.
The observer is called in the loop's thread, between ticks, so it must be quick, and what it raises is a fault of the
loop. A stream is named by its session's seed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from oscine_engine.lm.interleave import Prompt
from oscine_engine.scheduler.views import Stage


@dataclass(frozen=True, slots=True)
class Ticked:
    """One tick of `stage` for `seeds`. began: monotonic clock. wall_s, cpu_s: what it took, and of that the CPU time
    of the loop's thread (which leaves out what other processes took, and other threads of the same tick).

    Ticks that were not waited for are told of when the next one that was is over; their shares of `wall_s` are
    estimates, whose sum is not.
    """

    stage: Stage
    seeds: tuple[int, ...]
    began: float
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Solved:
    """The flow finished a chunk of a session's `segment` (from 0): mel [frames, 80]. Not to be changed."""

    seed: int
    segment: int
    mel: Tensor


@dataclass(frozen=True, slots=True)
class Said:
    """A segment has sounded to its end: its speech ids, and all that decided them.

    draws: (position, seed) pairs by rising position, the first at 0: from which id on which seed was drawn with; more
    than one pair after a run-away was tried again.
    """

    seed: int
    segment: int
    ids: tuple[int, ...]
    prompt: Prompt
    text: tuple[int, ...]
    interleaved: bool
    draws: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Left:
    """A stream has ended and holds nothing any more. at: monotonic clock."""

    seed: int
    at: float


Trace: TypeAlias = Ticked | Solved | Said | Left
Observe: TypeAlias = Callable[[Trace], object]
