"""Where the carrier owns the clock: speech is sent ahead of its listener, within a credit, and marks that come back say
what was heard.

A mark that was heard is echoed then. One that a clear took away may be echoed as well, and must not count: marks of
before a clear are told apart by their names. Between two marks the listener is taken to hear on in real time.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from oscine_service.audio import Format
from oscine_service.telephony.frames import FRAME_S, Cutter, Frame

CREDIT_S = 10.0
"""How far ahead of its listener speech is sent."""
MARK_S = 0.2
"""From one mark to the next, at least."""
MESSAGE_FRAMES = 10
"""In one message, at most."""


class Wire(Protocol):
    """Writes what a carrier reads. Each may wait for the connection, and keeps the order in which they were called."""

    async def media(self, sound: bytes) -> None:
        """One or more whole frames."""

    async def mark(self, name: str) -> None:
        """Answered through `Burst.marked`, with that name, when all before it was heard."""

    async def clear(self) -> None:
        """Drop what was not heard yet."""


@dataclass(frozen=True, slots=True)
class _Mark:
    name: str
    position: int


class Burst:
    """A `Player` over a carrier's connection. credit_s: what the carrier can hold. message_frames: in one message."""

    def __init__(
        self,
        format: Format,
        wire: Wire,
        *,
        credit_s: float = CREDIT_S,
        message_frames: int = MESSAGE_FRAMES,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.format = format
        self.tell: Callable[[], None] = lambda: None
        self._wire = wire
        self._credit = round(credit_s * format.sample_rate)
        self._message = message_frames
        self._now = now
        self._cutter = Cutter(format)
        self._marks: deque[_Mark] = deque()
        self._given = self._sent = self._marked = self._heard = 0
        self._since = now()
        self._epoch = self._number = 0
        self._room = asyncio.Event()

    @property
    def given(self) -> int:
        return self._given

    @property
    def heard(self) -> int:
        went_by = round((self._now() - self._since) * self.format.sample_rate)
        bound = self._marks[0].position if self._marks else self._sent
        return min(bound, self._heard + max(0, went_by))

    def marked(self, name: str) -> None:
        """A mark has come back; "" is the oldest that is waited for. One that is not says nothing."""
        if not any(name in ("", mark.name) for mark in self._marks):
            return
        while True:
            mark = self._marks.popleft()
            if name in ("", mark.name):
                break
        self._heard, self._since = mark.position, self._now()
        self._room.set()
        self.tell()

    async def write(self, frames: Sequence[bytes], samples: int) -> None:
        epoch = self._epoch
        self._given += samples
        await self._sound(list(self._cutter.push(frames, samples)), epoch)
        while epoch == self._epoch and self._given - self._heard > self._credit:
            self._room.clear()
            await self._room.wait()

    async def point(self) -> None:
        if self._marked < self._sent:
            await self._mark()
        elif not self._marks:
            self.tell()

    async def flush(self) -> None:
        epoch = self._epoch
        if (rest := self._cutter.rest()) is not None:
            await self._sound([rest], epoch)
        if epoch == self._epoch:
            await self.point()

    async def clear(self) -> int:
        heard = self.heard
        busy = self._sent > heard
        self._epoch += 1
        self._marks.clear()
        self._cutter.drop()
        self._given = self._sent = self._marked = self._heard = heard
        self._room.set()
        if busy:
            await self._wire.clear()
        self.tell()
        return heard

    async def _sound(self, frames: list[Frame], epoch: int) -> None:
        for at in range(0, len(frames), self._message):
            if epoch != self._epoch:
                return
            some = frames[at : at + self._message]
            if not self._marks and self.heard == self._sent:
                self._heard, self._since = self._sent, self._now()  # it was silent until now
            self._sent += sum(frame.samples for frame in some)
            await self._wire.media(b"".join(frame.data for frame in some))
            if epoch == self._epoch and self._sent - self._marked >= MARK_S * self.format.sample_rate:
                await self._mark()

    async def _mark(self) -> None:
        self._number += 1
        mark = _Mark(f"{self._epoch}.{self._number}", self._sent)
        self._marks.append(mark)
        self._marked = self._sent
        await self._wire.mark(mark.name)


assert MARK_S >= FRAME_S
