"""Where we own the clock: a frame every 20 ms, no matter how late the one before was.

The n-th frame of a call is due n * 20 ms after its first, by the monotonic clock, so that lateness does not add up.
What was missed while the event loop was held up is made up for at once.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from oscine_service.audio import Format
from oscine_service.telephony.frames import FRAME_S, Frame
from oscine_service.telephony.track import Track

LEAD_S = 10.0
"""Of speech that may wait in a call."""
TELL_EVERY = 10
"""Frames between two reports of what was heard."""
LOST_S = 1.0
"""Beats that are later than this are left out: who waited for them has given up."""


class Clock:
    """One for all calls of an event loop; it runs while there are any."""

    def __init__(self) -> None:
        self._beats: dict[object, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._begin = 0.0
        self._count = 0
        self.skipped = 0
        """Beats that were left out."""

    @contextmanager
    def beating(self, beat: Callable[[], None]) -> Iterator[None]:
        """Call `beat` every 20 ms while the block runs. It must not raise, nor take long."""
        key = object()
        self._beats[key] = beat
        if self._timer is None:
            self._loop = asyncio.get_running_loop()
            self._begin, self._count = self._loop.time(), 0
            self._wait()
        try:
            yield
        finally:
            del self._beats[key]
            if not self._beats and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _wait(self) -> None:
        self._timer = self._loop.call_at(self._begin + self._count * FRAME_S, self._due)

    def _due(self) -> None:
        late = self._loop.time() - self._begin - self._count * FRAME_S
        if late > LOST_S:
            lost = int(late / FRAME_S)
            self.skipped += lost
            self._count += lost
            late -= lost * FRAME_S
        for _ in range(1 + max(0, int(late / FRAME_S))):
            self._count += 1
            for beat in list(self._beats.values()):
                beat()
        self._wait()


class RealTime:
    """A `Player` that a clock beats. send: called once a beat, with the frame that is due, or None where there is
    nothing to say."""

    def __init__(self, format: Format, send: Callable[[Frame | None], None], *, lead_s: float = LEAD_S) -> None:
        self.format = format
        self.tell: Callable[[], None] = lambda: None
        self._send = send
        self._lead = round(lead_s * format.sample_rate)
        self._track = Track(format)
        self._untold = 0
        self._room = asyncio.Event()

    @property
    def given(self) -> int:
        return self._track.given

    @property
    def heard(self) -> int:
        """What has been sent."""
        return self._track.heard

    def beat(self) -> None:
        """20 ms have passed."""
        if self._track.starved:
            # Half a frame and nothing behind it: it is late already, and would be later with what is to come.
            self._track.flush()
        frame, reached = self._track.next()
        self._send(frame)
        if frame is None:
            return
        self._untold += 1
        if reached or self._untold >= TELL_EVERY:
            self._tell()

    async def write(self, frames: Sequence[bytes], samples: int) -> None:
        self._track.write(frames, samples)
        while self._track.ahead > self._lead:
            self._room.clear()
            await self._room.wait()

    async def point(self) -> None:
        if self._track.ahead:
            self._track.point()
        else:
            self._tell()

    async def flush(self) -> None:
        self._track.flush()
        await self.point()

    async def clear(self) -> int:
        heard = self._track.clear()
        self._tell()
        return heard

    def _tell(self) -> None:
        self._untold = 0
        self._room.set()
        self.tell()
