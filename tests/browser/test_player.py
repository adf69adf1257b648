"""What reaches the graph in front of the speakers, against what the service sent: to the sample."""

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from bench.browser.chromium import Page, PageError
from bench.browser.link import Link, now_and_then, through
from tests.browser.conftest import OPUS, PCM, SECONDS, Stage, value

pytestmark = pytest.mark.asyncio(loop_scope="module")
FADE = 384


async def played(page: Page, name: str, seed: int) -> dict[str, Any]:
    return value(await page.run(f"stage.played({json.dumps(name)}, {{seed: {seed}}})"))


def whole(stage: Stage, name: str, seed: int, told: dict[str, Any], format: Any = OPUS) -> None:
    """All was heard, once, in order, at its own level; between its samples nothing but silence with faded edges."""
    found = stage.aligned(name, seed, format)
    assert found.played == len(stage.sent(seed, format)) == told["position"] == SECONDS * 48000
    assert told["underruns"] == len(found.inserted)
    assert found.edge < 0.02 and found.rest == 0


@pytest.mark.parametrize("format", [OPUS, PCM], ids=["opus", "pcm"])
async def test_what_is_heard_is_what_was_sent(stage: Stage, format: Any) -> None:
    page = await stage.page()
    if format is PCM:
        await page.run("delete globalThis.AudioDecoder")
    told = await played(page, f"even-{format.encoding.value}", 1)
    assert told["started"]["format"]["encoding"] == format.encoding.value
    whole(stage, f"even-{format.encoding.value}", 1, told, format)
    assert not page.errors


async def test_messages_that_come_late_cost_silence_and_nothing_else(stage: Stage) -> None:
    link = Link(now_and_then(0.3, 0.3, seed=2))
    async with through(link, stage.address) as address:
        told = await played(await stage.page(address), "held", 2)
    assert link.held > 2 and told["underruns"] > 0
    whole(stage, "held", 2, told)


async def test_a_link_with_little_more_than_it_takes(stage: Stage) -> None:
    """Opus takes 4 kB a second here, and a little for heads. On less it stutters, and loses nothing."""
    async with through(Link(rate=6000), stage.address) as address:
        whole(stage, "narrow", 3, await played(await stage.page(address), "narrow", 3))
    async with through(Link(rate=2500), stage.address) as address:
        told = await played(await stage.page(address), "starved", 4)
    assert told["underruns"] > 0
    whole(stage, "starved", 4, told)


async def test_a_tab_behind_another_plays_on(stage: Stage) -> None:
    page = await stage.page()
    playing = asyncio.create_task(played(page, "behind", 5))
    await asyncio.sleep(1)
    front = await stage.browser.open(f"http://{stage.address}/bench/")
    await stage.browser.show(front)
    await page.until("document.hidden")
    told = await playing
    assert told["hidden"]
    whole(stage, "behind", 5, told)
    await stage.browser.close(front)


async def test_a_page_that_is_busy_is_not_heard(stage: Stage) -> None:
    """Half of the time its own thread does nothing for anybody."""
    page = await stage.page()
    playing = asyncio.create_task(played(page, "busy", 6))
    await asyncio.sleep(1.5)
    await page.run(
        "(() => { let left = 6; const burn = () => { const end = performance.now() + 300;"
        "while (performance.now() < end); if (left-- > 0) setTimeout(burn, 300); }; burn(); })()"
    )
    whole(stage, "busy", 6, await playing)


async def test_an_interruption_is_silence_at_once_and_the_service_knows_what_was_heard(stage: Stage) -> None:
    page = await stage.page()
    took = []
    for attempt in range(3):
        name, seed = f"interrupted-{attempt}", 10 + attempt
        told = value(await page.run(f"stage.interrupted('{name}', {{seed: {seed}}}, 1200)"))
        position = told["heard"]["position"]
        assert told["told"]["heard_samples"] == position // 2
        found = stage.aligned(name, seed)
        assert not found.inserted or found.edge < 0.02
        # Unchanged up to the fade, which counts as heard; nothing behind it.
        assert position - FADE <= found.played <= position
        captured = stage.captured(name)
        last = int(np.flatnonzero(captured)[-1]) - found.begins - sum(each.end - each.start for each in found.inserted)
        assert last < position
        sent = stage.sent(seed)
        ratio = captured[found.begins :][:last][-FADE + 20 :].max() / np.abs(sent).max()
        assert ratio < 1
        took.append(told["silent"] - told["asked"])
    # By the clock of the sound. One of three: the machine may be busy with something else.
    assert min(took) < 0.06, took
    assert stage.port.admitted == 0


async def test_calls_are_heard_one_behind_the_other(stage: Stage) -> None:
    page = await stage.page()
    told = value(
        await page.run(
            """(async () => {
              const { player, link } = await stage.ready();
              const recorder = await stage.Recorder.open(player, "two");
              const calls = [link.speak("One.", { seed: 20 }), link.speak("Two.", { seed: 21 })];
              const [first, second] = await Promise.all(calls.map((call) => call.finished));
              await recorder.stop();
              await player.close();
              return { first, second };
            })()"""
        )
    )
    first, second = stage.aligned("two", 20), stage.aligned("two", 21)
    assert first.played == second.played == told["first"]["position"] == told["second"]["position"]
    end = first.begins + first.played + sum(each.end - each.start for each in first.inserted)
    assert end <= second.begins <= end + 2 * FADE + 128, "and without a pause between them"


async def test_a_pause_loses_nothing(stage: Stage) -> None:
    page = await stage.page()
    told = value(
        await page.run(
            """(async () => {
              const { player, link } = await stage.ready();
              const recorder = await stage.Recorder.open(player, "paused");
              const call = link.speak("Play it.", { seed: 30 });
              await new Promise((wake) => call.addEventListener("begun", wake, { once: true }));
              const wait = (ms) => new Promise((wake) => setTimeout(wake, ms));
              await wait(700);
              player.pause();
              await wait(300);
              const before = call.position;
              await wait(700);
              const after = call.position;
              player.resume();
              const end = await call.finished;
              await recorder.stop();
              await player.close();
              return { before, after, end };
            })()"""
        )
    )
    assert told["before"] == told["after"] > 0
    found = stage.aligned("paused", 30)
    assert found.played == told["end"]["position"] == SECONDS * 48000 and found.edge < 0.02
    assert found.seconds_inserted > 0.8


async def test_a_lost_connection_ends_the_call_and_the_next_one_is_served(stage: Stage) -> None:
    link = Link()
    async with through(link, stage.address) as address:
        page = await stage.page()
        await page.run(
            """(async (url) => {
              const { player, link } = await stage.ready(url);
              Object.assign(globalThis, { player, link, states: [] });
              link.addEventListener("state", ({ detail }) => states.push(detail.state));
              globalThis.recorder = await stage.Recorder.open(player, "lost");
              globalThis.call = link.speak("Play it.", { seed: 40 });
              await new Promise((wake) => call.addEventListener("begun", wake, { once: true }));
              await new Promise((wake) => setTimeout(wake, 500));
            })"""
            f"('ws://{address}/v1/speech')"
        )
        link.cut.set()
        told = value(
            await page.run(
                """(async () => {
                  const error = await call.finished.catch((error) => error);
                  if (!call.ended) await new Promise((wake) => call.addEventListener("ended", wake, { once: true }));
                  return { code: error.code, message: error.message, position: call.position };
                })()"""
            )
        )
        assert (told["code"], told["message"]) == ("connection", "the connection was lost")
        link.cut.clear()
        await page.until("link.state === 'ready'")
        again = value(
            await page.run(
                """(async () => {
                  const end = await link.speak("Play it.", { seed: 41 }).finished;
                  await recorder.stop();
                  await player.close();
                  return { end, states };
                })()"""
            )
        )
    assert again["states"][0] == "connecting" and again["states"][-1] == "ready"
    found = stage.aligned("lost", 40)
    assert found.played == told["position"] < SECONDS * 48000, "what had come is heard to its end"
    assert stage.aligned("lost", 41).played == again["end"]["position"] == SECONDS * 48000
    assert stage.port.admitted == 0


async def test_frames_of_another_client_are_pushed_in(stage: Stage) -> None:
    """As the TypeScript client does it: its events in, what was heard back to it."""
    page = await stage.page()
    told = value(
        await page.run(
            """(async () => {
              const { read } = await import("/player/wire.js");
              const reports = [];
              const speech = {
                played: (samples) => reports.push(samples),
                async *[Symbol.asyncIterator]() {
                  const socket = new WebSocket(`ws://${location.host}/v1/speech`);
                  socket.binaryType = "arraybuffer";
                  const queue = [];
                  let wake = () => {};
                  socket.onmessage = ({ data }) => (queue.push(data), wake());
                  socket.onopen = () => {
                    for (const message of [{ type: "start", seed: 50 }, { type: "text", text: "Hm." }, { type: "end" }])
                      socket.send(JSON.stringify(message));
                  };
                  for (;;) {
                    while (queue.length === 0) await new Promise((resolve) => (wake = resolve));
                    const data = queue.shift();
                    const event = typeof data === "string" ? JSON.parse(data) : { type: "audio", ...read(data) };
                    if (event.type === "started") {
                      event.format.sampleRate = event.format.sample_rate;
                      event.preSkip = event.pre_skip;
                    }
                    if (event.type !== "ready") yield event;
                    if (event.type === "done") return;
                  }
                },
              };
              const player = new stage.Player();
              await player.unlock();
              const recorder = await stage.Recorder.open(player, "pushed");
              const kinds = new Set();
              const end = await player.play(speech, ({ type }) => kinds.add(type));
              await recorder.stop();
              await player.close();
              return { end, reports, kinds: [...kinds] };
            })()"""
        )
    )
    whole(stage, "pushed", 50, {**told["end"]})
    assert told["kinds"] == ["started", "audio", "done"]
    reports = told["reports"]
    assert reports == sorted(reports) and len(reports) > 5 and 0 < reports[-1] <= SECONDS * 24000


async def test_refusals_have_a_code_and_words(stage: Stage) -> None:
    page = await stage.page()
    told = value(
        await page.run(
            """(async () => {
              const { player, link } = await stage.ready();
              const told = ({ name, code, message }) => ({ name, code, message });
              const refused = (promise) => promise.then(() => "played", told);
              const nobody = await refused(link.speak("Hm.", { voice: "nobody" }).finished);
              const text = function* () {
                yield "So far, ";
                throw new RangeError("no more");
              };
              const broken = await refused(link.speak(text()).finished);
              const format = await refused(player.open({ encoding: "pcm16", sampleRate: 8000 }).finished);
              const early = link.open();
              const heard = await early.interrupt();
              const bad = player.connect(undefined, { token: "no token" });
              const unusable = await refused(bad.speak("Hm.").finished);
              const fine = await refused(link.speak("Play it.", { seed: 60 }).finished);
              const cut = refused(link.open({ seed: 61 }).finished);
              link.close();
              const late = await refused(link.speak("Play it.").finished);
              const closed = [(await cut).message, late.message];
              await player.close();
              return { nobody, broken, format, unusable, state: bad.state, heard, fine, closed };
            })()"""
        )
    )
    assert told["nobody"]["code"] == "unknown_voice" and "nobody" in told["nobody"]["message"]
    assert told["broken"] == {"name": "RangeError", "message": "no more"}
    assert told["format"]["code"] == "codec" and "Player.format" in told["format"]["message"]
    assert told["unusable"]["code"] == "connection" and "the token cannot be used" in told["unusable"]["message"]
    assert told["state"] == "refused"
    assert told["heard"] == {"position": 0, "seconds": 0}
    assert told["fine"] == "played"
    assert told["closed"] == ["the connection was closed here"] * 2


async def test_a_context_of_another_rate_is_refused(stage: Stage) -> None:
    page = await stage.page()
    with pytest.raises(PageError, match="make one with 48000"):
        await page.run("new stage.Player({ destination: new AudioContext({ sampleRate: 44100 }).destination })")
