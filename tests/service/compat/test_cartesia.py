"""Cartesia's dialect, by messages as its clients send them."""

import base64
from typing import Any

import pytest

from tests.service.compat.replay import Replay, replay
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="package")

PATH = "/tts/websocket?cartesia_version=2025-04-16"
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8


def message(context: str, transcript: str, *, more: bool = True, rate: int = 24000, **fields: Any) -> dict[str, Any]:
    """What Pipecat sends."""
    return {
        "transcript": transcript,
        "continue": more,
        "context_id": context,
        "model_id": "sonic-3",
        "voice": {"mode": "id", "id": "synthetic"},
        "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": rate},
        "add_timestamps": False,
        "use_normalized_timestamps": False,
        "language": "en",
        **fields,
    }


def sound(client: Replay, context: str) -> bytes:
    chunks = [each for each in client.told if each["type"] == "chunk" and each["context_id"] == context]
    return b"".join(base64.b64decode(each["data"]) for each in chunks)


async def end(client: Replay, context: str) -> dict[str, Any]:
    return await client.until(lambda each: each["context_id"] == context and each["type"] in ("done", "error"))


async def test_pipecat_s_sentences(door: Door) -> None:
    """Without blanks between, each spoken at once, and a last message without text."""
    async with replay(door.address, PATH) as client:
        for text in ("Hello there.", "How are you?"):
            await client.send(message("turn", text, max_buffer_delay_ms=0))
        await client.send(message("turn", "", more=False, max_buffer_delay_ms=0))
        done = await end(client, "turn")
    assert done == {"type": "done", "context_id": "turn", "done": True, "status_code": 200}
    flushes = [each["flush_id"] for each in client.told if each["type"] == "flush_done"]
    assert flushes == [1, 2]
    chunks = [each for each in client.told if each["type"] == "chunk"]
    assert {each["status_code"] for each in chunks} == {206} and not any(each["done"] for each in chunks)
    assert [each["flush_id"] for each in chunks] == sorted(each["flush_id"] for each in chunks)
    assert len(sound(client, "turn")) % 2 == 0 < len(sound(client, "turn"))


async def test_livekit_s_words_at_another_rate(door: Door) -> None:
    """Each with a blank behind it, and a blank at the end; the rate is another than the model's."""
    async with replay(door.address, PATH) as client:
        for rate in (24000, 16000):
            for word in ("Good ", "morning, ", "dear ", "friend. "):
                await client.send(message(str(rate), word, rate=rate))
            await client.send(message(str(rate), " ", more=False, rate=rate))
            assert (await end(client, str(rate)))["type"] == "done"
    assert len(sound(client, "16000")) == pytest.approx(len(sound(client, "24000")) * 2 / 3, abs=800)


async def test_the_official_client_s_plain_voice(door: Door) -> None:
    async with replay(door.address, PATH, additional_headers={"cartesia-version": "2025-04-16"}) as client:
        asked = message("one", "Good morning.", more=False)
        asked["voice"] = "synthetic"
        asked["output_format"]["encoding"] = "pcm_f32le"
        await client.send(asked)
        assert (await end(client, "one"))["type"] == "done"
    assert len(sound(client, "one")) % 4 == 0 < len(sound(client, "one"))


async def test_words_have_times(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(message("turn", "Good morning, dear friend.", more=False, add_timestamps=True))
        await end(client, "turn")
    times = [each["word_timestamps"] for each in client.told if each["type"] == "timestamps"]
    assert [word for each in times for word in each["words"]] == ["Good", "morning,", "dear", "friend."]
    starts, ends = ([time for each in times for time in each[key]] for key in ("start", "end"))
    assert starts == sorted(starts) and all(0 <= start <= end for start, end in zip(starts, ends, strict=True))
    assert ends[-1] <= len(sound(client, "turn")) / 48000 + 0.001


async def test_a_cancelled_context_is_silent_and_others_go_on(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(message("long", LONG), message("short", "Yes it is. And more."))
        await client.until(lambda each: each["type"] == "chunk" and each["context_id"] == "long")
        await client.send({"context_id": "long", "cancel": True}, {"context_id": "nobody", "cancel": True})
        await client.send(message("short", "", more=False))
        assert (await end(client, "short"))["type"] == "done"
        heard = len(client.answers)
        await client.send(message("again", "Yes.", more=False))
        await end(client, "again")
        late = [each["context_id"] for each in client.told[heard:]]
        assert "long" not in late


async def test_text_without_an_end_is_spoken_after_the_delay(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        for piece in ("This is ", "half a ", "sentence"):
            await client.send(message("turn", piece, max_buffer_delay_ms=100))
        await client.until(lambda each: each["type"] == "chunk")
        await client.send(message("turn", ", and the rest.", more=False, max_buffer_delay_ms=100))
        assert (await end(client, "turn"))["type"] == "done"
    assert not any(each["type"] == "flush_done" for each in client.told), "nobody asked for that flush"


@pytest.mark.parametrize("transcript", ["", " ", "🙂", "…"])
async def test_a_turn_without_anything_to_say_ends_in_silence(door: Door, transcript: str) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(message("turn", transcript, max_buffer_delay_ms=0))
        await client.send(message("turn", "", more=False, max_buffer_delay_ms=0))
        assert (await end(client, "turn"))["type"] == "done"
        assert sound(client, "turn") == b""


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"voice": {"mode": "embedding", "embedding": [0.5]}}, "voice.mode"),
        ({"voice": {"mode": "id", "id": "nobody"}}, "synthetic"),
        ({"output_format": {"container": "mp3", "bit_rate": 1, "sample_rate": 24000}}, "container"),
        ({"output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 1}}, "sample_rate"),
        ({"output_format": {"container": "raw", "encoding": "pcm_s24le", "sample_rate": 24000}}, "encoding"),
        ({"generation_config": {"emotion": "angry"}}, "emotion"),
        ({"generation_config": {"volume": 2}}, "volume"),
        ({"generation_config": {"speed": 9}}, "speed"),
        ({"add_phoneme_timestamps": True}, "add_phoneme_timestamps"),
        ({"pronunciation_dict_id": "d"}, "pronunciation_dict_id"),
        ({"max_buffer_delay_ms": 5001}, "5000"),
        ({"transcript": 7}, "transcript"),
        ({"sparkle": True}, "sparkle"),
    ],
)
async def test_what_is_not_offered_is_refused_by_name(door: Door, fields: dict[str, Any], why: str) -> None:
    async with replay(door.address, PATH) as client:
        await client.send({**message("turn", "Hello.", more=False), **fields})
        error = await end(client, "turn")
        assert error["type"] == "error" and why in error["message"]
        assert error["status_code"] == (404 if "nobody" in str(fields) else 400)


async def test_what_a_context_began_with_stays(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(message("turn", "First this. "), message("turn", "Not this.", rate=16000))
        error = await end(client, "turn")
        assert error["type"] == "error" and "first message" in error["message"]
        assert sound(client, "turn")


async def test_messages_that_are_none_harm_nobody(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(message("turn", "Yes "))
        for broken in ("{", "[]", '{"context_id": 5}', "{}", b"\x00"):
            await client.socket.send(broken)
            error = await client.until(lambda each: each["type"] == "error")
            assert "context_id" not in error and error["status_code"] == 400
        await client.send(message("turn", "it is.", more=False))
        assert (await end(client, "turn"))["type"] == "done"
