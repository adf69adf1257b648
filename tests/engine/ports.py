"""A port whose engine the test plays: it keeps what sessions hand over and delivers when told to. A clock, likewise."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from oscine_engine.errors import Cancelled, OscineError, Overloaded
from oscine_engine.events import Audio, Done, Flushed, Stats
from oscine_engine.planner import Begin, End, Ids, Step
from oscine_engine.port import Deliver, PortEvent, Progress, StreamOptions


class HandTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class HandClock:
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()
        self._timers: list[tuple[float, int, HandTimer]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object], /) -> HandTimer:
        timer = HandTimer(callback)
        heapq.heappush(self._timers, (self.now + delay, next(self._order), timer))
        return timer

    def pass_s(self, seconds: float) -> None:
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
        self.now = end

    @property
    def waiting(self) -> int:
        """Timers that would still go off."""
        return sum(timer.callback is not None for _, _, timer in self._timers)


@dataclass(eq=False)
class HandStream:
    """One stream; `turn` moves it on as an engine would. Audio counts up, so that a lost sample shows."""

    options: StreamOptions
    deliver: Deliver
    said: list[list[int]] = field(default_factory=list)
    """Text ids of each segment that was begun."""
    queue: deque[int | None] = field(default_factory=deque)
    """What has not sounded to its end: places in `said`, None for marks."""
    writing: bool = False
    ending: bool = False
    ended: PortEvent | None = None
    progress: Progress = field(default_factory=lambda: Progress(working=False, answered=0))
    packets: int = 0
    sent: int = 0
    taken_: int = 0
    played_: int | None = None
    segments: int = 0

    def speak(self, steps: Sequence[Step], *, mark: bool = False, end: bool = False) -> None:
        if self.ended is not None:
            return
        assert not self.ending, "the input was closed"
        for step in steps:
            match step:
                case Begin():
                    assert not self.writing
                    self.writing = True
                    self.queue.append(len(self.said))
                    self.said.append([])
                case Ids(ids=ids):
                    assert self.writing
                    self.said[-1] += ids
                case End():
                    assert self.writing
                    self.writing = False
        if mark:
            assert not self.writing, "a flush ends what is being written"
            self.queue.append(None)
        if end:
            assert not self.writing, "the end ends what is being written"
        self.ending = end
        self._progress(self._runnable)

    def taken(self, samples: int) -> None:
        self.taken_ += samples
        assert self.taken_ <= self.sent

    def played(self, samples: int) -> None:
        assert samples <= self.taken_
        self.played_ = samples

    def stop(self, error: OscineError) -> None:
        self.end(error)

    def end(self, outcome: Done | OscineError) -> None:
        if self.ended is None:
            self.ended = outcome
            self.deliver(outcome)

    @property
    def _runnable(self) -> bool:
        """There is an item that can sound to its end."""
        return bool(self.queue) and not (self.writing and self.queue[0] == len(self.said) - 1)

    def sound(self, samples: int) -> None:
        """A packet of the first segment."""
        if self.ended is None and samples:
            wave = np.arange(self.sent, self.sent + samples, dtype=np.float32)
            packet = Audio(self.packets, self.sent, wave)
            self.packets, self.sent = self.packets + 1, self.sent + samples
            self.deliver(packet)

    def turn(self, samples: int = 960) -> None:
        """One segment to its end, or one mark answered, or the stream ended."""
        if self.ended is not None:
            return
        if self._runnable:
            if self.queue.popleft() is None:
                self.deliver(Flushed(self.sent))
            else:
                self.segments += 1
                self.sound(samples)
            self._progress(self._runnable, self.progress.answered + 1)
        if self.ending and not self.queue:
            self.end(Done(Stats(self.sent / 24000, self.segments, 0, 0.0, 0.0)))

    def run(self) -> None:
        while self.ended is None and (self._runnable or (self.ending and not self.queue)):
            self.turn()

    def _progress(self, working: bool, answered: int | None = None) -> None:
        progress = Progress(working, self.progress.answered if answered is None else answered)
        if progress != self.progress:
            self.progress = progress
            self.deliver(progress)


class HandPort:
    """Opens up to `most` streams at once."""

    serving = True

    def __init__(self, most: int = 4) -> None:
        self.most = most
        self.streams: list[HandStream] = []

    @property
    def admitted(self) -> int:
        return sum(stream.ended is None for stream in self.streams)

    async def open(self, options: StreamOptions, deliver: Deliver) -> HandStream:
        if not self.serving:
            raise Cancelled("not running")
        if self.admitted >= self.most:
            raise Overloaded("full", 1.0)
        self.streams.append(HandStream(options, deliver))
        return self.streams[-1]


async def settle() -> None:
    """Let what was delivered reach its session, and what waits for it go on."""
    for _ in range(5):
        await asyncio.sleep(0)
