"""The engine's side of the socket: streams of a device, for one service process."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import grpc

from oscine_engine.errors import Cancelled, InternalError, OscineError, Unavailable
from oscine_engine.events import Done
from oscine_engine.port import PortEvent, StreamPort
from oscine_engine.runtime.device import Device
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_proto.oscine.unit.v1.unit_pb2_grpc import EngineServiceServicer, add_EngineServiceServicer_to_server
from oscine_service.unit import figures_wire, wire
from oscine_service.unit.options import SERVER

log = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[pb.StreamRequest, pb.StreamResponse]"
LAST_WORD_S = 30.0
"""For the other side to take the last event of a stream and hang up."""


class Host(EngineServiceServicer):
    """EngineService over one started device. `max_streams` is what the device was made for."""

    def __init__(self, device: Device, max_streams: int) -> None:
        self._device = device
        self._max_streams = max_streams

    async def Describe(self, request: pb.DescribeRequest, context: object) -> pb.DescribeResponse:
        voices = [
            pb.Voice(name=name, language=voice.language, description=voice.description)
            for name, voice in self._device.voices.items()
        ]
        return pb.DescribeResponse(voices=voices, sample_rate=self._device.sample_rate, max_streams=self._max_streams)

    async def Beat(self, request: pb.BeatRequest, context: object) -> pb.BeatResponse:
        loop = self._device.loop
        figures = await loop.figures()
        # As the loop's thread counted them: it may be changing them now.
        held = {"lm": 0, "flow": 0, "voices": 0} if figures is None else figures.held_pages
        return pb.BeatResponse(
            serving=loop.serving,
            streams=loop.admitted,
            pages=held["lm"] + held["flow"] - held["voices"],
            figures=None if figures is None else figures_wire.message(figures),
        )

    # Written to and not yielded from: a generator that waits at a yield when its call is cancelled is closed by nobody.
    async def Stream(  # type: ignore[override]
        self, request_iterator: AsyncIterator[pb.StreamRequest], context: Context
    ) -> None:
        first = await anext(request_iterator, None)
        if first is None or not first.HasField("open"):
            error = InternalError("the two processes of this unit do not match: a stream begins with open")
            await context.write(wire.response(error))
            return
        home = asyncio.get_running_loop()
        events: asyncio.Queue[PortEvent] = asyncio.Queue()

        def deliver(event: PortEvent) -> None:
            try:
                home.call_soon_threadsafe(events.put_nowait, event)
            except RuntimeError:  # the event loop is closed: this process is ending, and its service knows
                log.debug("a stream's %s came after the end", type(event).__name__)

        try:
            stream = await self._device.loop.open(wire.options(first.open), deliver)
        except OscineError as refusal:
            await context.write(wire.response(refusal))
            return
        obeying = asyncio.create_task(_obey(request_iterator, stream))
        try:
            await context.write(wire.OPENED)
            while True:
                event = self._told(await events.get())
                await context.write(wire.response(event))
                if isinstance(event, Done | OscineError):
                    # The other side hangs up: if this one did, what that is still writing would meet a call that has
                    # ended, and grpc would give it an error in place of the last event.
                    await asyncio.wait([obeying], timeout=LAST_WORD_S)
                    return
        finally:
            obeying.cancel()
            stream.stop(Cancelled("the service process has left"))

    def _told(self, event: PortEvent) -> PortEvent:
        """What ends with the whole engine may be tried again: the next process is on its way."""
        if isinstance(event, InternalError) and not self._device.loop.serving:
            return Unavailable(event.message)
        return event


@asynccontextmanager
async def hosting(device: Device, max_streams: int, socket: str) -> AsyncIterator[None]:
    """Serve `device` on a new socket at the path `socket` until the block is left; streams then end at once.

    Makes the socket's folder, which only this user can enter. Raises Unavailable if it cannot, or somebody else has.
    """
    folder = Path(socket).parent
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise Unavailable(f"the engine has no place for its socket: {folder}: {error.strerror}") from error
    server = grpc.aio.server(options=SERVER)
    add_EngineServiceServicer_to_server(Host(device, max_streams), server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


async def _obey(requests: AsyncIterator[pb.StreamRequest], stream: StreamPort) -> None:
    try:
        async for request in requests:
            _apply(request, stream)
    except OscineError as error:
        stream.stop(error)
    except Exception as error:
        # Bytes that are no request; whoever sent them would wait for this stream for ever.
        stream.stop(InternalError(f"the two processes of this unit do not match: {error}"))


def _apply(request: pb.StreamRequest, stream: StreamPort) -> None:
    match request.WhichOneof("request"):
        case "speak":
            speak = request.speak
            stream.speak(wire.steps(speak.steps), mark=speak.mark, end=speak.end)
        case "taken":
            stream.taken(request.taken.samples)
        case "played":
            stream.played(request.played.samples)
        case "stop":
            stream.stop(wire.error(request.stop.error))
        case other:
            raise InternalError(f"the two processes of this unit do not match: a request is {other}")
