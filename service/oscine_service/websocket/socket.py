"""One WebSocket's life, whatever dialect is spoken on it: reading, conversations by name, and how it ends."""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Protocol, TypeAlias

from starlette.websockets import WebSocket, WebSocketDisconnect

from oscine_engine.errors import InvalidInput, Overloaded, Unavailable
from oscine_engine.front import Front
from oscine_service.conversation import Calls, Config
from oscine_service.errors import GOING, INTERNAL
from oscine_service.http.protocols import LAST_WORDS_S
from oscine_service.limits import Limits
from oscine_service.websocket.channel import Channel, Translator
from oscine_service.websocket.closing import NORMAL, RESTART, abort, close

log = logging.getLogger(__name__)

Message: TypeAlias = str | bytes

MOST_CONTEXTS = 64
"""Conversations at a time on one socket."""
MOST_MESSAGE = 1 << 20
"""Characters of one message, where none may hold a recording."""
MOST_RECORDED = 16 << 20
"""Bytes of recordings that wait, on one socket, to be spoken after."""
RETRY_S = 1.0


class Dialect(Protocol):
    async def hear(self, message: Message) -> None:
        """Do what a message of the client asks. Raises InvalidInput for one that belongs to no conversation."""

    def refused(self, error: InvalidInput) -> Message:
        """What is told of such a message."""


class Socket:
    """Made for one accepted WebSocket; `run` it once.

    Nothing in reading it waits for anything but the peer, so that signs of life are always seen.
    """

    def __init__(
        self, websocket: WebSocket, front: Front, limits: Limits, calls: Calls, most: int = MOST_MESSAGE
    ) -> None:
        """most: characters of one message, or bytes."""
        self.front = front
        self.limits = limits
        self.calls = calls
        self._websocket = websocket
        self._most = most
        self._channels: dict[str, Channel] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._now = asyncio.get_running_loop().time
        self._active_at = self._now()
        self._changed = asyncio.Event()
        self._watching: list[asyncio.Task[None]] = []
        self._leaving = False
        self._closed = False
        self._cut = False

    async def run(self, dialect: Dialect) -> None:
        """Until either side closes it. All conversations that are left then end."""
        self._watching = [asyncio.create_task(watch()) for watch in (self._stop_with_the_service, self._end_when_idle)]
        try:
            await self._listen(dialect)
        except Exception:
            log.exception("a WebSocket met a fault that was not foreseen")
            await self.close(INTERNAL, "a fault that the service did not foresee")
        finally:
            left = [*self._watching, *self._tasks]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    def channel(self, key: str) -> Channel | None:
        """The running conversation of that name."""
        return self._channels.get(key)

    def open(self, key: str, config: Config, translator: Translator) -> Channel:
        """Start a conversation under a name that no running one has. Raises InvalidInput if there are too many, and
        Overloaded if too much waits to be heard before they can speak."""
        if len(self._channels) >= MOST_CONTEXTS:
            raise InvalidInput(
                f"{MOST_CONTEXTS} conversations are running on this connection: end one, or open another"
            )
        cold = config.session.reference
        waiting = sum(channel.waiting_bytes for channel in self._channels.values())
        if cold is not None and waiting + len(cold.audio) > MOST_RECORDED:
            raise Overloaded(f"{waiting} bytes of recordings wait on this connection already; try again", RETRY_S)
        channel = self._channels[key] = Channel(self, key, config, translator)
        task = asyncio.create_task(channel.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return channel

    def left(self, key: str, channel: Channel) -> None:
        """A conversation has come to its end: its name is free."""
        if self._channels.get(key) is channel:
            del self._channels[key]
            self._act()

    def lost(self, error: Exception) -> None:
        """A conversation has ended with an error."""
        self._cut = self._cut or (isinstance(error, Unavailable) and self.calls.closing)

    async def write(self, message: Message) -> None:
        """Hand a message over. Raises WebSocketDisconnect if nobody is there."""
        if self._closed:
            raise WebSocketDisconnect(GOING)
        try:
            if isinstance(message, str):
                await self._websocket.send_text(message)
            else:
                await self._websocket.send_bytes(message)
        except RuntimeError as error:  # it was closed meanwhile
            raise WebSocketDisconnect(GOING) from error

    async def send(self, message: Message) -> None:
        """Hand over what does not belong to a conversation, or ends it; a peer that does not take it is cut off."""
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                await self.write(message)
        except TimeoutError:
            self._closed = True
            abort(self._websocket)
        except WebSocketDisconnect:
            return

    def close_when_done(self) -> None:
        """Close it, as is right and proper, once the conversations that run have ended. Once is enough."""
        if self._leaving:
            return
        self._leaving = True

        async def leave(tasks: set[asyncio.Task[None]]) -> None:
            if tasks:
                await asyncio.wait(tasks)
            await self.close(NORMAL, "")

        self._watching.append(asyncio.create_task(leave(set(self._tasks))))

    async def close(self, code: int, reason: str) -> None:
        """Close it; nothing is written behind that."""
        if self._closed:
            return
        self._closed = True
        await close(self._websocket, code, reason)

    async def _listen(self, dialect: Dialect) -> None:
        while True:
            received = await self._websocket.receive()
            if received["type"] != "websocket.receive":
                return
            self._act()
            text = received.get("text")
            message = received["bytes"] if text is None else text
            try:
                if len(message) > self._most:
                    raise InvalidInput(f"a message of {len(message)} characters: send at most {self._most} in one")
                await dialect.hear(message)
            except InvalidInput as error:
                await self.send(dialect.refused(error))

    def _act(self) -> None:
        self._active_at = self._now()
        self._changed.set()

    async def _stop_with_the_service(self) -> None:
        await self.calls.closed()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.close(RESTART if self._cut else GOING, "the service is stopping")

    async def _end_when_idle(self) -> None:
        patience = self.limits.idle_timeout_s
        while not math.isinf(patience):
            left = self._active_at + patience - self._now()
            if not self._channels and left <= 0:
                await self.close(GOING, f"nothing was sent for {patience:g} s")
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(None if self._channels else left):
                    await self._changed.wait()
            except TimeoutError:
                continue


Endpoint: TypeAlias = Callable[[Socket], Dialect]
