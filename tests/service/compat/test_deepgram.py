"""Deepgram's dialect, by messages as its clients send them."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from websockets.exceptions import InvalidStatus

from oscine_service.websocket import turns
from tests.service.compat.replay import Replay, replay
from tests.service.waiting import until
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="package")

PATH = "/v1/speak?model=synthetic&encoding=linear16&sample_rate=24000"
FLUSH, CLEAR, CLOSE = ({"type": kind} for kind in ("Flush", "Clear", "Close"))
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8


def speak(text: str) -> dict[str, Any]:
    return {"type": "Speak", "text": text}


async def answer(client: Replay, kind: str) -> dict[str, Any]:
    return await client.until(lambda each: each["type"] == kind)


async def test_livekit_s_words_then_a_flush_and_a_close(door: Door) -> None:
    async with replay(door.address, PATH, additional_headers={"Authorization": "Token any"}) as client:
        metadata = await answer(client, "Metadata")
        assert metadata["model_name"] == "synthetic" and metadata["request_id"]
        for word in "Good morning, dear friend.".split():
            await client.send(speak(f"{word} "))
        await client.send(FLUSH)
        assert (await answer(client, "Flushed"))["sequence_id"] == 0
        first = client.sound
        assert len(first) % 2 == 0 < len(first)
        await client.send(speak("It rains. "), FLUSH, CLOSE)
        assert await client.closed() == 1000
        assert len(client.sound) > len(first)
        assert [each["type"] for each in client.told] == ["Metadata", "Flushed", "Flushed"]


async def test_pipecat_s_interruption(door: Door) -> None:
    """After `Cleared` nothing of the old turn comes, and the next one is whole."""
    async with replay(door.address, PATH) as client:
        await client.send(speak("Yes it is. "), FLUSH)
        await answer(client, "Flushed")
        short = client.sound
        await client.send(speak(LONG), FLUSH)
        await client.until_sound()
        await client.send(CLEAR)
        await answer(client, "Cleared")
        cleared = len(client.answers)
        await client.send(speak("Yes it is. "), FLUSH)
        await answer(client, "Flushed")
        again = b"".join(each for each in client.answers[cleared:] if isinstance(each, bytes))
        assert 0.2 * len(short) < len(again) < 5 * len(short)


async def test_a_socket_that_waits_holds_no_place(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "QUIET_S", 0.05)
    async with replay(door.address, PATH) as client:
        for _ in range(3):
            await client.send(speak("Yes it is. "), FLUSH)
            await answer(client, "Flushed")

            async def free() -> bool:
                return door.engine.load_now == (0, 0)

            await until(free, 20)


async def test_flushes_and_clears_with_nothing_to_say_are_answered(door: Door) -> None:
    async with replay(door.address, PATH) as client, asyncio.timeout(60):
        for number in range(30):
            await client.send(FLUSH if number % 2 else CLEAR)
            assert (await answer(client, "Flushed" if number % 2 else "Cleared"))["sequence_id"] == number
        await client.send(speak("🙂"), FLUSH)
        await answer(client, "Flushed")
        await client.send(CLOSE)
        assert await client.closed() == 1000
        assert client.sound == b""


@pytest.mark.parametrize("message", [{"type": "Reset"}, {"type": "clear"}, {"type": 1}, {}, speak("x" * 2001)])
async def test_a_bad_message_is_a_warning_and_loses_nothing(door: Door, message: dict[str, Any]) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(speak("Yes "), message)
        warning = await answer(client, "Warning")
        assert warning["description"] and warning["code"] == "invalid_input"
        await client.socket.send("{")
        assert "JSON" in (await answer(client, "Warning"))["description"]
        await client.send(speak("it is."), FLUSH)
        await answer(client, "Flushed")
        assert client.sound


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("encoding=opus", "encoding"),
        ("sample_rate=1", "sample_rate"),
        ("sample_rate=x", "sample_rate"),
        ("speed=9", "speed"),
        ("container=wav", "container"),
        ("sparkle=1", "sparkle"),
        ("model=nobody", "model: there is no voice 'nobody'; there are synthetic"),
        (f"model={quote('没有这个人' * 10)}", "there are synthetic"),
        ("model=synthetic&model=synthetic", "'model' is there twice"),
    ],
)
async def test_a_bad_address_is_refused_with_a_reason(door: Door, query: str, why: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with replay(door.address, f"/v1/speak?{query}"):
            pass
    assert refused.value.response.status_code == 400
    assert why in json.loads(refused.value.response.body)["error"]["message"]


async def test_telephone_sound_by_default_at_its_rate(door: Door) -> None:
    async with replay(door.address, "/v1/speak?model=synthetic&encoding=mulaw") as client:
        await client.send(speak("Yes it is."), FLUSH)
        await answer(client, "Flushed")
        seconds = len(client.sound) / 8000
    async with replay(door.address, PATH) as client:
        await client.send(speak("Yes it is."), FLUSH)
        await answer(client, "Flushed")
        assert 0.2 < seconds < 20 and client.sound
