"""Conversations that speak into a call, by gRPC and WebSocket: what is told of them, and what is heard in the call."""

import asyncio

import grpc
import pytest

from oscine_codecs import g711
from oscine_engine.checkpoint.load import Checkpoint
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.conversation import Calls
from oscine_service.grpc.server import serving
from oscine_service.limits import Limits
from tests.service.calls import CANCEL, FLUSH, converse, text
from tests.service.telephony.lines import Line, line
from tests.service.waiting import until
from tests.service.websocket.clients import Client, Heard, client
from tests.service.websocket.conftest import Door, opened

pytestmark = pytest.mark.asyncio(loop_scope="package")

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8
START = {"mode": "sentence", "seed": 1, "sink": "line"}


async def free(door: Door) -> bool:
    return door.engine.load_now == (0, 0)


async def spoken(agent: Client) -> bytes:
    """The short text, as a client of its own hears it."""
    await agent.say("Yes it is.", "direct", format={"encoding": "mulaw", "sample_rate": 8000})
    await agent.send("end", "direct")
    return b"".join(frame for piece in (await agent.end("direct")).pieces for frame in piece.frames)


async def said_whole(agent: Client, call: Line, context: str, samples: int) -> Heard:
    """What is told of the short text, all of which is made before any is heard, so that the call never waits for it."""
    call.going.clear()
    player = call.sink.player
    whole = player.given + samples

    async def written() -> bool:
        return player.given == whole

    await agent.send("start", context, **START)
    await agent.send("text", context, text="Yes it is.")
    await agent.send("end", context)
    await until(written)
    call.going.set()
    return await agent.end(context)


async def test_a_call_hears_what_a_client_would_have_heard(door: Door) -> None:
    async with client(door.address) as agent:
        direct = await spoken(agent)
        async with line(door.calls.sinks) as call:
            told = await said_whole(agent, call, "a", len(direct))
    assert told.events[0]["format"] | {"bitrate": 0} == {
        "encoding": "mulaw",
        "container": "raw",
        "sample_rate": 8000,
        "bitrate": 0,
    }
    assert told.kinds[0] == "started" and told.kinds[-1] == "done" and "audio" not in told.kinds
    padding = call.sound[len(direct) :]
    assert call.sound[: len(direct)] == direct
    assert len(call.sound) % 160 == 0 and len(padding) < 160 and set(padding) <= {g711.MULAW.silence}
    positions = [event["samples"] for event in told.of("heard")]
    assert positions == sorted(set(positions)) and positions[-1] == len(direct)
    assert told.last["audio_seconds"] == len(direct) / 8000


async def test_marks_flushes_and_the_end_are_told_when_they_were_heard(door: Door) -> None:
    async with client(door.address) as agent, line(door.calls.sinks, beat_s=0.002) as call:
        await agent.send("start", **START)
        await agent.send("text", text="Yes it is. ")
        await agent.send("mark", name="one")
        await agent.send("flush")
        await agent.send("text", text="So it is. ")
        await agent.send("mark", name="two")
        await agent.send("end")
        heard: dict[str, int] = {}
        while await agent.next() != ("a", "done"):
            event = agent.heard["a"].last
            if event["type"] in ("marked", "flushed"):
                heard[event.get("name", "flushed")] = call.sink.player.heard
                assert event["end_sample"] <= call.sink.player.heard
        ends = {
            each.get("name", "flushed"): each["end_sample"] for each in agent.heard["a"].events if "end_sample" in each
        }
    assert [*heard] == ["one", "flushed", "two"]
    assert ends["one"] <= ends["flushed"] < ends["two"]
    # The call was heard in time order: the first mark was told long before the second sentence had sounded.
    assert heard["one"] < ends["two"]


async def test_an_interruption_is_answered_with_the_position_heard(door: Door) -> None:
    async with client(door.address) as agent, line(door.calls.sinks, beat_s=0.005) as call:
        await agent.send("start", **START)
        await agent.send("text", text="Yes it is. ")
        await agent.send("mark", name="heard")
        await agent.send("text", text=LONG)
        await agent.send("mark", name="never heard")
        await agent.until("marked")
        await agent.send("cancel")
        told = await agent.end()
        at = len(call.sent)
        heard = told.last["heard_samples"]
        assert told.kinds[-1] == "cancelled"
        assert [event["name"] for event in told.of("marked")] == ["heard"]
        assert 0 <= heard - told.of("heard")[-1]["samples"] <= 2000
        assert sum(frame.samples for frame in call.spoken) == heard
        await asyncio.sleep(0.1)
        assert not any(call.sent[at:]), "nothing is heard behind a cancel"
        assert len(call.sent) > at


async def test_the_next_turn_has_nothing_of_the_one_that_was_interrupted(door: Door) -> None:
    async with client(door.address) as agent, line(door.calls.sinks) as call:
        direct = await spoken(agent)
        await said_whole(agent, call, "a", len(direct))
        alone = call.sound
        await agent.send("start", "b", **START)
        await agent.send("text", "b", text=LONG)
        await agent.until("heard", "b")
        await agent.send("cancel", "b")
        await agent.end("b")
        at = len(call.spoken)
        told = await said_whole(agent, call, "c", len(direct))
    assert b"".join(frame.data for frame in call.spoken[at:]) == alone
    assert told.of("heard")[-1]["samples"] <= len(alone)


async def test_a_cancel_of_what_was_made_but_not_heard_yet(door: Door) -> None:
    """The engine is done, and its place is free, long before a listener has heard the end."""
    async with client(door.address) as agent, line(door.calls.sinks, beat_s=0.05) as call:
        await agent.send("start", **START)
        await agent.send("text", text="Yes it is. So it is.")
        await agent.send("end")
        await agent.until("heard")
        await until(lambda: free(door), 20)
        await agent.send("cancel")
        told = await agent.end()
        assert told.kinds[-1] == "cancelled"
        assert told.last["heard_samples"] == sum(frame.samples for frame in call.spoken)


async def test_an_agent_that_vanishes_is_not_heard_any_longer(door: Door) -> None:
    async with line(door.calls.sinks, beat_s=0.005) as call:
        async with client(door.address) as agent:
            await agent.send("start", **START)
            await agent.send("text", text=LONG)
            await agent.until("heard")
        await until(lambda: silent(call.sent), 20)
        assert not call.sink.turns


async def silent(sent: list[object]) -> bool:
    return len(sent) > 5 and not any(sent[-5:])


async def test_a_call_that_ends_ends_the_conversation(door: Door) -> None:
    async with client(door.address) as agent:
        async with line(door.calls.sinks, beat_s=0.005):
            await agent.send("start", **START)
            await agent.send("text", text=LONG)
            await agent.until("heard")
        told = await agent.end()
        assert told.last["code"] == "hung_up" and "has ended" in told.last["message"]


async def test_a_call_that_ends_while_its_agent_is_silent(door: Door) -> None:
    async with client(door.address) as agent:
        async with line(door.calls.sinks):
            await agent.send("start", **START)
            await agent.until("started")
        assert (await agent.end()).last["code"] == "hung_up"


async def test_a_call_that_plays_nothing_any_more(checkpoint: Checkpoint) -> None:
    """Its agent is told, and the next conversation has the call; waiting for the agent does not count."""
    async with (
        opened(checkpoint, Limits(write_timeout_s=0.5)) as door,
        client(door.address) as agent,
        line(door.calls.sinks) as call,
    ):
        await agent.send("start", **START)
        await agent.send("text", text="Yes it is. ")
        await agent.send("flush")
        await agent.until("flushed")
        await asyncio.sleep(1)
        call.going.clear()
        heard = call.sink.player.heard
        await agent.send("text", text=LONG)
        told = (await agent.end()).last
        assert told["code"] == "stalled" and f"at {heard} of" in told["message"]
        call.going.set()
        await agent.send("start", "b", **START)
        await agent.send("text", "b", text="Yes it is.")
        await agent.send("end", "b")
        assert (await agent.end("b")).kinds[-1] == "done"


async def test_conversations_are_heard_one_after_another(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oscine_service.telephony.sink.MOST_TURNS", 3)
    async with client(door.address) as agent, line(door.calls.sinks, beat_s=0.005) as call:
        await agent.send("start", **START)
        await agent.send("text", text=LONG)
        await agent.until("heard")
        for name in "bc":
            await agent.send("start", name, **START)
            await agent.send("text", name, text="So it is.")
            await agent.send("end", name)
        await agent.send("start", "d", **START)
        assert (await agent.end("d")).last["code"] == "call_taken"
        await agent.send("cancel", "c")
        assert (await agent.end("c")).last["heard_samples"] == 0
        assert "b" not in agent.heard or agent.heard["b"].kinds == ["started"]
        before = call.sink.player.heard
        await agent.send("cancel")
        told = await agent.end()
        assert told.last["heard_samples"] >= before > 0
        second = await agent.end("b")
        assert second.kinds[-1] == "done"
        assert second.last["audio_seconds"] * 8000 == call.sink.player.heard - told.last["heard_samples"]


async def test_an_agent_may_be_faster_than_its_carrier(door: Door) -> None:
    async with client(door.address) as agent:
        await agent.send("start", **START)
        await agent.send("text", text="Yes it is.")
        await agent.send("end")
        async with line(door.calls.sinks):
            assert (await agent.end()).kinds[-1] == "done"


async def test_calls_that_are_not_there_and_those_of_others(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oscine_service.conversation.calling.CALL_WAIT_S", 0.01)
    async with client(door.address) as agent, line(door.calls.sinks, "mine"), line(door.calls.sinks, "hers", "her"):
        for name in ("nobody", "hers"):
            await agent.send("start", name, **{**START, "sink": name})
            told = (await agent.end(name)).last
            assert told["code"] == "unknown_call" and told["message"] == f"no call {name!r} is up; there are: mine"


async def test_what_makes_no_sense_beside_a_call(door: Door) -> None:
    async with client(door.address) as agent, line(door.calls.sinks) as call:
        await agent.send("start", **START, format={"encoding": "pcm16"})
        assert "leave it out beside sink" in (await agent.end()).last["message"]
        await agent.send("start", "b", **START)
        await agent.send("text", "b", text="Yes it is.")
        await agent.send("played", "b", samples=1)
        await agent.send("end", "b")
        told = await agent.end("b")
        # What was heard is what the call says, not what its agent does.
        assert told.kinds[-1] == "done"
        assert told.of("heard")[-1]["samples"] == sum(frame.samples for frame in call.spoken) > 0


async def test_the_same_by_grpc(door: Door) -> None:
    calls = Calls()  # whose end is that of its server
    async with (
        serving(door.engine, "127.0.0.1", 0, calls=calls, grace_s=0) as server,
        grpc.aio.insecure_channel(server.address, (("grpc.enable_http_proxy", 0),)) as channel,
        line(calls.sinks, beat_s=0.002) as call,
    ):
        stub = SpeechServiceStub(channel)
        config = pb.SynthesizeRequest(config=pb.SynthesizeConfig(mode=pb.MODE_SENTENCE, seed=1, sink="line"))
        told = await converse(stub, [config, *text("Yes it is."), FLUSH])
        assert told.kinds[0] == "started" and told.kinds[-2:] == ["flushed", "done"] and "audio" not in told.kinds
        assert told.responses[0].started.audio.sample_rate == 8000
        heard = [each.heard.samples for each in told.responses if each.HasField("heard")]
        assert heard[-1] == sum(frame.samples for frame in call.spoken) == told.responses[-2].flushed.end_sample
        told = await converse(stub, [config, *text(LONG), CANCEL], pause_s=0.3)
        assert told.kinds[-1] == "cancelled"
        config.config.audio.encoding = pb.ENCODING_PCM16
        refused = await converse(stub, [config])
        assert refused.code is grpc.StatusCode.INVALID_ARGUMENT and "config.audio" in refused.details
