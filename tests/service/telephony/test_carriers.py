"""Calls of carriers, by messages as their documents have them, over real sockets."""

import asyncio
import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_engine.errors import InvalidInput
from oscine_service.telephony.carriers.routes import CARRIERS
from tests.service.telephony.listeners import SCRIPTS, Listener, Mark, Script, Sound, call
from tests.service.waiting import until
from tests.service.websocket.clients import client
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="package")

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 4
every_carrier = pytest.mark.parametrize("script", SCRIPTS.values(), ids=[*SCRIPTS])
# The rest of them differ in their messages only, which a turn shows.
some_carriers = pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=() if name in ("twilio", "asterisk") else pytest.mark.slow)
        for name, script in SCRIPTS.items()
    ],
    ids=[*SCRIPTS],
)


def start(script: Script, name: str | None = None) -> dict[str, object]:
    return {"mode": "sentence", "seed": 1, "sink": name or script.names[0]}


def width(script: Script) -> int:
    return 2 if script.format.encoding == "pcm16" else 1


@every_carrier
async def test_a_turn(door: Door, script: Script) -> None:
    format = {"encoding": script.format.encoding.value, "sample_rate": script.format.sample_rate}
    async with client(door.address) as agent:
        await agent.say("Yes it is.", "direct", format=format)
        await agent.send("end", "direct")
        direct = b"".join(frame for piece in (await agent.end("direct")).pieces for frame in piece.frames)
        async with call(door.address, script) as listener:
            await listener.socket.send(script.caller)
            await agent.send("start", **start(script))
            await agent.send("text", text="Yes it is.")
            await agent.send("mark", name="end")
            await agent.send("end")
            told = await agent.end()
            assert told.events[0]["format"] == {**format, "container": "raw", "bitrate": 0}
            assert told.kinds[-1] == "done" and told.of("marked")[-1]["name"] == "end"
            assert bytes(listener.heard[: len(direct)]) == direct
            frame = script.format.sample_rate // 50 * width(script)
            assert len(listener.heard) - len(direct) < frame
            assert all(size % frame == 0 for size in listener.sizes)
            positions = [event["samples"] for event in told.of("heard")]
            assert positions == sorted(set(positions)) and positions[-1] * width(script) == len(direct)
            assert not listener.clears and not listener.queue
            (sink,) = door.calls.sinks
            assert sink.names == script.names and sink.details()["received_bytes"] == frame


@some_carriers
async def test_an_interruption(door: Door, script: Script) -> None:
    """What is told to be heard lies between the last mark that was heard and what had been sent; marks that come back
    because of the clear change nothing."""
    async with client(door.address) as agent, call(door.address, script, frame_s=0.005) as listener:
        await agent.send("start", **start(script))
        await agent.send("text", text="Yes it is. ")
        await agent.send("mark", name="heard")
        await agent.send("text", text=LONG)
        await agent.send("mark", name="never heard")
        await agent.until("marked")
        await until(lambda: sent(listener.queue, 0.5 * script.format.sample_rate * width(script)))
        await agent.send("cancel")
        told = await agent.end()
        await until(lambda: cleared(listener))
        assert told.kinds[-1] == "cancelled" and [each["name"] for each in told.of("marked")] == ["heard"]
        heard = told.last["heard_samples"] * width(script)
        # Of what was on its way when the clear was sent, some was heard.
        assert heard - 0.3 * script.format.sample_rate <= len(listener.heard)
        assert heard >= told.of("heard")[-1]["samples"] * width(script)
        at, before = len(listener.messages), bytes(listener.heard)
        await asyncio.sleep(0.1)
        assert len(listener.messages) == at and listener.heard == before
        # The next turn follows where the listener was.
        await agent.send("start", "b", **start(script, script.names[-1]))
        await agent.send("text", "b", text="Yes it is.")
        await agent.send("end", "b")
        told = await agent.end("b")
        samples = told.of("heard")[-1]["samples"]
        assert told.kinds[-1] == "done" and told.last["audio_seconds"] * script.format.sample_rate == samples
        assert 0 <= len(listener.heard) - len(before) - samples * width(script) < 640


async def sent(queue: list[Sound | Mark], size: float) -> bool:
    return sum(len(each.data) for each in queue if isinstance(each, Sound)) > size


async def cleared(listener: Listener) -> bool:
    return listener.clears == 1


async def test_speech_is_not_sent_further_ahead_than_a_carrier_holds(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oscine_service.telephony.carriers.carrier.Base.credit_s", 1.0)
    script = SCRIPTS["twilio"]
    async with client(door.address) as agent, call(door.address, script, frame_s=0.01) as listener:
        await agent.send("start", **start(script))
        await agent.send("text", text=LONG)
        most = 0
        for _ in range(100):
            await asyncio.sleep(0.02)
            most = max(most, sum(len(each.data) for each in listener.queue if isinstance(each, Sound)))
        # What is written at once, an engine's chunk, goes out whole.
        assert 4000 < most < 8000 * 2.2
        await agent.send("cancel")
        await agent.end()


async def test_asterisk_that_is_full_is_sent_nothing_until_it_has_room(door: Door) -> None:
    script = SCRIPTS["asterisk"]
    async with client(door.address) as agent, call(door.address, script, frame_s=0.002) as listener:
        await listener.socket.send('{"event": "MEDIA_XOFF", "channel_id": "pbx1-123456789.999"}')
        await until(lambda: is_up(door))
        await asyncio.sleep(0.05)
        await agent.send("start", **start(script))
        await agent.send("text", text="Yes it is.")
        await agent.send("end")
        await agent.until("started")
        await until(lambda: engine_is_free(door))
        assert not listener.sizes
        await listener.socket.send('{"event": "MEDIA_XON", "channel_id": "pbx1-123456789.999"}')
        assert (await agent.end()).kinds[-1] == "done"
        assert listener.sizes


async def is_up(door: Door) -> bool:
    return bool([*door.calls.sinks])


async def engine_is_free(door: Door) -> bool:
    return door.engine.load_now == (0, 0)


@some_carriers
async def test_a_caller_who_hangs_up(door: Door, script: Script) -> None:
    async with client(door.address) as agent:
        async with call(door.address, script, frame_s=0.005) as listener:
            await agent.send("start", **start(script))
            await agent.send("text", text=LONG)
            await agent.until("heard")
            if script.over is None:
                await listener.socket.close()
            else:
                await listener.socket.send(script.over)
            assert (await agent.end()).last["code"] == "hung_up"
        assert not [*door.calls.sinks]


async def test_opus_to_asterisk_is_sent_in_time(door: Door) -> None:
    script = SCRIPTS["asterisk"]
    at: list[float] = []
    packets: list[bytes] = []

    def read(message: str | bytes) -> Sound:
        assert isinstance(message, bytes), "nothing is marked or flushed where it is passed on"
        at.append(loop.time())
        packets.append(message)
        return Sound(message)

    told_first = json.dumps({**json.loads(script.opening[0]), "format": "opus"})
    asked = replace(script, opening=(told_first,), read=read)
    loop = asyncio.get_running_loop()

    async def all_came() -> bool:
        return len(packets) == len(direct)

    async with client(door.address) as agent:
        await agent.say("Yes it is.", "direct", format={"encoding": "opus"})
        await agent.send("end", "direct")
        direct = [frame for piece in (await agent.end("direct")).pieces for frame in piece.frames]
        before = loop.time()
        async with call(door.address, asked):
            await agent.send("start", **start(asked))
            await agent.send("text", text="Yes it is.")
            await agent.send("end")
            told = await agent.end()
            await until(all_came)
            assert told.kinds[-1] == "done" and packets == direct
            # Never ahead of the clock, whatever came late.
            assert all(moment - before > number * 0.02 - 0.002 for number, moment in enumerate(at))
            assert len(at) > 5


def opening(event: str, **start: object) -> str:
    return json.dumps({"event": event, "start": start} if event == "start" else {"event": event, **start})


@pytest.mark.parametrize(
    ("path", "message", "why"),
    [
        ("twilio", opening("start", streamSid="MZ1"), "callSid"),
        (
            "twilio",
            opening("start", streamSid="M", callSid="C", mediaFormat={"encoding": "audio/l16"}),
            "use audio/x-mulaw",
        ),
        ("telnyx", opening("start", call_control_id="a", media_format={"encoding": "G722"}), "PCMU"),
        (
            "plivo",
            opening("start", callId="a", streamId="b", mediaFormat={"encoding": "audio/x-l16"}),
            "use contentType=audio/x-mulaw;rate=8000",
        ),
        ("vonage", opening("websocket:connected", **{"content-type": "audio/l16;rate=16000"}), "?call=NAME"),
        (
            "vonage",
            opening("websocket:connected", **{"content-type": "audio/l16;rate=7", "call": "a"}),
            "rate=8000",
        ),
        ("telnyx", opening("start", call_control_id="\ud800"), "surrogate"),
        ("asterisk", opening("MEDIA_START", connection_id="a", format="g722"), "dial with one of ulaw"),
        ("asterisk", "MEDIA_START connection_id:a", "format: it is missing"),
        ("twilio", "not JSON", "not JSON"),
        ("twilio", b"\x00" * 160, "binary message"),
    ],
    ids="twilio0 twilio1 telnyx0 plivo vonage0 vonage1 telnyx1 asterisk0 asterisk1 twilio2 twilio3".split(),
)
async def test_calls_that_cannot_be_served(door: Door, path: str, message: str | bytes, why: str) -> None:
    async with call(door.address, replace(SCRIPTS[path], opening=(message,))) as listener:
        await until(lambda: is_closed(listener))
        assert listener.closed == 1008 and why in (listener.socket.close_reason or "")


async def is_closed(listener: Listener) -> bool:
    return listener.closed is not None


async def test_a_name_that_is_taken(door: Door) -> None:
    script = SCRIPTS["plivo"]
    async with call(door.address, script):
        await until(lambda: is_up(door))
        async with call(door.address, script) as second:
            await until(lambda: is_closed(second))
            assert second.closed == 1008 and "is up already" in (second.socket.close_reason or "")
        assert len([*door.calls.sinks]) == 1


async def test_what_is_not_understood_in_the_middle_of_a_call_does_not_end_it(door: Door) -> None:
    script = SCRIPTS["twilio"]
    async with client(door.address) as agent, call(door.address, script) as listener:
        for odd in ("{", "[]", '{"event": 5}', '{"event": "mark"}', b"\x00", '{"event": "tomorrow"}'):
            await listener.socket.send(odd)
        await listener.socket.send('{"event": "dtmf", "dtmf": {"track": "inbound_track", "digit": "1"}}')
        await agent.send("start", **start(script))
        await agent.send("text", text="Yes it is.")
        await agent.send("end")
        assert (await agent.end()).kinds[-1] == "done"


@pytest.mark.parametrize("message", ["x" * (1 << 17) + "x", bytes((1 << 17) + 1)], ids=["text", "bytes"])
async def test_a_message_that_no_carrier_sends(door: Door, message: str | bytes) -> None:
    async with call(door.address, SCRIPTS["twilio"]) as listener:
        await until(lambda: is_up(door))
        await listener.socket.send(message)
        await until(lambda: is_closed(listener))
        assert listener.closed == 1008 and "131072" in (listener.socket.close_reason or "")


@given(carrier=st.sampled_from([*SCRIPTS]), data=st.data())
async def test_whatever_comes_is_read_or_refused(carrier: str, data: st.DataObject) -> None:
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
        max_leaves=8,
    )
    translator = next(each for each in CARRIERS if each.kind == carrier.partition("_")[0])()
    for message in SCRIPTS[carrier].opening:
        if message.startswith("{"):
            told = json.loads(message)
            for part in (told, *(each for each in told.values() if isinstance(each, dict))):
                for name in data.draw(st.sets(st.sampled_from([*part]), max_size=2)):
                    part[name] = data.draw(values)
            message = json.dumps(told)
        else:
            message = data.draw(st.text(max_size=60)) + message[data.draw(st.integers(0, 60)) :]
        with contextlib.suppress(InvalidInput):
            translator.read(message)
    with contextlib.suppress(InvalidInput):
        translator.read(data.draw(st.text(max_size=60) | st.binary(max_size=60)))


async def test_a_call_that_is_ended_here(door: Door) -> None:
    said: list[str | bytes] = []

    def read(message: str | bytes) -> Mark:
        said.append(message)
        return Mark("")

    async with call(door.address, replace(SCRIPTS["asterisk_text"], read=read)) as listener:
        await until(lambda: is_up(door))
        (sink,) = door.calls.sinks
        sink.hang_up()
        await until(lambda: is_closed(listener))
        assert listener.closed == 1000 and said == ["HANGUP"]
