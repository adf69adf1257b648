"""ElevenLabs' dialects, by messages as their clients send them."""

import asyncio
import base64
import io
from typing import Any

import pytest
import soundfile
from websockets.exceptions import InvalidStatus

from tests.service.compat.replay import Replay, replay
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="package")

MULTI = "/v1/text-to-speech/synthetic/multi-stream-input?model_id=eleven_flash_v2_5&output_format=pcm_24000"
SINGLE = "/v1/text-to-speech/synthetic/stream-input?model_id=eleven_flash_v2_5&output_format=pcm_24000"
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8


def sound(client: Replay, context: str | None) -> bytes:
    audio = [each["audio"] for each in client.told if each.get("contextId") == context and each.get("audio")]
    return b"".join(base64.b64decode(each) for each in audio)


async def final(client: Replay, context: str | None) -> dict[str, Any]:
    return await client.until(
        lambda each: each.get("contextId") == context and (each.get("isFinal") or "error" in each)
    )


async def test_pipecat_s_turn(door: Door) -> None:
    """Sentences without blanks between, a flush and then a close at the end of the turn."""
    async with replay(door.address, f"{MULTI}&auto_mode=true&language_code=en") as client:
        await client.send({"text": " ", "context_id": "turn"}, {"text": "Hello there.", "context_id": "turn"})
        await client.send({"text": "How are you?", "context_id": "turn"}, {"text": "", "context_id": "turn"})
        await client.send({"context_id": "turn", "flush": True}, {"context_id": "turn", "close_context": True})
        assert (await final(client, "turn"))["isFinal"] is True
        assert len(sound(client, "turn")) > 0
        assert sum(each.get("isFinal") is True for each in client.told) == 1
        await client.send({"context_id": "turn", "close_context": True}, {"text": ""})
        await client.send({"text": " ", "context_id": "next"}, {"text": "Yes.", "context_id": "next", "flush": True})
        await client.send({"context_id": "next", "close_context": True})
        assert (await final(client, "next"))["isFinal"] is True


@pytest.mark.parametrize("absolute", [False, True])
async def test_livekit_s_words(door: Door, absolute: bool) -> None:
    path = f"{MULTI}&enable_ssml_parsing=false&enable_logging=true&inactivity_timeout=180&apply_text_normalization=auto"
    sync = "true" if absolute else "false"
    async with replay(door.address, f"{path}&sync_alignment={sync}&auto_mode=false") as client:
        await client.send({"text": " ", "voice_settings": {}, "context_id": "c"})
        for word in ("Good ", "morning, ", "dear ", "friend. "):
            await client.send({"text": word, "context_id": "c"})
        await client.send({"text": "", "context_id": "c", "flush": True}, {"context_id": "c", "close_context": True})
        assert (await final(client, "c"))["isFinal"] is True
        found = [each["alignment"] for each in client.told if each.get("alignment")]
        assert "".join(char for each in found for char in each["chars"]).rstrip() == "Good morning, dear friend."
        spans = [each["charStartTimesMs"][-1] + each["charDurationsMs"][-1] for each in found]
        assert all(
            len(each["chars"]) == len(each["charStartTimesMs"]) == len(each["charDurationsMs"]) for each in found
        )
        assert all(start >= 0 for each in found for start in each["charStartTimesMs"])
        ms = len(sound(client, "c")) / 48
        assert 0 < (spans[-1] if absolute else sum(spans)) <= ms + 1
        if absolute:
            starts = [start for each in found for start in each["charStartTimesMs"]]
            assert starts == sorted(starts)


@pytest.mark.parametrize("twice", [False, True], ids=["unflushed", "closed twice"])
async def test_a_close_that_interrupts(door: Door, twice: bool) -> None:
    async with replay(door.address, MULTI) as client:
        await client.send({"text": " ", "context_id": "long"}, {"text": LONG, "context_id": "long", "flush": twice})
        await client.send({"text": " ", "context_id": "other"}, {"text": "Yes.", "context_id": "other", "flush": True})
        await client.until(lambda each: each.get("audio") and each["contextId"] == "long")
        for _ in range(1 + twice):
            await client.send({"context_id": "long", "close_context": True})
        await final(client, "long")
        assert len(sound(client, "long")) < 48000 * 20
        await client.send({"context_id": "other", "close_context": True})
        if not any(each.get("isFinal") and each.get("contextId") == "other" for each in client.told):
            await final(client, "other")
        assert sound(client, "other")


async def test_a_flush_alone_is_not_final(door: Door) -> None:
    async with replay(door.address, MULTI) as client:
        await client.send({"text": " ", "context_id": "c"}, {"text": "Yes it is.", "context_id": "c", "flush": True})
        await client.until(lambda each: each.get("audio"))
        await client.send({"text": "And more.", "context_id": "c", "flush": True})
        await client.send({"context_id": "c", "close_context": True})
        await final(client, "c")
        assert sum(each.get("isFinal") is True for each in client.told) == 1


async def test_closing_the_socket_speaks_what_is_left(door: Door) -> None:
    async with replay(door.address, MULTI) as client:
        for context in ("a", "b"):
            await client.send({"text": " ", "context_id": context}, {"text": "Yes it is.", "context_id": context})
        await client.send({"close_socket": True})
        assert await client.closed() == 1000
        assert sound(client, "a") and sound(client, "b")


async def test_the_single_form_and_the_official_client_s_first_message(door: Door) -> None:
    async with replay(door.address, SINGLE.replace("pcm_24000", "mp3_44100_128")) as client:
        first = {"text": " ", "try_trigger_generation": True, "voice_settings": None}
        await client.send({**first, "generation_config": {"chunk_length_schedule": [50]}})
        await client.send({"text": "Good morning. ", "try_trigger_generation": True})
        await client.send({"text": " "}, {"text": "It rains. ", "flush": True}, {"text": ""})
        assert await client.closed() == 1000
    assert client.told[-1]["isFinal"] is True and "contextId" not in client.told[-1]
    samples, rate = soundfile.read(io.BytesIO(sound(client, None)))
    assert rate == 44100 and samples.size > 0


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ({"text": " ", "voice_settings": {"stability": 0.5}}, "voice_settings.stability"),
        ({"text": " ", "voice_settings": {"speed": 9}}, "speed"),
        ({"text": " ", "pronunciation_dictionary_locators": [{"id": "x"}]}, "pronunciation_dictionary_locators"),
        ({"text": 5}, "text"),
        ({"text": "Hello.", "sparkle": 1}, "sparkle"),
    ],
)
async def test_what_is_not_offered_is_refused_by_name(door: Door, first: dict[str, Any], why: str) -> None:
    async with replay(door.address, MULTI) as client:
        await client.send({**first, "context_id": "c"})
        error = await final(client, "c")
        assert why in error["message"] and error["code"] == 1008
        await client.send(
            {"text": "Yes.", "context_id": "c", "flush": True}, {"context_id": "c", "close_context": True}
        )
        assert (await final(client, "c"))["isFinal"] is True


@pytest.mark.parametrize(
    "query",
    [
        "output_format=wav_24000",
        "output_format=pcm_1",
        "apply_text_normalization=off",
        "x=1",
        "inactivity_timeout=99999",
        "optimize_streaming_latency=5",
        "enable_logging=perhaps",
        "model_id=a&model_id=b",
    ],
)
async def test_a_bad_address_is_refused_with_a_reason(door: Door, query: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with replay(door.address, f"/v1/text-to-speech/synthetic/multi-stream-input?{query}"):
            pass
    assert refused.value.response.status_code == 400


@pytest.mark.parametrize("voice", ["synthetic", "nobody"])
@pytest.mark.parametrize(
    "message", [{"text": 5}, {"text": "Hello. ", "sparkle": 1}, {"text": "Hello. ", "flush": True}]
)
async def test_an_error_ends_a_socket_with_one_context(door: Door, voice: str, message: dict[str, Any]) -> None:
    async with replay(door.address, SINGLE.replace("synthetic", voice)) as client:
        await client.send({"text": " "}, message, {"text": ""})
        assert await client.closed() == (1000 if voice == "synthetic" and "flush" in message else 1008)
        assert ("error" in client.told[-1]) == (voice == "nobody" or "flush" not in message)


async def test_an_end_that_is_sent_over_and_over_costs_nothing(door: Door) -> None:
    async with replay(door.address, SINGLE) as client:
        await client.send({"text": LONG}, {"text": ""})
        await client.until(lambda each: each["audio"])
        before = len(asyncio.all_tasks())
        for _ in range(100):
            await client.send({"text": ""})
        await client.send({"text": "x", "sparkle": 1, "context_id": "nobody"})
        await client.until(lambda each: "error" in each)
        assert len(asyncio.all_tasks()) < before + 50


async def test_an_empty_turn_is_final_without_sound(door: Door) -> None:
    async with replay(door.address, MULTI) as client:
        await client.send({"text": " ", "context_id": "c"}, {"text": "🙂", "context_id": "c", "flush": True})
        await client.send({"context_id": "c", "close_context": True})
        assert (await final(client, "c")).get("isFinal") is True
        assert sound(client, "c") == b""
