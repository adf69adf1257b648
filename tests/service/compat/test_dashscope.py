"""DashScope's dialect, by messages as its client sends them."""

import io
from typing import Any

import pytest
import soundfile

from tests.service.compat.replay import Replay, replay
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="package")

PATH = "/api-ws/v1/inference"
TEXT = "Good morning, dear friend. It rains."
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8


def action(kind: str, name: str = "t", **payload: Any) -> dict[str, Any]:
    return {"header": {"action": kind, "task_id": name, "streaming": "duplex"}, "payload": {"input": {}, **payload}}


def run(name: str = "t", **parameters: Any) -> dict[str, Any]:
    """What the client sends where nothing is chosen but the voice."""
    usual = {
        "voice": "synthetic",
        "volume": 50,
        "text_type": "PlainText",
        "sample_rate": 0,
        "rate": 1.0,
        "format": "Default",
        "pitch": 1.0,
        "seed": 0,
        "type": 0,
    }
    about = {"model": "cosyvoice-v3", "task_group": "audio", "task": "tts", "function": "SpeechSynthesizer"}
    return action("run-task", name, **about, parameters={**usual, **parameters})


def say(text: str, task: str = "t") -> dict[str, Any]:
    return action("continue-task", task, model="cosyvoice-v3", input={"text": text})


async def event(client: Replay, kind: str) -> dict[str, Any]:
    return await client.until(lambda each: each["header"]["event"] == kind)


async def test_a_task_with_the_client_s_defaults(door: Door) -> None:
    async with replay(door.address, PATH, additional_headers={"Authorization": "Bearer any"}) as client:
        await client.send(run())
        assert (await event(client, "task-started"))["header"]["task_id"] == "t"
        await client.send(say(TEXT[:10]), say(TEXT[10:]), action("finish-task"))
        done = await event(client, "task-finished")
        assert done["payload"]["usage"]["characters"] == len(TEXT)
        samples, rate = soundfile.read(io.BytesIO(client.sound))
        assert rate == 22050 and samples.size > rate / 10


@pytest.mark.parametrize(
    ("format", "rate", "more"), [("wav", 16000, {}), ("opus", 48000, {"bit_rate": 32}), ("pcm", 24000, {})]
)
async def test_formats(door: Door, format: str, rate: int, more: dict[str, Any]) -> None:
    async with replay(door.address, f"{PATH}/") as client:
        await client.send(run(format=format, sample_rate=rate, **more), say(TEXT), action("finish-task"))
        await event(client, "task-finished")
        if format == "pcm":
            assert len(client.sound) % 2 == 0 < len(client.sound)
        else:
            samples, found = soundfile.read(io.BytesIO(client.sound))
            assert found == rate and samples.size > rate / 10


async def test_tasks_follow_each_other(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        for task in ("one", "two", "one"):
            await client.send(
                run(task, format="pcm", sample_rate=16000), say("Yes it is.", task), action("finish-task", task)
            )
            await event(client, "task-finished")
        await client.send(run("long", format="pcm"), say(LONG, "long"), run("other"))
        failed = await event(client, "task-failed")
        assert failed["header"]["task_id"] == "other" and "still running" in failed["header"]["error_message"]
        await client.send(action("finish-task", "long", input={"directive": "cancel"}))
        assert (await event(client, "task-finished"))["header"]["task_id"] == "long"


async def test_a_flush_speaks_what_is_there(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(run(format="pcm"), say("This is half a sentence"))
        await client.send(action("continue-task", input={"flush": True}))
        await client.until_sound()
        await client.send(action("finish-task"))
        await event(client, "task-finished")


async def test_words_have_times(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(run(format="pcm", word_timestamp_enabled=True), say("Good morning."), action("finish-task"))
        await event(client, "task-finished")
        results = [each["payload"]["output"] for each in client.told if each["header"]["event"] == "result-generated"]
        words = [word for each in results for word in each["sentence"]["words"]]
        assert [word["text"] for word in words] == ["Good", "morning"]
        assert all(word["begin_time"] <= word["end_time"] for word in words)


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"voice": "nobody"}, "synthetic"),
        ({"volume": 80}, "volume"),
        ({"pitch": 1.5}, "pitch"),
        ({"rate": 9}, "speed"),
        ({"format": "amr"}, "format"),
        ({"sample_rate": 1}, "sample_rate"),
        ({"language_hints": "zh"}, "language_hints"),
        ({"hot_fix": {"pronunciation": [{"a": "b"}]}}, "hot_fix.pronunciation"),
        ({"sparkle": 1}, "sparkle"),
    ],
)
async def test_what_is_not_offered_fails_the_task_by_name(door: Door, parameters: dict[str, Any], why: str) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(run(**parameters))
        failed = (await event(client, "task-failed"))["header"]
        assert why in failed["error_message"] and failed["error_code"] in ("invalid_input", "unknown_voice")


async def test_a_task_that_fails_with_its_first_text_is_over(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        broken = run()
        broken["payload"]["input"] = {"text": "x" * 20_001}
        await client.send(broken)
        assert "input.text" in (await event(client, "task-failed"))["header"]["error_message"]
        await client.send(run("u"), say("Hello.", "u"), action("finish-task", "u"))
        assert (await event(client, "task-finished"))["header"]["task_id"] == "u"


async def test_an_empty_task_finishes_without_sound(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(run(), say("🙂"), action("finish-task"))
        await event(client, "task-finished")


async def test_messages_out_of_place(door: Door) -> None:
    async with replay(door.address, PATH) as client:
        await client.send(say("Hello."), action("sing-task"))
        assert "run-task" in (await event(client, "task-failed"))["header"]["error_message"]
        assert "sing-task" in (await event(client, "task-failed"))["header"]["error_message"]
        for broken in ("{", "{}", '{"header": {"task_id": ""}}', b"\x00"):
            await client.socket.send(broken)
            await event(client, "task-failed")
