"""Asterisk's AudioSocket: a TCP connection a call, messages of kind, length and payload, and we own the clock.

Asterisk drops a call that is sent nothing, so there is a frame every 20 ms from the start, of silence where there is
nothing to say. Which rate a call has is seen from what it sends first.
"""

import asyncio
import contextlib
import logging
import socket
import struct
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from oscine_engine.errors import InvalidInput, OscineError
from oscine_service.audio import Encoding, Format
from oscine_service.conversation import Calls
from oscine_service.http.protocols import LAST_WORDS_S
from oscine_service.telephony.frames import Frame, silence
from oscine_service.telephony.realtime import RealTime
from oscine_service.telephony.sink import Sink

log = logging.getLogger(__name__)

HEAD = struct.Struct(">BH")
OVER, NAME, KEY_PRESSED, FAILED = 0x00, 0x01, 0x03, 0xFF
RATES = {0x10: 8000, 0x11: 12000, 0x12: 16000, 0x13: 24000, 0x14: 32000, 0x15: 44100, 0x16: 48000}
"""Hz of 16-bit samples, little-endian, by the kind of message that they come in; 0x17 and 0x18 have more than that."""
SOUND = range(0x10, 0x19)
USUAL = 0x10
NAME_S = 5.0
"""For a connection to say which call it is."""
RATE_S = 0.2
"""For the first sound of the caller to come."""
MOST_UNSENT_S = 2.0
"""Of sound that the other side does not take, after which it is given up."""


class Line(asyncio.Protocol):
    """One connection."""

    def __init__(self, calls: Calls, owner: str, tasks: set[asyncio.Task[None]]) -> None:
        self._calls = calls
        self._owner = owner
        self._tasks = tasks
        self._data = bytearray()
        self._named: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._received = 0
        self._kind = USUAL
        self._silence = b""
        self._most_unsent = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        task = asyncio.create_task(self._call())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= HEAD.size:
            kind, size = HEAD.unpack_from(self._data)
            if len(self._data) < HEAD.size + size:
                return
            payload = bytes(self._data[HEAD.size : HEAD.size + size])
            del self._data[: HEAD.size + size]
            self._told(kind, payload)

    def connection_lost(self, error: Exception | None) -> None:
        self._over.set()

    def hang_up(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(HEAD.pack(OVER, 0))
        self._over.set()

    def _told(self, kind: int, payload: bytes) -> None:
        """What is unknown is passed over, and so are keys that the caller presses."""
        if kind == NAME and len(payload) == 16 and not self._named.done():
            self._named.set_result(str(uuid.UUID(bytes=payload)))
        elif kind in SOUND:
            self._received += len(payload)
            if payload and not self._heard.done():
                self._heard.set_result(kind)
        elif kind in (OVER, FAILED):
            self._over.set()

    async def _call(self) -> None:
        try:
            over = asyncio.create_task(self._over.wait())
            try:
                await self._until_over(over)
            finally:
                over.cancel()
        except OscineError as refusal:
            log.warning("a call over AudioSocket was refused: %s", refusal)
            self.hang_up()
        except Exception:
            log.exception("a call over AudioSocket met a fault that was not foreseen")
        finally:
            self._transport.close()
            # A peer that reads nothing would keep it open: what is buffered is sent first.
            asyncio.get_running_loop().call_later(LAST_WORDS_S, self._transport.abort)

    async def _until_over(self, over: "asyncio.Task[bool]") -> None:
        await _either(self._named, over, NAME_S)
        if over.done():
            return
        if not self._named.done():
            raise InvalidInput(f"no message of kind 0x01 came with its 16 bytes of UUID within {NAME_S:g} s")
        await _either(self._heard, over, RATE_S)
        self._kind = self._heard.result() if self._heard.done() else USUAL
        if self._kind not in RATES:
            raise InvalidInput(f"sound of kind {self._kind:#x}: dial with at most {max(RATES.values())} Hz")
        format = Format(Encoding.PCM16, RATES[self._kind])
        self._silence = silence(format)
        self._most_unsent = round(MOST_UNSENT_S * 50) * (HEAD.size + len(self._silence))
        player = RealTime(format, self._send)
        sinks = self._calls.sinks
        sink = Sink(
            (self._named.result(),),
            player,
            kind="audiosocket",
            owner=self._owner,
            hang_up=self.hang_up,
            details=lambda: {"received_bytes": self._received},
        )
        with sinks.up(sink), sinks.clock.beating(player.beat):
            stopping = asyncio.create_task(self._stop_with_the_service(sink))
            try:
                await over
            finally:
                stopping.cancel()

    def _send(self, frame: Frame | None) -> None:
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > self._most_unsent:
            log.warning("a call over AudioSocket takes no sound: it is given up")
            self._transport.abort()
            return
        data = self._silence if frame is None else frame.data
        self._transport.write(HEAD.pack(self._kind, len(data)) + data)

    async def _stop_with_the_service(self, sink: Sink) -> None:
        await self._calls.closed()
        await sink.idle()
        self.hang_up()


async def _either(first: asyncio.Future[Any], second: asyncio.Future[Any], patience_s: float) -> None:
    await asyncio.wait([first, second], timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)


@asynccontextmanager
async def serving(host: str, port: int, calls: Calls, owner: str = "") -> AsyncIterator[str]:
    """Take calls on `host:port` (0 picks a free port) until the block is left; gives the address. owner: whose
    conversations may speak into them. Raises InvalidInput if the address cannot be bound."""
    tasks: set[asyncio.Task[None]] = set()
    try:
        server = await asyncio.get_running_loop().create_server(
            lambda: Line(calls, owner, tasks), host.strip("[]"), port, reuse_address=True
        )
    except OSError as error:
        raise InvalidInput(
            f"cannot listen on {host}:{port} for AudioSocket: {error.strerror or error}; choose others with "
            "--audiosocket-host and --audiosocket-port"
        ) from error
    for listener in server.sockets:
        # Passed on to every connection: small frames are not kept back, and a peer that vanished is missed.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    try:
        name = f"[{host.strip('[]')}]" if ":" in host else host
        yield f"{name}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        if tasks:
            # Those that nobody speaks into any more are being hung up.
            await asyncio.wait(list(tasks), timeout=LAST_WORDS_S)
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(list(tasks))
        with contextlib.suppress(asyncio.CancelledError):
            await server.wait_closed()
