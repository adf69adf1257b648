"""A port that plays a recording in real time, as an engine would hand it out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oscine_engine.errors import OscineError
from oscine_engine.events import Audio, Done, Stats
from oscine_engine.planner import Step
from oscine_engine.port import Deliver, Progress, StreamOptions

RATE = 24000
FIRST, NEXT = 7672, 24000
"""Samples of the engine's packets: a first chunk of 10 ids, and whole chunks of 25."""
LEAD_S = 0.03
"""A packet is handed out so long before its listener runs dry."""


class ReplayPort:
    """A `Port`. Each stream says `seconds` of `samples`, from a place of its own, as soon as it has any text.

    samples: a second or more of them. total: how many each stream says. begun: by seed, when each stream's first packet
    was handed out, in seconds of the monotonic clock.
    """

    serving = True

    def __init__(self, samples: NDArray[np.float32], seconds: float) -> None:
        self._samples = np.concatenate([samples, samples])
        self._length = samples.size
        self.total = round(seconds * RATE)
        self._streams: set[ReplayStream] = set()
        self.begun: dict[int, float] = {}

    @property
    def admitted(self) -> int:
        return len(self._streams)

    async def open(self, options: StreamOptions, deliver: Deliver) -> ReplayStream:
        stream = ReplayStream(self, options.seed, deliver)
        self._streams.add(stream)
        return stream

    def left(self, stream: ReplayStream) -> None:
        self._streams.discard(stream)

    def packet(self, seed: int, start: int, count: int) -> NDArray[np.float32]:
        """Arrays of their own, as an engine's are, and no two streams alike."""
        place = (seed * 7919 + start) % self._length
        return self._samples[place : place + count].copy()


class ReplayStream:
    """A `StreamPort`, of one event loop."""

    def __init__(self, port: ReplayPort, seed: int, deliver: Deliver) -> None:
        self._port, self._seed, self._deliver = port, seed, deliver
        self._playing: asyncio.Task[None] | None = None

    def speak(self, steps: Sequence[Step], *, mark: bool = False, end: bool = False) -> None:
        if steps and self._playing is None:
            self._playing = asyncio.create_task(self._play())

    def taken(self, samples: int) -> None:
        """It is not ahead of anybody."""

    def played(self, samples: int) -> None:
        """Likewise."""

    def stop(self, error: OscineError) -> None:
        if self._playing is not None:
            self._playing.cancel()
        self._port.left(self)
        self._deliver(error)

    async def _play(self) -> None:
        began = self._port.begun[self._seed] = time.monotonic()
        self._deliver(Progress(working=True, answered=0))
        start = number = 0
        while start < self._port.total:
            await asyncio.sleep(max(0.0, began + start / RATE - LEAD_S - time.monotonic()))
            count = min(NEXT if start else FIRST, self._port.total - start)
            self._deliver(Audio(number, start, self._port.packet(self._seed, start, count)))
            start, number = start + count, number + 1
        self._deliver(Done(Stats(start / RATE, 1, start * 25 // RATE, 0.0, 0.0)))
        self._port.left(self)
