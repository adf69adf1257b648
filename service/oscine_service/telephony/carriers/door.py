"""One call of a carrier, from its WebSocket's opening to its end."""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from oscine_codecs.errors import CodecError
from oscine_engine.errors import InvalidInput, OscineError
from oscine_service.conversation import Calls
from oscine_service.errors import GOING, INTERNAL, POLICY
from oscine_service.security import principal
from oscine_service.security.principal import Grant
from oscine_service.telephony.burst import Burst
from oscine_service.telephony.carriers.carrier import Began, CallerSound, Carrier, MarkHeard, Message, Told
from oscine_service.telephony.frames import Frame
from oscine_service.telephony.realtime import RealTime
from oscine_service.telephony.sink import Sink
from oscine_service.websocket.accepting import accepted
from oscine_service.websocket.closing import NORMAL, close

log = logging.getLogger(__name__)

START_S = 10.0
"""For the message that a call begins with."""
MOST_MESSAGE = 1 << 17
"""Of a carrier; they are read on the event loop."""
MOST_UNSENT = 50
"""Frames of a paced call that the connection does not take: a second of them."""


class Connection:
    """Made for one accepted WebSocket; `run` it once."""

    def __init__(self, websocket: WebSocket, carrier: Carrier, calls: Calls) -> None:
        self._websocket = websocket
        self._carrier = carrier
        self._calls = calls
        self._closed = False
        self._room = asyncio.Event()
        self._room.set()
        self._received = self._cleared = 0
        self._burst: Burst | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            principal.current().require(Grant.SPEAK)
            began = await self._began()
            if began is not None:
                await self._call(began)
            await self._close(NORMAL, "the call has ended")
        except WebSocketDisconnect:
            return
        except (OscineError, CodecError) as refusal:
            log.info("a call of %s was refused: %s", self._carrier.kind, refusal)
            await self._close(POLICY, str(refusal))
        except Exception:
            log.exception("a call of %s met a fault that was not foreseen", self._carrier.kind)
            await self._close(INTERNAL, "a fault that the service did not foresee")
        finally:
            for task in self._tasks:
                task.cancel()

    # What players call.

    async def media(self, sound: bytes) -> None:
        cleared = self._cleared
        await self._room.wait()
        if cleared == self._cleared:
            await self._write(self._carrier.media(sound))

    async def mark(self, name: str) -> None:
        await self._write(self._carrier.mark(name))

    async def clear(self) -> None:
        self._cleared += 1
        self._room.set()  # for what it held there is room again
        await self._write(self._carrier.clear())

    async def _began(self) -> Began | None:
        """None where the call was over before."""
        try:
            async with asyncio.timeout(START_S):
                while True:
                    match self._carrier.read(await self._next()):
                        case Began() as began:
                            return began
                        case Told.OVER:
                            return None
        except TimeoutError:
            raise InvalidInput(f"no call was begun within {START_S:g} s") from None

    async def _call(self, began: Began) -> None:
        if began.paced:
            player: Burst | RealTime = RealTime(began.format, self._send_paced)
        else:
            carrier = self._carrier
            player = self._burst = Burst(
                began.format, self, credit_s=carrier.credit_s, message_frames=carrier.message_frames
            )
        sink = Sink(
            began.names,
            player,
            kind=self._carrier.kind,
            owner=principal.current().owner,
            hang_up=lambda: self._start(self._hang_up()),
            details=lambda: {"received_bytes": self._received},
        )
        with self._calls.sinks.up(sink):
            self._start(self._stop_with_the_service(sink))
            if isinstance(player, RealTime):
                self._unsent: deque[Frame] = deque()
                self._wanted = asyncio.Event()
                self._start(self._send_all())
                with self._calls.sinks.clock.beating(player.beat):
                    await self._listen()
            else:
                await self._listen()

    async def _listen(self) -> None:
        """Until the call is over."""
        complained = False
        while True:
            message = await self._next()
            try:
                news = self._carrier.read(message)
            except InvalidInput as error:
                # A carrier that says one thing more than we know goes on being served.
                if not complained:
                    log.warning("%s sends what is not understood: %s", self._carrier.kind, error)
                complained = True
                continue
            match news:
                case CallerSound(size=size):
                    self._received += size
                case MarkHeard(name=name) if self._burst is not None:
                    self._burst.marked(name)
                case Told.FULL:
                    self._room.clear()
                case Told.ROOM:
                    self._room.set()
                case Told.OVER:
                    return

    async def _next(self) -> Message:
        received = await self._websocket.receive()
        if received["type"] != "websocket.receive":
            raise WebSocketDisconnect(GOING)
        text: str | None = received.get("text")
        message = received.get("bytes") or b"" if text is None else text
        if len(message) > MOST_MESSAGE:
            raise InvalidInput(f"a message of {len(message)} characters; carriers' have at most {MOST_MESSAGE}")
        return message

    async def _write(self, message: Message) -> None:
        """Nothing, where nobody is there any more: who reads finds out."""
        if self._closed:
            return
        try:
            if isinstance(message, str):
                await self._websocket.send_text(message)
            else:
                await self._websocket.send_bytes(message)
        except (WebSocketDisconnect, RuntimeError):
            self._closed = True

    def _send_paced(self, frame: Frame | None) -> None:
        # Asterisk fills pauses with silence by itself.
        if frame is None:
            return
        if len(self._unsent) >= MOST_UNSENT:
            self._unsent.popleft()
        self._unsent.append(frame)
        self._wanted.set()

    async def _send_all(self) -> None:
        while True:
            while self._unsent:
                await self._write(self._carrier.media(self._unsent.popleft().data))
            self._wanted.clear()
            await self._wanted.wait()

    async def _hang_up(self) -> None:
        if (words := self._carrier.hang_up()) is not None:
            await self._write(words)
        await self._close(NORMAL, "the call was ended here")

    async def _stop_with_the_service(self, sink: Sink) -> None:
        await self._calls.closed()
        await sink.idle()
        await self._close(GOING, "the service is stopping")

    async def _close(self, code: int, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        await close(self._websocket, code, reason)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def serve(websocket: WebSocket, carrier: Carrier, calls: Calls) -> None:
    """One call, from its WebSocket's opening to its end."""
    if await accepted(websocket, calls, carrier.subprotocols):
        await Connection(websocket, carrier, calls).run()
