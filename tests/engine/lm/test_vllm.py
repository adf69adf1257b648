"""A language model in vLLM says what ours says, and asks for it as vLLM wants to be asked.

vLLM is played by `served`, from the files it would load. With the likeliest id always, both must say the same.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from oscine_engine.checkpoint import draft as drafts
from oscine_engine.checkpoint import merged, synthetic
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.config import SamplingConfig, TextRules
from oscine_engine.errors import CheckpointError, InvalidInput, Unavailable
from oscine_engine.events import Audio, Done
from oscine_engine.lm import vllm_engine
from oscine_engine.lm.interleave import Layout, Prompt
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.stream import LMStream, Mode
from oscine_engine.lm.vllm_engine import VLLMOptions
from oscine_engine.lm.vllm_runner import VLLMRunner
from oscine_engine.planner import Begin, End, Ids, Step
from oscine_engine.port import PortEvent, StreamOptions
from oscine_engine.runtime import warm_up
from oscine_engine.runtime.device import Device, DeviceLimits
from oscine_engine.runtime.pages import PagePool
from tests.engine.lm.served import Served
from tests.engine.runtime.rig import SAME

LM = synthetic.TINY.lm
RULES = TextRules(min_token_text_ratio=1, max_token_text_ratio=8)
LIKELIEST = SamplingConfig(top_k=1, tau_r=2.0)
"""The likeliest id, whatever was said before."""
PROMPTS = {
    "instructed": Prompt((1, 2, 3)),
    "short": Prompt((1, 2, 3), (4, 5, 6, 7), tuple(range(20))),
    "two blocks": Prompt((1,), tuple(range(40, 51)), tuple(range(30))),
}


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    made = synthetic.checkpoint(synthetic.SMALL, seed=3)
    return replace(made, config=replace(made.config, sampling=LIKELIEST))


@pytest.fixture(scope="module")
def directory(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # So that sentences end by themselves, at times.
    checkpoint.lm.llm_decoder.weight[checkpoint.config.lm.speech_token_size + 1] *= 2.5
    return merged.write(checkpoint.lm, tmp_path_factory.mktemp("merged") / "out", "float32")


Make = Callable[..., tuple[VLLMRunner, Served]]


@pytest.fixture
def make(checkpoint: Checkpoint, directory: Path) -> Iterator[Make]:
    made: list[VLLMRunner] = []

    def make(rules: TextRules = RULES, at_once: int = 1) -> tuple[VLLMRunner, Served]:
        served = Served(directory, at_once=at_once)
        lm = checkpoint.config.lm
        runner = VLLMRunner(served.opened, Layout.of(lm, rules), merged.read(directory, lm))
        runner.start()
        made.append(runner)
        return runner, served

    yield make
    for runner in made:
        runner.stop()


def native(checkpoint: Checkpoint, rules: TextRules = RULES) -> LMRunner:
    pool = PagePool(8, page_shape(checkpoint.config.lm, 256))
    return LMRunner(checkpoint.lm, pool, LIKELIEST, rules)


def pull(runner: LMRunner | VLLMRunner, *streams: LMStream) -> None:
    """Step until nothing is left to do and nothing on its way."""
    while True:
        ready = [stream for stream in streams if stream.wants_step]
        if ready:
            runner.step(ready)
        elif not runner.wait():
            return


def speak(
    runner: LMRunner | VLLMRunner, text: Sequence[int], mode: Mode, prompt: Prompt, cuts: Sequence[int] = ()
) -> LMStream:
    """A stream that is given the text in pieces, each after all that can be said before."""
    stream = runner.open(prompt, mode=mode, seed=5, limit=200)
    for start, stop in pairwise([0, *cuts, len(text)]):
        stream.add_text(text[start:stop])
        pull(runner, stream)
    stream.end_text()
    pull(runner, stream)
    assert stream.failure is None, stream.failure
    return stream


@pytest.mark.parametrize(
    ("prompt", "at_once"), [(prompt, 1 + 3 * (place % 2)) for place, prompt in enumerate(PROMPTS.values())], ids=PROMPTS
)
@pytest.mark.parametrize("mode", ["whole", "interleaved"])
def test_says_what_the_native_model_says(
    checkpoint: Checkpoint, make: Make, mode: Mode, prompt: Prompt, at_once: int
) -> None:
    runner, served = make(at_once=at_once)
    here = native(checkpoint)
    for count, cuts in ((3, [1]), (13, [2, 9])):
        text = [(7 * place + count) % 300 for place in range(count)]
        wanted, stream = speak(here, text, mode, prompt), speak(runner, text, mode, prompt, cuts)
        assert stream.tokens == wanted.tokens and stream.tokens
        assert (stream.state, stream.capped, stream.num_ready) == ("done", wanted.capped, 0)
        runner.close(stream)
    assert served.aborted == []


def test_a_block_of_text_is_a_request(checkpoint: Checkpoint, make: Make) -> None:
    runner, served = make()
    ids = merged.Merged.of(checkpoint.config.lm)
    text = list(range(50, 62))
    stream = runner.open(PROMPTS["instructed"], mode="interleaved", seed=9)
    stream.add_text(text[:4])
    pull(runner, stream)
    # Nothing is asked for before the first block is there.
    assert served.asks == [] and stream.num_ready == 0 and stream.state == "needs_text"
    stream.add_text(text[4:])
    stream.end_text()
    pull(runner, stream)
    said = [ids.text_ids + token for token in stream.tokens]
    first, second, last = served.asks
    sos, task_id = (ids.text_ids + ids.speech_ids + row for row in (0, 2))
    assert first.prompt == (sos, 1, 2, 3, *text[:5])
    assert second.prompt == (*first.prompt, *said[:15], *text[5:10])
    assert last.prompt == (*second.prompt, *said[15:30], *text[10:], task_id)
    # No eos in a block. Behind it as many ids are left as the text allows.
    assert (first.least, first.most, second.least, second.most) == (15, 15, 15, 15)
    assert (last.least, last.most) == (0, 12 * 8 - 30)
    assert len({ask.seed for ask in served.asks}) == 3 and min(ask.seed for ask in served.asks) >= 0
    again = runner.open(PROMPTS["instructed"], mode="interleaved", seed=9)
    again.add_text(text)
    again.end_text()
    pull(runner, again)
    assert served.asks[3:] == [first, second, last]


def test_the_least_that_a_text_asks_for_is_said(checkpoint: Checkpoint, make: Make) -> None:
    rules = replace(RULES, min_token_text_ratio=6)
    runner, served = make(rules)
    stream = speak(runner, list(range(10)), "whole", PROMPTS["instructed"])
    assert (served.asks[0].least, served.asks[0].most) == (60, 80)
    assert len(stream.tokens) >= 60
    assert stream.tokens == speak(native(checkpoint, rules), list(range(10)), "whole", PROMPTS["instructed"]).tokens


def test_closing_and_going_back_abort_what_is_under_way(checkpoint: Checkpoint, make: Make) -> None:
    runner, served = make()
    here = native(checkpoint)
    stream, wanted = (each.open(PROMPTS["short"], seed=1) for each in (runner, here))
    for each in (stream, wanted):
        each.add_text(range(20))
        each.end_text()
    pull(here, wanted)
    served.held.clear()
    while len(stream.tokens) < 1:
        runner.step([stream])
    runner.rewind(stream, 0, seed=7)
    assert stream.tokens == [] and stream.seed == 7
    wait_for(lambda: len(served.aborted) == 1)
    runner.requests.run(served.release())
    pull(runner, stream)
    assert stream.tokens == wanted.tokens and len(stream.tokens) > 5
    assert served.asks[1].prompt == served.asks[0].prompt and served.asks[1].seed != served.asks[0].seed
    # Back to the middle: what was said before is part of the prompt, and nothing of what came behind.
    runner.rewind(stream, 5, seed=8)
    pull(runner, stream)
    assert stream.tokens == wanted.tokens
    assert len(served.asks[2].prompt) == len(served.asks[1].prompt) + 5
    with pytest.raises(ValueError, match="cannot go back"):
        runner.rewind(stream, 1000, seed=8)
    served.held.clear()
    other = runner.open(PROMPTS["short"], seed=1)
    other.add_text(range(20))
    other.end_text()
    while len(other.tokens) < 1:
        runner.step([other])
    runner.close(other)
    runner.close(other)
    wait_for(lambda: len(served.aborted) == 2)
    assert (other.state, other.num_ready) == ("done", 0) and not runner.wait()


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_failed_request_is_its_streams_own(make: Make) -> None:
    runner, served = make()
    served.fails = ValueError("too long")
    stream = runner.open(PROMPTS["instructed"])
    stream.add_text([1, 2, 3])
    stream.end_text()
    pull(runner, stream)
    assert "too long" in str(stream.failure) and stream.state == "done"
    runner.look()
    served.fails = None
    assert speak(runner, [1, 2, 3], "whole", PROMPTS["instructed"]).tokens
    served.fails = Unavailable("it has died")
    stream = runner.open(PROMPTS["instructed"])
    stream.add_text([1, 2, 3])
    stream.end_text()
    pull_anyhow(runner, stream)
    with pytest.raises(Unavailable, match="died"):
        runner.look()


def pull_anyhow(runner: VLLMRunner, stream: LMStream) -> None:
    runner.step([stream])
    assert runner.wait()
    runner.step([stream])
    assert "died" in str(stream.failure)


@pytest.mark.parametrize(
    ("says", "fault"), [([6], "without a reason"), ([], "without a reason"), (range(40), "more than"), ([-3], "cannot")]
)
def test_an_engine_that_breaks_the_rules_fails_the_stream(
    make: Make, says: Sequence[int], fault: str, monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint
) -> None:
    runner, served = make()

    async def generate(ask: object) -> object:
        for token in says:
            yield [checkpoint.config.lm.vocab_size + token]

    monkeypatch.setattr(served, "generate", generate)
    stream = runner.open(PROMPTS["instructed"], mode="interleaved")
    stream.add_text(range(12))
    pull(runner, stream)
    assert fault in str(stream.failure)


def test_whoever_steps_is_woken_once_for_all_that_comes(make: Make) -> None:
    runner, _ = make()
    woken: list[int] = []

    def wake() -> bool:
        woken.append(1)
        return True

    runner.wake = wake
    stream = runner.open(PROMPTS["instructed"])
    stream.add_text(range(9))
    stream.end_text()
    runner.step([stream])
    wait_for(lambda: stream.num_ready > 3)
    assert len(woken) == 1
    runner.look()
    wait_for(lambda: len(woken) == 2)
    pull(runner, stream)


def test_an_engine_that_does_not_start_says_why(checkpoint: Checkpoint, directory: Path) -> None:
    class Broken(Served):
        def opened(self) -> object:  # type: ignore[override]
            raise Unavailable("no GPU")

    lm = checkpoint.config.lm
    runner = VLLMRunner(Broken(directory).opened, Layout.of(lm, RULES), merged.read(directory, lm))  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="no GPU"):
        runner.start()
    runner.stop()


class Listener:
    """Collects what a device tells one stream, in its own thread."""

    def __init__(self) -> None:
        self.events: list[PortEvent] = []
        self.over = asyncio.Event()
        self.sounded = asyncio.Event()
        self._home = asyncio.get_running_loop()

    def __call__(self, event: PortEvent) -> None:
        self._home.call_soon_threadsafe(self._take, event)

    def _take(self, event: PortEvent) -> None:
        self.events.append(event)
        if isinstance(event, Audio):
            self.sounded.set()
        if isinstance(event, Done | Exception):
            self.over.set()

    @property
    def samples(self) -> np.ndarray:
        return np.concatenate([event.samples for event in self.events if isinstance(event, Audio)])


def sentences(*texts: Sequence[int], whole: bool) -> list[Step]:
    return [step for ids in texts for step in (Begin(whole=whole), Ids(tuple(ids)), End())]


async def heard(device: Device, *, whole: bool) -> Listener:
    listener = Listener()
    stream = await device.loop.open(StreamOptions("synthetic", 3, False), listener)
    stream.speak(sentences(range(100, 112), range(120, 127), whole=whole), end=True)
    await asyncio.wait_for(listener.over.wait(), 60)
    assert isinstance(listener.events[-1], Done), listener.events[-1]
    return listener


async def test_a_device_sounds_the_same(checkpoint: Checkpoint, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "SENTENCES", warm_up.SENTENCES[:2])
    limits = DeviceLimits(max_streams=2, utilisation=float("inf"))
    runner, served = make(checkpoint.config.text)
    async with (
        Device(checkpoint, limits) as here,
        Device(checkpoint, limits, lm=lambda *_: runner, warmed=True) as device,
    ):
        # The warm-up has waited for ids that come by themselves.
        assert device.load_now == (0, 0) and len(served.asks) >= 4
        for whole in (True, False):
            wanted, found = await heard(here, whole=whole), await heard(device, whole=whole)
            assert found.samples.size == wanted.samples.size
            assert np.abs(found.samples - wanted.samples).max() < SAME
            assert isinstance(last := found.events[-1], Done) and last.stats.segments == 2
    assert not served.open


async def test_a_stream_that_is_stopped_aborts_its_request(checkpoint: Checkpoint, make: Make) -> None:
    runner, served = make(checkpoint.config.text)
    limits = DeviceLimits(max_streams=2, utilisation=float("inf"))
    async with Device(checkpoint, limits, lm=lambda *_: runner) as device:
        served.held.clear()
        listener = Listener()
        stream = await device.loop.open(StreamOptions("synthetic", 3, False), listener)
        stream.speak(sentences(range(100, 112), whole=True))
        await asyncio.to_thread(wait_for, lambda: bool(served.asks))
        stream.stop(InvalidInput("enough"))
        await asyncio.wait_for(listener.over.wait(), 30)
        await asyncio.to_thread(wait_for, lambda: len(served.aborted) == 1)
        runner.requests.run(served.release())
        await heard(device, whole=True)


async def test_a_device_fails_when_its_engine_has_died(checkpoint: Checkpoint, make: Make) -> None:
    runner, served = make(checkpoint.config.text)
    limits = DeviceLimits(max_streams=2, utilisation=float("inf"))
    async with Device(checkpoint, limits, lm=lambda *_: runner) as device:
        served.fails = Unavailable("it has died")
        listener = Listener()
        stream = await device.loop.open(StreamOptions("synthetic", 3, False), listener)
        stream.speak(sentences(range(100, 112), whole=True))
        await asyncio.wait_for(listener.over.wait(), 30)
        await asyncio.to_thread(wait_for, lambda: device.failed)


def test_vllm_is_told_what_it_needs(checkpoint: Checkpoint, directory: Path) -> None:
    options = VLLMOptions(directory, streams=8, positions=1536, more={"enforce_eager": True})
    given = vllm_engine.arguments(options, checkpoint.config, "float16")
    assert (given["model"], given["max_model_len"], given["max_num_seqs"]) == (str(directory), 1536, 16)
    assert given["enforce_eager"] and "speculative_config" not in given
    assert given["compilation_config"]["cudagraph_capture_sizes"] == [1, 2, 4, 8, 16]
    # Keys and values of all streams, two sentences each, in two bytes: a little more than they take.
    taken = 16 * 1536 * 2 * 2 * 2 * 16 * 2
    assert taken < given["kv_cache_memory_bytes"] < 2 * taken


def test_a_draft_beside_the_model_is_used(checkpoint: Checkpoint, tmp_path: Path) -> None:
    root = merged.write(checkpoint.lm, tmp_path / "out")
    merged.write_draft(drafts.random(checkpoint.config.lm), checkpoint.lm, root / merged.DRAFT)
    given = vllm_engine.arguments(VLLMOptions(root, streams=3, positions=1536), checkpoint.config, "float16")
    assert given["speculative_config"] == {
        "method": "dspark",
        "model": str(root / "draft"),
        "num_speculative_tokens": 7,
    }
    assert given["compilation_config"]["cudagraph_capture_sizes"] == [8, 16, 32, 64]


@pytest.mark.skipif(sys.platform != "linux", reason="vLLM runs on Linux only")
def test_a_watched_process_ends_with_the_one_that_is_killed() -> None:
    with subprocess.Popen(("sleep", "60")) as left, subprocess.Popen(("sleep", "60")) as killed:
        owner = (
            "import signal, os; from oscine_engine.lm.vllm_engine import watched\n"
            f"with watched({{{killed.pid}}}): print('watching', flush=True); os.kill(os.getpid(), signal.SIGKILL)"
        )
        done = subprocess.run((sys.executable, "-c", owner), capture_output=True, timeout=60)
        assert done.returncode == -signal.SIGKILL and done.stdout == b"watching\n", done.stderr
        assert killed.wait(60) == -signal.SIGKILL and left.poll() is None
        with vllm_engine.watched({left.pid}):
            assert left.poll() is None
        assert left.wait(60) == -signal.SIGKILL


def test_a_directory_of_another_model_is_refused_before_anything_starts(directory: Path) -> None:
    with pytest.raises(CheckpointError, match="another language model"):
        vllm_engine.runner(synthetic.TINY, VLLMOptions(directory, 1, 1536))
