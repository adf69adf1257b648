"""Calls without a carrier, whose time passes as fast as a test likes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from oscine_service.audio import Encoding, Format
from oscine_service.telephony.frames import Frame
from oscine_service.telephony.realtime import RealTime
from oscine_service.telephony.sink import Sink, Sinks

MULAW = Format(Encoding.MULAW, 8000)


@dataclass
class Line:
    """sent: what was sent each 20 ms, None where there was nothing to say. going: time passes."""

    sink: Sink
    going: asyncio.Event
    sent: list[Frame | None] = field(default_factory=list)
    hung_up: bool = False

    @property
    def spoken(self) -> list[Frame]:
        return [frame for frame in self.sent if frame is not None]

    @property
    def sound(self) -> bytes:
        return b"".join(frame.data for frame in self.spoken)


@asynccontextmanager
async def line(
    sinks: Sinks, name: str = "line", owner: str = "", format: Format = MULAW, beat_s: float = 0.001
) -> AsyncIterator[Line]:
    """A call that is up while the block runs; 20 ms of it take `beat_s`."""
    sent: list[Frame | None] = []
    player = RealTime(format, sent.append)

    def hang_up() -> None:
        found.hung_up = True

    going = asyncio.Event()
    going.set()
    found = Line(Sink((name,), player, kind="test", owner=owner, hang_up=hang_up), going, sent)

    async def beat() -> None:
        while True:
            await going.wait()
            player.beat()
            await asyncio.sleep(beat_s)

    with sinks.up(found.sink):
        beating = asyncio.create_task(beat())
        try:
            yield found
        finally:
            beating.cancel()
