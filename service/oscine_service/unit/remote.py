"""The port to an engine process: what `DeviceLoop` is in one process, over a socket to another."""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from oscine_engine.errors import Cancelled, InternalError, OscineError, Overloaded, Unavailable
from oscine_engine.events import Done
from oscine_engine.planner import Step
from oscine_engine.port import Deliver, StreamOptions
from oscine_engine.scheduler.turns import Turns, between_s
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_service.unit import wire

if TYPE_CHECKING:
    from oscine_proto.oscine.unit.v1.unit_pb2_grpc import EngineServiceAsyncStub

    Call = grpc.aio.StreamStreamCall[pb.StreamRequest, pb.StreamResponse]

_GONE = (grpc.aio.AioRpcError, asyncio.InvalidStateError)
"""What reading and writing raise when the call has ended: InvalidStateError if that was known before."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A ready engine process. `max_streams`: what it admits at most. `lost`: what to say when it is gone."""

    stub: "EngineServiceAsyncStub"
    max_streams: int
    lost: Callable[[], Unavailable]


class RemotePort:
    """A `Port` for the whole life of a service; engine processes come and go behind it.

    All its state belongs to the event loop it was made in. Nothing here waits for the engine, except `open` for its
    answer, and that ends with the process.
    """

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._streams: set[RemoteStream] = set()
        self._refusal = Unavailable("the engine has not started yet", 1.0)
        self._turns = Turns()

    @property
    def serving(self) -> bool:
        return self._connection is not None

    @property
    def admitted(self) -> int:
        """A stream that was stopped counts until the engine has let go of it."""
        return len(self._streams)

    @property
    def places(self) -> int:
        """Streams that it takes at most, now."""
        return self._connection.max_streams if self._connection is not None else 0

    @property
    def load(self) -> float:
        """Share of its places that are taken, while it serves."""
        return len(self._streams) / self._connection.max_streams if self._connection is not None else 1.0

    @property
    def full(self) -> bool:
        """All places are taken, and none of them is about to be left."""
        return self.load >= 1.0 and not any(stream.ended for stream in self._streams)

    def ages(self, now: float) -> list[float]:
        """Seconds that its streams have been open, by the monotonic clock."""
        return [now - stream.since for stream in self._streams]

    def connect(self, connection: Connection) -> None:
        """A process is ready: streams may be opened."""
        self._connection = connection

    def disconnect(self, reason: Unavailable) -> None:
        """Its process is gone or given up: streams end with `reason`, and new ones are refused with it."""
        self._connection = None
        self._refusal = reason
        for stream in list(self._streams):
            stream.lose(reason)

    def explain(self, reason: Unavailable) -> None:
        """Refuse with `reason` from now on, while there is no process."""
        self._refusal = reason

    async def open(self, options: StreamOptions, deliver: Deliver) -> "RemoteStream":
        """As `Port.open`; when all places are taken without asking the engine."""
        connection = await self._place()
        stream = RemoteStream(connection, options, deliver, self._streams.discard)
        self._streams.add(stream)
        await stream.opened()
        return stream

    @property
    def refusal(self) -> Unavailable:
        """Why there is no engine now."""
        return Unavailable(self._refusal.message, self._refusal.retry_after_s)

    async def _place(self) -> Connection:
        while True:
            if (connection := self._connection) is None:
                raise self.refusal
            if len(self._streams) < connection.max_streams:
                return connection
            leaving = [stream.gone for stream in self._streams if stream.ended]
            if not leaving:
                raise refused([self], self._turns)
            # Whoever stops a stream and opens the next has a place, as in one process.
            await asyncio.wait(leaving, return_when=asyncio.FIRST_COMPLETED)


def refused(full: "Sequence[RemotePort]", turns: Turns) -> Overloaded:
    """What to tell one more who asks at these ports, all of which are full: one place is left at a time."""
    now = time.monotonic()
    ages = [age for port in full for age in port.ages(now)]
    wait = turns.next_s(ages, now, between_s(ages))
    return Overloaded(f"{len(ages)} streams are running, the limit of this service; try again", wait)


class RemoteStream:
    """A `StreamPort` over one call.

    What is sent goes into a box that a task empties, in order. The stream ends here as soon as it is stopped or its
    process is lost, whatever the engine does; `gone` is done when the engine has let go of it too.
    """

    def __init__(
        self,
        connection: Connection,
        options: StreamOptions,
        deliver: Deliver,
        on_gone: "Callable[[RemoteStream], object]",
    ) -> None:
        self._home, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._deliver = deliver
        self._box: deque[pb.StreamRequest] = deque([wire.open_request(options)])
        self._filled = asyncio.Event()
        self._filled.set()
        self._opened: asyncio.Future[None] = self._home.create_future()
        self.since = time.monotonic()
        self.ended = False
        self.gone: asyncio.Future[None] = self._home.create_future()
        self._on_gone = on_gone
        self._carrying = asyncio.create_task(self._carry(connection))

    async def opened(self) -> None:
        """Wait until the engine has admitted the stream. Raises its refusal; if cancelled, the stream is stopped."""
        try:
            await self._opened
        except asyncio.CancelledError:
            self.stop(Cancelled("the listener left before the stream was open"))
            raise

    def speak(self, steps: Sequence[Step], *, mark: bool = False, end: bool = False) -> None:
        if steps or mark or end:
            self._send(wire.speak_request(steps, mark=mark, end=end))

    def taken(self, samples: int) -> None:
        self._send(wire.taken_request(samples))

    def played(self, samples: int) -> None:
        self._send(wire.played_request(samples))

    def stop(self, error: OscineError) -> None:
        def stop() -> None:
            if not self.ended:
                self._put(wire.stop_request(error))
                self._end(error)

        self._at_home(stop)

    def lose(self, reason: Unavailable) -> None:
        """The process is gone, or as good as gone. Called at home."""
        self._end(reason)
        self._let_go()
        self._carrying.cancel()

    def _send(self, request: pb.StreamRequest) -> None:
        self._at_home(lambda: None if self.ended else self._put(request))

    def _put(self, request: pb.StreamRequest) -> None:
        self._box.append(request)
        self._filled.set()

    def _at_home(self, act: Callable[[], None]) -> None:
        """Do it in the event loop's thread: at once if this is it."""
        if threading.get_ident() == self._thread:
            act()
        else:
            with contextlib.suppress(RuntimeError):  # the event loop is closed, and the stream with it
                self._home.call_soon_threadsafe(act)

    def _end(self, outcome: Done | OscineError) -> None:
        if self.ended:
            return
        self.ended = True
        if self._opened.done():
            self._deliver(outcome)
        elif isinstance(outcome, OscineError):
            self._opened.set_exception(outcome)

    async def _carry(self, connection: Connection) -> None:
        call = connection.stub.Stream()
        writing = asyncio.create_task(self._write(call))
        try:
            while not self.ended and isinstance(message := await call.read(), pb.StreamResponse):
                self._receive(message, connection)
            self._end(InternalError("the engine left a stream without a last word"))
        except _GONE:
            self._end(connection.lost())
        except OscineError as error:  # a message that is none
            self._end(error)
        finally:
            writing.cancel()
            call.cancel()
            self._let_go()

    async def _write(self, call: "Call") -> None:
        with contextlib.suppress(*_GONE):  # the reading side meets the same, and says so
            while await self._filled.wait():
                self._filled.clear()
                while self._box:
                    await call.write(self._box.popleft())

    def _receive(self, message: pb.StreamResponse, connection: Connection) -> None:
        if message.HasField("opened"):
            if not self._opened.done():
                self._opened.set_result(None)
            return
        event = wire.event(message)
        if isinstance(event, Unavailable):
            # It knows what has failed, and its supervisor knows what follows.
            event = Unavailable(event.message, connection.lost().retry_after_s)
        if isinstance(event, Done | OscineError):
            # Before it is delivered: whoever hears of the end may open the next one.
            self._let_go()
            self._end(event)
        elif not self.ended:
            self._deliver(event)

    def _let_go(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
            self._on_gone(self)
