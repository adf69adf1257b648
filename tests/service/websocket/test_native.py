"""The native WebSocket protocol over a real socket: what goes well."""

import asyncio
import io

import numpy as np
import pytest
import soundfile

from oscine_codecs.ogg import OggMuxer
from tests.service.websocket.clients import client
from tests.service.websocket.conftest import Door

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8
SENTENCES = "Good morning, dear friend. It rains."


async def test_a_context_starts_sounds_and_ends(door: Door) -> None:
    async with client(door.address) as each:
        await each.say(SENTENCES, seed=7)
        await each.send("end")
        heard = await each.until("done")
    assert heard.kinds[0] == "started" and set(heard.kinds[1:-1]) == {"audio"}
    started = heard.of("started")[0]
    assert (started["seed"], started["mode"], started["voice"]) == (7, "sentence", next(iter(door.engine.voices)))
    assert started["format"]["sample_rate"] == 24000 and started["pre_skip"] == 0
    assert heard.last["segments"] == 2
    assert heard.last["audio_seconds"] == heard.samples / 24000
    heard.check_contiguous()
    assert heard.pcm().size == heard.samples > 0


async def test_opus_packets_decode_to_what_pcm_carries(door: Door) -> None:
    async with client(door.address) as each:
        await each.say(SENTENCES, "raw")
        await each.say(SENTENCES, "packed", format={"encoding": "opus", "bitrate": 48000})
        for context in ("raw", "packed"):
            await each.send("end", context)
        raw, packed = await each.end("raw"), await each.end("packed")
    packed.check_contiguous()
    assert packed.samples == raw.samples
    started = packed.of("started")[0]
    assert started["format"]["bitrate"] == 48000
    *body, last = [frame for piece in packed.pieces for frame in piece.frames]
    muxer = OggMuxer(started["pre_skip"], 24000)
    data = muxer.head() + b"".join(muxer.push(frame) for frame in body) + muxer.finish(last, packed.samples * 2)
    samples, rate = soundfile.read(io.BytesIO(data))
    assert samples.size == raw.samples * rate // 24000


async def test_contexts_do_not_disturb_each_other(door: Door) -> None:
    texts = {"a": "Good morning to you.", "b": "It rains again today, and it will rain.", "": "Yes.", "ü 天": "Late."}
    async with client(door.address) as each:
        alone = {}
        for name, text in texts.items():
            await each.say(text, name)
            await each.send("end", name)
            alone[name] = (await each.end(name)).pcm()
        each.heard.clear()
        for name, text in texts.items():
            await each.send("start", name, format={"encoding": "pcm16"}, mode="sentence", seed=1)
            await each.send("text", name, text=text[:3])
        for name, text in texts.items():
            await each.send("text", name, text=text[3:])
            await each.send("end", name)
        for name in texts:
            heard = await each.end(name)
            heard.check_contiguous()
            np.testing.assert_allclose(heard.pcm(), alone[name], atol=2e-2)


async def test_a_name_may_be_used_again_as_soon_as_its_last_message_is_here(door: Door) -> None:
    async with client(door.address) as each:
        for ending in ["end", "cancel"] * 10:
            await each.say("Yes.")
            await each.send(ending)
            heard = await each.end()
            assert heard.last["type"] == {"end": "done", "cancel": "cancelled"}[ending]
            each.heard.clear()


async def test_text_may_be_cut_within_a_character(door: Door) -> None:
    async with client(door.address) as each:
        await each.say("Good ")
        for half in ("\ud83d", "\ude42", "morning."):
            await each.send("text", text=half)
        await each.send("end")
        assert (await each.end()).last["type"] == "done"


async def test_flushes_and_marks_are_answered_in_order(door: Door) -> None:
    async with client(door.address) as each:
        await each.send("start", format={"encoding": "opus"}, mode="sentence", seed=1)
        await each.send("mark", name="start")
        await each.send("text", text="One thing, ")
        await each.send("mark", name="in one")
        await each.send("flush")
        await each.send("mark", name="behind")
        await each.send("text", text="and another. And a thi")
        await each.send("mark", name="in three")
        await each.send("text", text="rd.")
        await each.send("mark", name="last")
        await each.send("end")
        heard = await each.end()
    told = [event.get("name", "flushed") for event in heard.events if event["type"] in ("marked", "flushed")]
    assert told == ["start", "in one", "flushed", "behind", "in three", "last"]
    ends = [event["end_sample"] for event in heard.events if event["type"] in ("marked", "flushed")]
    assert ends == sorted(ends) and ends[0] == 0 < ends[1]
    assert ends[2] == ends[3], "a mark right behind a flush lies where its audio ends"
    assert ends[3] < ends[4] == ends[5] == heard.samples
    audio = [number for number, kind in enumerate(heard.kinds) if kind == "audio"]
    assert heard.kinds.index("flushed") > audio[0]


async def test_marks_change_nothing_in_what_is_said(door: Door) -> None:
    async with client(door.address) as each:
        await each.say(SENTENCES, "plain", mode="auto")
        await each.send("end", "plain")
        await each.send("start", "marked", format={"encoding": "pcm16"}, mode="auto", seed=1)
        for at in range(0, len(SENTENCES), 5):
            await each.send("text", "marked", text=SENTENCES[at : at + 5])
            await each.send("mark", "marked", name=str(at))
        await each.send("end", "marked")
        plain, marked = await each.end("plain"), await each.end("marked")
    assert marked.samples == plain.samples
    assert [event["name"] for event in marked.of("marked")] == [str(at) for at in range(0, len(SENTENCES), 5)]


async def test_an_interruption_stops_one_context_and_tells_what_it_had(door: Door) -> None:
    async with client(door.address) as each:
        await each.say(LONG, "long")
        await each.say(SENTENCES, "short")
        while await each.next() != ("long", "audio"):
            pass
        await each.send("cancel", "long")
        await each.send("text", "long", text="Not this.")
        heard = await each.until("cancelled", "long")
        assert heard.last["heard_samples"] == heard.samples > 0
        await each.send("end", "short")
        assert (await each.end("short")).last["type"] == "done"
        assert not each.heard["long"].kinds[heard.kinds.index("cancelled") + 1 :].count("audio")


async def test_what_was_played_counts_where_it_was_reported(door: Door) -> None:
    async with client(door.address) as each:
        await each.say(LONG)
        while await each.next() != ("a", "audio"):
            pass
        await each.send("played", samples=900)
        await each.send("played", samples=100)
        await each.send("cancel")
        assert (await each.until("cancelled")).last["heard_samples"] == 900


async def test_what_comes_too_late_to_matter_is_no_error(door: Door) -> None:
    async with client(door.address) as each:
        await each.send("cancel", "nobody")
        await each.send("played", "nobody", samples=5)
        await each.say("Yes.")
        await each.send("end")
        assert (await each.end()).last["type"] == "done"
        await each.send("cancel")
        await each.send("played", samples=5)
        await each.say("Yes.", "next")
        await each.send("end", "next")
        assert (await each.end("next")).last["type"] == "done"
        assert set(each.heard) == {None, "a", "next"} and each.heard[None].kinds == ["ready"]


async def test_who_leaves_without_a_word_holds_nothing(door: Door) -> None:
    for _ in range(4):
        async with client(door.address) as each:
            for context in "abcd":
                await each.say(LONG, context)
            while (await each.next())[1] != "audio":
                pass
            each.socket.transport.abort()
        await door.idle()
    tasks = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}
    assert not any("Channel" in name or "Conversation" in name for name in tasks)


async def test_the_subprotocol_is_taken_where_it_is_offered(door: Door) -> None:
    async with client(door.address, subprotocols=["other", "oscine.v1"]) as each:
        assert each.socket.subprotocol == "oscine.v1"
    async with client(door.address) as each:
        assert each.socket.subprotocol is None
