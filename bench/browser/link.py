"""A bad connection: everything that a browser asks of a service goes through it, and some of it comes late."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

HOST = "127.0.0.1"
BINARY, CONTINUED = 2, 0


@dataclass(slots=True)
class Link:
    """late: seconds that a binary message of a WebSocket is held back, with all behind it. rate: of the service, in
    bytes a second, at most. cut: ends every connection while it is set. messages, and those of them that were held."""

    late: Callable[[], float] = lambda: 0.0
    rate: float = float("inf")
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0
    messages: int = 0


def now_and_then(share: float, seconds: float, seed: int = 1) -> Callable[[], float]:
    draw = random.Random(seed)
    return lambda: seconds if draw.random() < share else 0.0


@asynccontextmanager
async def through(link: Link, address: str) -> AsyncIterator[str]:
    """The address of a port that leads to `address`."""
    host, port = address.rsplit(":", 1)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        ways = [
            asyncio.create_task(_forward(reader, back)),
            asyncio.create_task(_backward(there, writer, link)),
            asyncio.create_task(link.cut.wait()),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for each in (writer, back):
                each.transport.abort()

    server = await asyncio.start_server(connected, HOST, 0)
    try:
        yield f"{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        link.cut.set()
        server.close()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


async def _backward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link) -> None:
    """HTTP as it is; of a WebSocket, frame by frame."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            if head.startswith(b"HTTP/1.1 101"):
                break
            await _body(reader, writer, head)
            await writer.drain()
        while True:
            frame, opcode = await _frame(reader)
            if opcode in (BINARY, CONTINUED):
                link.messages += 1
                if late := link.late():
                    link.held += 1
                    await asyncio.sleep(late)
            if link.rate < float("inf"):
                await asyncio.sleep(len(frame) / link.rate)
            writer.write(frame)
            await writer.drain()


async def _body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            writer.write(await reader.readexactly(int(line.split(b":")[1])))


async def _frame(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    """One frame of RFC 6455 as a server sends it, without a mask."""
    head = await reader.readexactly(2)
    length = head[1] & 0x7F
    if length >= 126:
        more = await reader.readexactly(2 if length == 126 else 8)
        head, length = head + more, int.from_bytes(more, "big")
    return head + await reader.readexactly(length), head[0] & 0x0F
