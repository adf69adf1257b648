"""WebSocket clients that hold a place without using it, that vanish, and a service that stops."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from oscine_engine.checkpoint.load import Checkpoint
from oscine_service.limits import Limits
from tests.service.websocket.clients import Client, client
from tests.service.websocket.conftest import Door, opened
from tests.service.wires import Wire

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8


async def closed(each: Client) -> int:
    """The code with which the other side closes the socket."""
    try:
        while True:
            await each.next()
    except ConnectionClosed as error:
        return error.rcvd.code if error.rcvd is not None else 1006


@asynccontextmanager
async def narrow(door: Door) -> AsyncIterator[Client]:
    """A client that takes little which it does not read."""
    host, _, port = door.address.rpartition(":")
    way = socket.socket()
    way.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 13)
    way.setblocking(False)
    await asyncio.get_running_loop().sock_connect(way, (host, int(port)))
    async with connect(f"ws://{door.address}/v1/speech", sock=way, compression=None, max_queue=2) as opened:
        yield Client(opened)


async def test_an_idle_context_gives_its_place_back_and_leaves_the_socket(checkpoint: Checkpoint) -> None:
    async with opened(checkpoint, Limits(idle_timeout_s=0.5)) as door, client(door.address) as each:
        async with asyncio.timeout(60):
            await each.say("Hello there. And")
            heard = await each.until("error")
            assert heard.last["code"] == "idle" and "audio" in heard.kinds
            await each.say("Yes.", "next")
            await each.send("end", "next")
            assert (await each.end("next")).last["type"] == "done"
            assert await closed(each) == 1001
        await door.idle()


async def test_waiting_for_speech_is_not_idle(checkpoint: Checkpoint) -> None:
    async with opened(checkpoint, Limits(idle_timeout_s=0.05)) as door, client(door.address) as each:
        async with asyncio.timeout(60):
            await each.say("Good morning to you.")
            await each.send("end")
            assert (await each.end()).last["type"] == "done"


async def test_a_client_that_reads_nothing_gives_its_place_back(checkpoint: Checkpoint) -> None:
    async with opened(checkpoint, Limits(write_timeout_s=0.3)) as door, narrow(door) as each, asyncio.timeout(120):
        await each.say(LONG * 4)
        while (await each.next())[1] != "audio":
            pass
        await door.idle()
        # What was on its way is still there; how it ended is not mistaken for an end.
        assert await closed(each) != 1000
        assert "done" not in each.heard["a"].kinds


async def test_a_paused_player_keeps_its_context_without_reading(checkpoint: Checkpoint) -> None:
    limits = Limits(idle_timeout_s=0.5, write_timeout_s=0.5)
    async with opened(checkpoint, limits) as door, narrow(door) as each, asyncio.timeout(120):
        await each.say(LONG * 4)
        while (await each.next())[1] != "audio":
            pass
        for _ in range(15):
            await each.send("played", samples=100)
            await asyncio.sleep(0.1)
        await each.send("cancel")
        assert (await each.end()).last == {"type": "cancelled", "context": "a", "heard_samples": 100}


@pytest.mark.parametrize("quiet", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["speaking", "quiet"])
async def test_a_client_that_vanishes_without_a_word_is_missed(checkpoint: Checkpoint, quiet: bool) -> None:
    patience = Limits(ping_after_s=0.5, ping_timeout_s=1.0)
    async with opened(checkpoint, patience) as door, asyncio.timeout(60):
        host, _, port = door.address.rpartition(":")
        wire = Wire(host, int(port))
        async with await asyncio.start_server(wire.carry, "127.0.0.1", 0) as way:
            address = "{}:{}".format(*way.sockets[0].getsockname())
            async with client(address) as each:
                await each.say("" if quiet else LONG * 12)
                while (await each.next())[1] != ("started" if quiet else "audio"):
                    pass
                if quiet:
                    await asyncio.sleep(2)  # several times asked and answered, with nothing else said in between
                assert door.engine.load_now.streams == 1
                wire.cut()
                await door.idle()
                wire.mend()
                assert await closed(each) != 1000


async def test_conversations_that_are_cut_off_are_told_so(checkpoint: Checkpoint) -> None:
    async with asyncio.timeout(60):
        async with opened(checkpoint, grace_s=0.3) as door:
            socket = connect(f"ws://{door.address}/v1/speech", compression=None, proxy=None)
            speaking, waiting = (
                Client(await socket),
                Client(await connect(f"ws://{door.address}/v1/speech", proxy=None)),
            )
            await speaking.say(LONG * 12)
            await speaking.say("Yes. ", "quiet")
            while {"a", "quiet"} - speaking.heard.keys():
                await speaking.next()
            reading = asyncio.gather(closed(speaking), closed(waiting))
        assert await reading == [1012, 1001]
        for context in ("a", "quiet"):
            heard = speaking.heard[context]
            assert heard.last["code"] == "unavailable"
            assert f"the service is stopping; {heard.samples} samples" in heard.last["message"]
        assert door.engine.load_now == (0, 0)


async def test_a_service_about_to_stop_lets_run_what_runs_and_takes_nothing_new(checkpoint: Checkpoint) -> None:
    async with opened(checkpoint) as door, client(door.address) as each, asyncio.timeout(60):
        await each.say("Good morning. ")
        await each.until("started")
        door.calls.close()
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"ws://{door.address}/v1/speech", proxy=None):
                pass
        response = refused.value.response
        assert response.status_code == 503 and response.headers["retry-after"] == "1"
        assert json.loads(response.body)["error"]["code"] == "unavailable"
        await each.send("start", "late")
        told = (await each.until("error", "late")).last
        assert told["code"] == "unavailable" and told["retry_after_ms"] == 1000
        await each.send("text", text="It rains.")
        await each.send("end")
        assert (await each.end()).last["segments"] == 2
        assert await closed(each) == 1001


async def test_a_fault_in_one_conversation_is_told_and_harms_no_other(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oscine_service.conversation.speech import Speech

    async with opened(checkpoint) as door, client(door.address) as each, asyncio.timeout(60):
        await each.say("Good morning. ", "good")
        await each.until("started", "good")
        with monkeypatch.context() as broken:
            broken.setattr(Speech, "__init__", lambda *_: 1 / 0)
            await each.send("start", "bad")
            told = (await each.until("error", "bad")).last
        assert told["code"] == "internal" and "ZeroDivisionError" in told["message"]
        await each.send("end", "good")
        assert (await each.end("good")).last["type"] == "done"


@pytest.mark.parametrize("begun", [b"", b"GET /livez HTTP/1.1\r\nHo"])
async def test_a_silent_connection_without_a_request_is_let_go(
    checkpoint: Checkpoint, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oscine_service.http.protocols.FIRST_REQUEST_S", 0.2)
    async with opened(checkpoint) as door, asyncio.timeout(30):
        host, _, port = door.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(begun)
        assert await reader.read() == b""
        writer.close()
