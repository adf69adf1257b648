"""The native WebSocket protocol over a real socket: bad input and limits."""

import asyncio
import contextlib
import json
import random

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from oscine_service.conversation.backlog import MOST_CHARACTERS
from oscine_service.http.server import MAX_MESSAGE_BYTES
from oscine_service.websocket.socket import MOST_CONTEXTS
from tests.service.websocket.clients import PCM, client
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8

NOWHERE: list[tuple[str, str | bytes, str]] = [
    ("empty", "", "not JSON"),
    ("no JSON", "{", "not JSON"),
    ("deep", "[" * 100_000, "not JSON"),
    ("long number", '{"type": "played", "samples": ' + "9" * 5000 + "}", "not JSON"),
    ("not a number", '{"type": "played", "samples": NaN}', "no number of JSON"),
    ("a list", "[]", "not a JSON object"),
    ("binary", b"\x00\x01", "text messages"),
    ("context a number", '{"type": "text", "context": 1, "text": ""}', "must be a string"),
    ("context too long", json.dumps({"type": "text", "context": "c" * 65}), "at most 64"),
]
START: list[tuple[str, dict[str, object], str]] = [
    ("unknown field", {"voise": "x"}, "'voise' is no field of start"),
    ("unknown voice", {"voice": "nobody"}, "synthetic"),
    ("endless voice", {"voice": "n" * 100_000}, "at most 200"),
    ("unknown mode", {"mode": "fast"}, "sentence, interleaved, auto"),
    ("unknown encoding", {"format": {"encoding": "vorbis"}}, "opus, pcm16"),
    ("unknown format field", {"format": {"rate": 8000}}, "'rate' is no field of format"),
    ("wrong rate", {"format": {"encoding": "pcm16", "sample_rate": 12345}}, "24000"),
    ("PCM bitrate", {"format": {"encoding": "pcm16", "bitrate": 9000}}, "bitrate"),
    ("format a string", {"format": "opus"}, "an object"),
    ("seed a string", {"seed": "1"}, "a whole number"),
    ("seed true", {"seed": True}, "a whole number"),
    ("seed negative", {"seed": -1}, "seed"),
    ("seed too large", {"seed": 2**63}, "seed: the number is out of range; use at most 9223372036854775807"),
    ("quiet too short", {"quiet_ms": 19}, "20 to 60000"),
    ("speed out of range", {"speed": 99}, "speed"),
    ("speed too large", {"speed": 10**400}, "speed: inf is out of range; use 0.5 to 2"),
    ("speed a string", {"speed": "fast"}, "a number"),
    ("trim a string", {"trim": "yes"}, "true or false"),
    ("top_k too large", {"top_k": 10**30}, "top_k: the number is out of range"),
    ("pronunciations a list", {"pronunciations": ["x"]}, "an object"),
    ("pronunciation a number", {"pronunciations": {"x": 1}}, "pronunciations.x: 1; it must be a string"),
    ("reference no base64", {"reference": {"audio": "%%"}}, "base64"),
    ("reference empty", {"reference": {"audio": ""}}, "reference.audio"),
    ("reference without audio", {"reference": {}}, "reference.audio: it is missing"),
]
LATE: list[tuple[str, dict[str, object], str]] = [
    ("start again", {"type": "start"}, "still running"),
    ("unknown type", {"type": "speak"}, "start"),
    ("no type", {}, "type: it is missing"),
    ("type a number", {"type": 1}, "must be a string"),
    ("no text", {"type": "text"}, "text: it is missing"),
    ("text a number", {"type": "text", "text": 5}, "must be a string"),
    ("text too large", {"type": "text", "text": "a" * 65537}, "65536"),
    ("text with more", {"type": "text", "text": "a", "flush": True}, "'flush' is no field of text"),
    ("mark without a name", {"type": "mark", "name": ""}, "1 to 200"),
    ("played negative", {"type": "played", "samples": -1}, "0 or more"),
    ("played a fraction", {"type": "played", "samples": 1.5}, "a whole number"),
]


async def test_what_cannot_be_understood_is_told_and_harms_no_context(door: Door) -> None:
    async with client(door.address) as each:
        await each.say("First this. ")
        for name, message, why in NOWHERE:
            await each.socket.send(message)
            told = (await each.until("error", None)).last
            assert told["code"] == "invalid_input" and why in told["message"] and "context" not in told, name
        await each.send("text", text="Then that.")
        await each.send("end")
        assert (await each.end()).last["segments"] == 2


async def test_a_bad_start_is_refused_and_says_why(door: Door) -> None:
    async with client(door.address) as each:
        for name, fields, why in START:
            await each.socket.send(json.dumps({"type": "start", "context": "a", "format": PCM, **fields}))
            told = (await each.until("error")).last
            assert why in told["message"] and "retry_after_ms" not in told, name
            assert told["code"] == ("unknown_voice" if fields == {"voice": "nobody"} else "invalid_input"), name
        await each.say("All is well.")
        await each.send("end")
        assert (await each.until("done")).samples > 0


async def test_a_late_bad_message_loses_nothing_accepted_before_it(door: Door) -> None:
    async with client(door.address) as each:
        await each.say("Yes. ", "good")
        await each.send("text", "good", text="No.")
        await each.send("end", "good")
        good = await each.end("good")
        for name, late, why in LATE:
            await each.say("Yes. ", name)
            await each.send("text", name, text="No.")
            await each.socket.send(json.dumps({"context": name, **late}))
            await each.send("text", name, text="Not this.")
            heard = await each.end(name)
            assert heard.last["type"] == "error" and why in heard.last["message"], name
            assert heard.samples == good.samples > 0, name


async def test_text_for_nobody_is_an_error(door: Door) -> None:
    async with client(door.address) as each:
        for kind, fields in (("text", {"text": "Hello."}), ("flush", {}), ("mark", {"name": "m"}), ("end", {})):
            await each.send(kind, kind, **fields)
            assert "send a start first" in (await each.until("error", kind)).last["message"]


@pytest.mark.parametrize("text", ["", "  ", "… ?! \u200b🙂", "，。"])
async def test_nothing_to_speak_is_an_error(door: Door, text: str) -> None:
    async with client(door.address) as each:
        await each.say(text)
        await each.send("flush")
        await each.send("end")
        heard = await each.end()
        assert heard.kinds == ["started", "flushed", "error"]
        assert "nothing to speak" in heard.last["message"]


async def test_text_behind_the_end_is_refused(door: Door) -> None:
    async with client(door.address) as each:
        await each.say("Yes. No.")
        await each.send("end")
        plain = await each.end()
        await each.say("Yes. No.", "late")
        await each.send("end", "late")
        for kind, fields in (("text", {"text": "More."}), ("flush", {}), ("mark", {"name": "m"})):
            await each.send(kind, "late", **fields)
        await each.socket.send('{"type": "text", "context": "late", "text": 5}')
        # The end of a context that is as short as this may be faster than what comes too late for it.
        heard = await each.end("late")
    if heard.last["type"] == "done":
        assert heard.samples == plain.samples > 0
    told = each.heard[None].of("error") + heard.of("error")
    assert told and {error["code"] for error in told} == {"invalid_input"}
    assert all("late" in error["message"] for error in told)


async def test_a_full_engine_refuses_with_a_hint(door: Door) -> None:
    async with client(door.address) as each:
        for context in "abcd":
            await each.say(LONG, context)
        while len(each.heard) < 5:
            await each.next()
        await each.say("Hello.", "one too many")
        told = (await each.until("error", "one too many")).last
        assert told["code"] == "overloaded" and told["retry_after_ms"] > 0


async def test_more_contexts_than_a_socket_has_are_refused(door: Door) -> None:
    async with client(door.address) as each:
        for number in range(MOST_CONTEXTS + 1):
            await each.send("start", str(number))
        # All are opening: the engine has taken none yet, or refuses most.
        refused = [await each.end(str(number)) for number in range(4, MOST_CONTEXTS)]
        last = (await each.end(str(MOST_CONTEXTS))).last
        assert {heard.last["code"] for heard in refused} == {"overloaded"}
        assert last["code"] in ("invalid_input", "overloaded")


async def test_more_text_than_may_wait_is_refused(door: Door) -> None:
    """Reading goes on, since signs of life come the same way."""
    async with client(door.address) as each:
        await each.say("Yes it is. ")
        for _ in range(MOST_CHARACTERS // 50_000 + 3):
            await each.send("text", text="Yes it is. " * 5000)
        await each.send("text", "other", text="x")
        assert "start first" in (await each.until("error", "other")).last["message"]
        await each.send("cancel")
        assert (await each.end()).last["type"] == "cancelled"


async def test_a_message_too_large_ends_the_socket(door: Door) -> None:
    socket = await connect(f"ws://{door.address}/v1/speech", compression=None, proxy=None)
    await socket.recv()
    with contextlib.suppress(ConnectionClosed):
        await socket.send("x" * (MAX_MESSAGE_BYTES + 1))
    await socket.wait_closed()
    assert socket.close_code == 1009


@pytest.mark.slow
async def test_random_bytes_in_any_order_leave_the_port_as_it_was(door: Door) -> None:
    """Whole messages, torn ones and noise, in a random order of verbs."""
    dice = random.Random(5)
    good = [
        {"type": "start", "format": PCM},
        {"type": "text", "text": "Yes. "},
        {"type": "flush"},
        {"type": "mark", "name": "m"},
        {"type": "played", "samples": 10},
        {"type": "cancel"},
        {"type": "end"},
    ]
    async with client(door.address) as each, asyncio.timeout(120):
        reading = asyncio.create_task(_read(each.socket))
        for _ in range(300):
            message = json.dumps({**dice.choice(good), "context": dice.choice("abc")})
            match dice.randrange(10):
                case 0:
                    message = message[: dice.randrange(len(message))]
                case 1:
                    at = dice.randrange(len(message))
                    message = message[:at] + chr(dice.randrange(0x3000)) + message[at + 1 :]
            await each.socket.send(message)
        await each.socket.close()
        await reading
    await door.idle()
    async with client(door.address) as each:
        await each.say("All is well.")
        await each.send("end")
        assert (await each.end()).last["type"] == "done"


async def _read(socket: object) -> None:
    async for _ in socket:  # type: ignore[attr-defined]
        pass
