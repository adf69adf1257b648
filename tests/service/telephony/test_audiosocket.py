"""Calls over AudioSocket, as Asterisk opens them, on real sockets."""

import asyncio
import contextlib
import socket
import struct
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
import pytest_asyncio

from oscine_engine.errors import InvalidInput
from oscine_service.telephony import audiosocket
from tests.service.waiting import until
from tests.service.websocket.clients import client
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="package")

CALL = uuid.UUID("40325ec2-5efd-4bd3-805f-53576e581d13")
START = {"mode": "sentence", "seed": 1, "sink": str(CALL)}
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 4


@pytest_asyncio.fixture(loop_scope="package")
async def exchange(door: Door) -> AsyncIterator[tuple[str, int]]:
    async with audiosocket.serving("127.0.0.1", 0, door.calls) as address:
        host, _, port = address.rpartition(":")
        yield host, int(port)


def message(kind: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BH", kind, len(payload)) + payload


@dataclass
class Asterisk:
    """kinds and payloads of what came, with when."""

    writer: asyncio.StreamWriter
    came: list[tuple[int, bytes]] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    closed: bool = False

    async def listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                kind, size = struct.unpack(">BH", await reader.readexactly(3))
                self.came.append((kind, await reader.readexactly(size)))
                self.at.append(asyncio.get_running_loop().time())
        self.closed = True

    @property
    def sound(self) -> bytes:
        return b"".join(payload for kind, payload in self.came if kind)

    async def is_closed(self) -> bool:
        return self.closed


@asynccontextmanager
async def dial(exchange: tuple[str, int], *first: bytes) -> AsyncIterator[Asterisk]:
    reader, writer = await asyncio.open_connection(*exchange)
    found = Asterisk(writer)
    listening = asyncio.create_task(found.listen(reader))
    for each in first:
        writer.write(each)
    try:
        yield found
    finally:
        writer.close()
        listening.cancel()


@pytest.mark.parametrize(
    ("kind", "rate"),
    [
        (0x10, 8000),
        (0x12, 16000),
        *(
            pytest.param(kind, rate, marks=pytest.mark.slow)
            for kind, rate in ((0x11, 12000), (0x13, 24000), (0x14, 32000), (0x15, 44100), (0x16, 48000))
        ),
    ],
)
async def test_a_turn_at_the_rate_of_the_caller(door: Door, exchange: tuple[str, int], kind: int, rate: int) -> None:
    frame = rate // 50 * 2
    async with client(door.address) as agent:
        await agent.say("Yes.", "direct", format={"encoding": "pcm16", "sample_rate": rate})
        await agent.send("end", "direct")
        direct = b"".join(part for piece in (await agent.end("direct")).pieces for part in piece.frames)
        async with dial(exchange, message(1, CALL.bytes), message(kind, bytes(frame))) as call:
            await agent.send("start", **START)
            await agent.send("text", text="Yes.")
            await agent.send("end")
            told = await agent.end()
            assert told.kinds[-1] == "done" and told.events[0]["format"]["sample_rate"] == rate
            assert told.of("heard")[-1]["samples"] * 2 == len(direct)
            assert {kind for kind, _ in call.came} == {kind}
            assert {len(payload) for _, payload in call.came} == {frame}
            # Silence at first, and wherever speech came late; the speech itself is whole.
            assert call.came[0][1] == bytes(frame)
            heard, said = (np.frombuffer(each, "<i2") for each in (call.sound, direct))
            assert np.array_equal(heard[heard != 0], said[said != 0])
            (sink,) = door.calls.sinks
            assert sink.details() == {"received_bytes": frame}


async def test_a_caller_who_waits_hears_silence_in_time(door: Door, exchange: tuple[str, int]) -> None:
    """A frame for every 20 ms that went by, none ahead of the clock, also where the caller is silent."""
    before = asyncio.get_running_loop().time()
    async with dial(exchange, message(1, CALL.bytes)) as call:

        async def some() -> bool:
            return len(call.came) >= 40

        await until(some)
        assert all(came == (0x10, bytes(320)) for came in call.came)
        assert all(at - before > number * 0.02 - 0.002 for number, at in enumerate(call.at))


async def test_an_interruption_is_silence_with_the_next_frame(door: Door, exchange: tuple[str, int]) -> None:
    async with client(door.address) as agent, dial(exchange, message(1, CALL.bytes), message(0x10, bytes(320))) as call:
        await agent.send("start", **START)
        await agent.send("text", text=LONG)
        await agent.until("heard")
        await agent.send("cancel")
        told = await agent.end()
        spoken = [payload for _, payload in call.came if payload.strip(b"\0")]
        assert told.kinds[-1] == "cancelled"
        # Frames of speech may be quiet; none is longer than what was told.
        assert len(spoken) * 160 <= told.last["heard_samples"]
        at = len(call.came)

        async def more() -> bool:
            return len(call.came) >= at + 10

        await until(more)
        assert not b"".join(payload for _, payload in call.came[at + 1 :]).strip(b"\0")


async def test_what_is_unknown_is_passed_over(door: Door, exchange: tuple[str, int]) -> None:
    odd = message(0x42, b"abc"), message(0x03, b"5"), message(0x10), message(0x01, b"short")
    async with client(door.address) as agent:
        async with dial(exchange, *odd, message(1, CALL.bytes), *odd, message(0x12, bytes(640)), *odd) as call:
            # Bytes come as the network likes.
            for byte in message(0x12, bytes(640)):
                call.writer.write(bytes([byte]))
            await agent.send("start", **START)
            await agent.send("text", text="Yes.")
            await agent.send("end")
            assert (await agent.end()).kinds[-1] == "done"
            assert {kind for kind, _ in call.came} == {0x12}
            call.writer.write(message(0))
            await until(call.is_closed)
        assert not [*door.calls.sinks]


@pytest.mark.parametrize("end", [message(0), message(0xFF, b"\x01"), b""], ids=["over", "failed", "closed"])
async def test_a_call_that_ends(door: Door, exchange: tuple[str, int], end: bytes) -> None:
    opening = message(1, CALL.bytes), message(0x10, bytes(320))
    async with client(door.address) as agent, dial(exchange, *opening) as call:
        await agent.send("start", **START)
        await agent.send("text", text=LONG)
        await agent.until("heard")
        if end:
            call.writer.write(end)
        else:
            call.writer.close()
        assert (await agent.end()).last["code"] == "hung_up"


async def test_a_call_that_is_ended_here(door: Door, exchange: tuple[str, int]) -> None:
    async with dial(exchange, message(1, CALL.bytes)) as call:

        async def is_up() -> bool:
            return bool([*door.calls.sinks])

        await until(is_up)
        (sink,) = door.calls.sinks
        sink.hang_up()
        await until(call.is_closed)
        assert call.came[-1] == (0, b"")


async def test_a_caller_who_reads_nothing_is_cut_off(
    door: Door, exchange: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[audiosocket.Line] = []
    lost = asyncio.Event()

    def made(line: audiosocket.Line, transport: asyncio.BaseTransport) -> None:
        lines.append(line)
        came(line, transport)

    came = audiosocket.Line.connection_made
    monkeypatch.setattr(audiosocket.Line, "connection_made", made)
    monkeypatch.setattr(audiosocket.Line, "connection_lost", lambda line, error: lost.set())
    monkeypatch.setattr(audiosocket, "LAST_WORDS_S", 0.05)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deaf.setblocking(False)
        await asyncio.get_running_loop().sock_connect(deaf, exchange)
        deaf.send(message(1, CALL.bytes) + message(0x10, bytes(320)))

        async def is_up() -> bool:
            return bool([*door.calls.sinks])

        await until(is_up)
        (sink,) = door.calls.sinks
        while not lines[0]._transport.get_write_buffer_size():
            sink.player.beat()  # type: ignore[attr-defined]
        sink.hang_up()
        async with asyncio.timeout(10):
            await lost.wait()


async def test_calls_that_cannot_be_served(
    door: Door, exchange: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audiosocket, "NAME_S", 0.05)
    for first in ([], [message(1, CALL.bytes), message(0x17, bytes(10))]):
        async with dial(exchange, *first) as call:
            await until(call.is_closed)
            assert call.came == [(0, b"")]
    async with dial(exchange, message(1, CALL.bytes)) as first_call:

        async def is_up() -> bool:
            return bool(first_call.came)

        await until(is_up)
        async with dial(exchange, message(1, CALL.bytes)) as second:
            await until(second.is_closed)
            assert second.came == [(0, b"")] and not first_call.closed
    with pytest.raises(InvalidInput, match="--audiosocket-port"):
        async with audiosocket.serving(*exchange, door.calls):
            pass
