"""The calls over RTP of a service."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

from oscine_engine.errors import InvalidInput, Unavailable
from oscine_service.telephony.rtp import offer
from oscine_service.telephony.rtp.call import Call
from oscine_service.telephony.rtp.clock import Clock, Member
from oscine_service.telephony.rtp.ports import Ports, check_files
from oscine_service.telephony.rtp.stream import Stream
from oscine_service.telephony.sink import Sinks


@dataclass(frozen=True, slots=True)
class Place:
    """host: the address that packets are taken at; public: that is answered, where the other side sees another. ports:
    first and last; 0 and 0 let the system pick. patience_s: as `Call` has it."""

    host: str
    public: str = ""
    ports: tuple[int, int] = (0, 0)
    patience_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that is up."""

    name: str
    sdp: str


class Exchange:
    """Made by `exchange`. Belongs to one event loop."""

    def __init__(self, place: Place, sinks: Sinks) -> None:
        self._place = place
        self._sinks = sinks
        self._ports = Ports(place.host, *place.ports)
        self._loop = asyncio.get_running_loop()
        self.clock = Clock(self._tell)
        self._running: set[asyncio.Task[None]] = set()
        self._calls: set[Call] = set()
        self._closed = False

    async def answer(self, text: str, name: str | None, owner: str) -> Answered:
        """Put up the call that is offered, and say where it is taken. name: of the call; None makes one up. owner:
        whose conversations may speak into it.

        Raises InvalidInput for offers that cannot be answered, Overloaded without a free port, CallTaken, and
        CodecMissing.
        """
        if self._closed:
            raise Unavailable("the service is stopping, and takes no new calls: call again in a moment", 1.0)
        understood = offer.read(text)
        family = ":" in self._place.host
        if (":" in understood.peer.address) != family:
            raise InvalidInput(f"offer: calls are taken over {'IPv6' if family else 'IPv4'} here")
        pair = self._ports.take(mux=understood.peer.mux)
        name = name or f"call_{secrets.token_hex(8)}"
        public = self._place.public or self._place.host
        with ExitStack() as until:
            try:
                call = Call(name, understood, pair, public=public, owner=owner, patience_s=self._place.patience_s)
            except BaseException:
                pair.close()
                raise
            try:
                await call.start(self.clock, self._sinks, until)
            except OSError as error:
                check_files(error)
                where = understood.peer.address
                raise InvalidInput(f"offer: nothing can be sent to {where}: {error.strerror or error}") from error
            self._calls.add(call)
            task = asyncio.create_task(self._run(call, until.pop_all()))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return Answered(name, call.answer)

    async def close(self) -> None:
        """Hang all up."""
        self._closed = True
        for call in self._calls:
            call.hang_up("the service stops")
        if self._running:
            await asyncio.wait(self._running)

    async def _run(self, call: Call, until: ExitStack) -> None:
        with until:
            try:
                await call.run()
            finally:
                self._calls.discard(call)

    def _tell(self, members: list[Member]) -> None:
        """In the clock's thread."""
        self._loop.call_soon_threadsafe(_changed, members)


def _changed(members: list[Member]) -> None:
    for member in members:
        assert isinstance(member, Stream)
        member.changed()


@asynccontextmanager
async def exchange(place: Place, sinks: Sinks) -> AsyncIterator[Exchange]:
    """Take calls until the block is left, which ends those that are up. Raises InvalidInput for an address that cannot
    be used."""
    made = Exchange(place, sinks)
    try:
        yield made
    finally:
        await made.close()
