"""A unit that is lost behind a proxy: what HTTP/2 says of it, and what the Python client makes of that."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import oscine_client as oc

SETTINGS, HEADERS, RST_STREAM = 4, 1, 3
END_HEADERS, ACK = 4, 1
# :status 200 by its number in HPACK's table, and content-type, number 31, written out.
BEGUN = b"\x88\x0f\x10\x10application/grpc"
INTERNAL_ERROR = 2


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


@asynccontextmanager
async def resetting(reason: int, begun: bool) -> AsyncIterator[str]:
    """An HTTP/2 server that takes a call, begins an answer or not, and resets the stream."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
            writer.write(frame(SETTINGS, 0, 0, b""))
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                stream = int.from_bytes(head[5:], "big")
                if head[3] == SETTINGS and not head[4] & ACK:
                    writer.write(frame(SETTINGS, ACK, 0, b""))
                elif head[3] == HEADERS:
                    answer = frame(HEADERS, END_HEADERS, stream, BEGUN) if begun else b""
                    writer.write(answer + frame(RST_STREAM, 0, stream, struct.pack(">I", reason)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield "{}:{}".format(*server.sockets[0].getsockname())
    finally:
        # Not waited for: an error that was caught holds its call, and that its connection.
        server.close()


@pytest.mark.parametrize("begun", [True, False], ids=["in the middle", "before an answer"])
async def test_a_reset_stream_is_a_lost_connection(monkeypatch: pytest.MonkeyPatch, begun: bool) -> None:
    monkeypatch.setenv("no_grpc_proxy", "127.0.0.1")

    def speak(address: str) -> None:
        with oc.Client(address) as client:
            list(client.speak("Hello."))

    async with asyncio.timeout(60), resetting(INTERNAL_ERROR, begun) as address:
        with pytest.raises(oc.Unavailable, match="lost on the way: call again") as lost:
            async with oc.AsyncClient(address) as client:
                _ = [event async for event in client.speak("Hello.")]
        assert (lost.value.code, lost.value.retry_after_s) == ("unavailable", 0.0)
        with pytest.raises(oc.Unavailable, match="lost on the way"):
            await asyncio.to_thread(speak, address)
