"""What an engine has done since it started, in numbers: plain data, and the counting of it.

All counts only go up while an engine lives. Times in seconds.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from oscine_engine.scheduler.views import Stage

TICK_BOUNDS = (0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.008, 0.012, 0.016, 0.024, 0.032, 0.05, 0.1, 0.25)
"""A step takes half a millisecond on a GPU, and tens on a slow core."""
BATCH_BOUNDS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
WAIT_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
PACKET_BOUNDS = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 2.0, 5.0)


class Standing(IntEnum):
    """What an open stream's time goes by with.

    COMPUTING: there is something to compute for it. TEXT: it is in the midst of what it says and waits for more text.
    LISTENER: enough is made, and waits to be played. IDLE: it was asked for nothing, or has said all of that.
    """

    COMPUTING = 0
    TEXT = 1
    LISTENER = 2
    IDLE = 3


@dataclass(frozen=True, slots=True)
class Histogram:
    """counts: of values up to each of `bounds` from the one before on, and of those beyond. total: the values' sum."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True)
class Figures:
    """ticks: seconds of a tick, and batches: streams in one, by stage. queued: from a stream's first text that sufficed
    to say an id to the first step that read it. first_packets: from there to the first samples. stood: what streams
    spent their time with. streams: open now; expecting: of them, those whose first packet is being made.

    underruns, starved: how often listeners ran dry for want of computing, and of text, and for how long.
    speech_ids: said by the language model in sentences that are over, and reads: streams in all its steps, so that a
    step says as many as the first has of the second. chances: of each guess of a draft, that it comes true if those
    before it did. flow_pages: in all. held_pages: of the pools "lm" and "flow" and, of the latter, "voices".
    """

    ticks: Mapping[Stage, Histogram]
    batches: Mapping[Stage, Histogram]
    queued: Histogram
    first_packets: Histogram
    stood: Mapping[Standing, float]
    streams: int
    expecting: int
    segments: int
    audio_s: float
    speech_ids: int
    reads: int
    underruns: int
    underrun_s: float
    starved: int
    starved_s: float
    chances: tuple[float, ...]
    flow_pages: int
    held_pages: Mapping[str, int]


class Counts:
    """A histogram in the making."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def read(self) -> Histogram:
        return Histogram(self._bounds, tuple(self._counts), self._total)


@dataclass(slots=True)
class Tally:
    """What the loop counts up. The rest of `Figures` is of streams, and added up when asked for."""

    ticks: tuple[Counts, ...] = field(default_factory=lambda: tuple(Counts(TICK_BOUNDS) for _ in Stage))
    batches: tuple[Counts, ...] = field(default_factory=lambda: tuple(Counts(BATCH_BOUNDS) for _ in Stage))
    queued: Counts = field(default_factory=lambda: Counts(WAIT_BOUNDS))
    first_packets: Counts = field(default_factory=lambda: Counts(PACKET_BOUNDS))
    stood: list[float] = field(default_factory=lambda: [0.0] * len(Standing))
    reads: int = 0
    segments: int = 0
    samples: int = 0
    speech_ids: int = 0
    underruns: int = 0
    underrun_s: float = 0.0
    starved: int = 0
    starved_s: float = 0.0

    def ticked(self, stage: Stage, streams: int, seconds: float) -> None:
        """A tick of so many streams took so long."""
        self.ticks[stage].add(seconds)
        self.batches[stage].add(streams)
        if stage is Stage.LM:
            self.reads += streams
