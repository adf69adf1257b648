"""The engine as a program uses it: real models of random weights, in process."""

import asyncio
import contextlib
import math
import random
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.config import TextRules
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import Cancelled, CheckpointError, InternalError, InvalidInput, Overloaded, UnknownVoice
from oscine_engine.events import Audio, Done, Event, Flushed, Mode, SessionRequest, Started
from oscine_engine.lm.runner import LMRunner
from oscine_engine.runtime.device import Device
from oscine_engine.runtime.trace import Said, Trace
from oscine_engine.session import MOST_SENTENCES, Session
from oscine_engine.session_states import State
from oscine_engine.text.tokenizer import Tokenizer

TEXT = "Good morning, dear friend. It rains."
SENTENCE = "This goes on and on, as long as anybody cares to listen to it, and then some more. "
LONG = SENTENCE * 4
SAME = 2e-2
FOUR = EngineSettings(max_streams=4, utilisation=math.inf)
"""Admission by count, as tests share their processors with others."""
THREE = TextRules(min_token_text_ratio=3.0, max_token_text_ratio=3.0, front_end="phones")
"""Random weights never find an end of their own: every sentence has three speech ids for each of the text's."""


@dataclass
class Heard:
    """Everything a session told."""

    events: list[Event] = field(default_factory=list)

    @property
    def wave(self) -> np.ndarray:
        return np.concatenate([e.samples for e in self.events if isinstance(e, Audio)] or [np.zeros(0, np.float32)])

    @property
    def done(self) -> Done:
        assert isinstance(self.events[-1], Done)
        return self.events[-1]

    def check(self) -> None:
        """Started first, Done last, audio without holes, and what Done says of it true."""
        assert isinstance(self.events[0], Started)
        position = 0
        audio = [event for event in self.events if isinstance(event, Audio)]
        for seq, event in enumerate(audio):
            assert (event.seq, event.start_sample) == (seq, position)
            assert event.samples.dtype == np.float32 and event.samples.size and np.abs(event.samples).max() <= 1
            position += event.samples.size
        assert self.done.stats.audio_s == position / self.events[0].sample_rate


async def collect(session: Session, heard: Heard) -> None:
    async for event in session:
        heard.events.append(event)


async def hear(session: Session) -> Heard:
    heard = Heard()
    await collect(session, heard)
    heard.check()
    return heard


async def speak(engine: Engine, pieces: Iterable[str] = (TEXT,), **request: object) -> Heard:
    request = {"seed": 1, "mode": Mode.SENTENCE, "trim": False, **request}
    async with await engine.open(SessionRequest(**request)) as session:  # type: ignore[arg-type]
        for piece in pieces:
            await session.append(piece)
        await session.finish()
        return await hear(session)


async def idle(engine: Engine) -> None:
    async with asyncio.timeout(10):
        while engine.load_now != (0, 0):
            await asyncio.sleep(0.01)


async def first_audio(session: Session) -> Audio:
    async for event in session:
        if isinstance(event, Audio):
            return event
    raise AssertionError("the session ended without audio")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load(synthetic.write(tmp_path_factory.mktemp("model"), replace(synthetic.TINY, text=THREE)))


NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(params=["eager", pytest.param("graphed", marks=pytest.mark.slow), pytest.param("cuda", marks=NO_GPU)])
async def engine(
    checkpoint: Checkpoint, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Engine]:
    """With the runners for a CPU; with those for a GPU, on a CPU; and on a GPU, where there is one."""
    settings = replace(FOUR, device="cuda" if request.param == "cuda" else "cpu")
    if request.param == "graphed":
        monkeypatch.setattr("oscine_engine.engine.Device", partial(Device, graphed=True))
    async with Engine(checkpoint, settings) as engine:
        yield engine
        await idle(engine)


@pytest.mark.parametrize("mode", list(Mode))
async def test_a_session_speaks_in_every_mode(engine: Engine, mode: Mode) -> None:
    heard = await speak(engine, mode=mode)
    stats = heard.done.stats
    assert heard.events[0] == Started("synthetic", mode, 1, 24000)
    assert stats.segments == 2
    assert heard.wave.size == stats.speech_tokens * 960
    assert stats.first_packet_s is not None and stats.busy_s is not None
    assert 0 < stats.first_packet_s <= stats.busy_s


@pytest.mark.parametrize("mode", list(Mode))
async def test_a_seed_fixes_the_speech_however_text_is_cut_and_whatever_runs_beside(engine: Engine, mode: Mode) -> None:
    alone = await speak(engine, mode=mode)
    again, letters, halves, other = await asyncio.gather(
        speak(engine, mode=mode),
        speak(engine, TEXT, mode=mode),
        speak(engine, (TEXT[:9], TEXT[9:]), mode=mode),
        speak(engine, mode=mode, seed=2),
    )
    for heard in (again, letters, halves):
        assert heard.wave.size == alone.wave.size
        np.testing.assert_allclose(heard.wave, alone.wave, atol=SAME)
    assert other.wave.size != alone.wave.size or not np.allclose(other.wave, alone.wave, atol=SAME)


@pytest.mark.parametrize("mode", [Mode.SENTENCE, Mode.INTERLEAVED])
async def test_a_seed_says_the_same_ids_again_and_again_one_by_one_and_side_by_side(
    checkpoint: Checkpoint, mode: Mode
) -> None:
    pieces = ("Turn", "ing on th", "e lig", "hts in roo", "m 12.", " So")
    said: list[tuple[int, tuple[int, ...]]] = []

    def watch(event: Trace) -> None:
        if isinstance(event, Said):
            said.append((event.segment, event.ids))

    async with Engine(checkpoint, EngineSettings(max_streams=6, utilisation=math.inf), watch) as engine:
        for _ in range(6):
            await speak(engine, pieces, mode=mode)
        await asyncio.gather(*(speak(engine, pieces, mode=mode) for _ in range(6)))
    assert len(said) == 12 * 2
    assert len(set(said)) == 2


async def test_streams_cancelled_at_their_start_leave_the_others_alone(engine: Engine) -> None:
    alone = await speak(engine, (SENTENCE * 2,))
    task = asyncio.create_task(speak(engine, (SENTENCE * 2,)))
    draw = random.Random(1)
    cancelled = 0
    while not task.done():
        async with await engine.open(SessionRequest(mode=Mode.INTERLEAVED)) as session:
            await session.append("Never mind what this says, it is not heard. ")
            await asyncio.sleep(draw.uniform(0.0, 0.005))
            assert await session.cancel() == 0
        cancelled += 1
    beside = await task
    assert cancelled > 20
    assert beside.wave.size == alone.wave.size
    np.testing.assert_allclose(beside.wave, alone.wave, atol=SAME)


@pytest.mark.parametrize("mode", list(Mode))
async def test_an_agent_that_pauses_leaves_nothing_unspoken(engine: Engine, mode: Mode) -> None:
    request = SessionRequest(seed=1, mode=mode, quiet_s=0.02)
    heard: list[int] = []
    async with await engine.open(request) as session, asyncio.timeout(30):
        for count, text in enumerate(["She moved in May 2007.", "We left the U.S."], 1):
            await session.append(text)
            while session._asked < count or session.waiting:
                await asyncio.sleep(0.01)
            heard.append(sum(event.samples.size for event in session._events if isinstance(event, Audio)))
        assert 0 < heard[0] < heard[1]
        assert session.state.takes_text


async def test_a_drawn_seed_is_told_and_repeats_the_speech(engine: Engine) -> None:
    drawn = await speak(engine, seed=None)
    seed = drawn.events[0].seed  # type: ignore[union-attr]
    again = await speak(engine, seed=seed)
    np.testing.assert_allclose(again.wave, drawn.wave, atol=SAME)
    async with await engine.open() as session:
        assert session.started.seed != seed


async def test_a_flush_speaks_what_is_there_and_the_session_goes_on(engine: Engine) -> None:
    async with await engine.open(SessionRequest(seed=1, mode=Mode.SENTENCE)) as session:
        await session.flush()
        await session.append("Half a sentence")
        await session.flush()
        heard = Heard()
        async for event in session:
            heard.events.append(event)
            if isinstance(event, Flushed) and event.end_sample:
                break
        assert heard.events[1] == Flushed(0)
        assert heard.events[-1] == Flushed(heard.wave.size)
        await session.append(" and the other half.")
        await session.finish()
        async for event in session:
            heard.events.append(event)
    heard.check()
    assert heard.done.stats.segments == 2


async def test_text_after_the_end_is_refused(engine: Engine) -> None:
    async with await engine.open() as session:
        await session.append(TEXT)
        await session.finish()
        for late in (session.append("More."), session.flush(), session.finish()):
            with pytest.raises(InvalidInput, match="already ended"):
                await late
        await hear(session)
        with pytest.raises(InvalidInput, match="already ended"):
            await session.append("More.")


@pytest.mark.parametrize("text", ["", " \n", "… ?!", "\ud83d", "🙂"])
async def test_nothing_to_speak_is_an_error(engine: Engine, text: str) -> None:
    async with await engine.open() as session:
        await session.append(text)
        with pytest.raises(InvalidInput, match="nothing to speak"):
            await session.finish()
        with pytest.raises(InvalidInput, match="nothing to speak"):
            await hear(session)


async def test_what_cannot_be_opened_says_why(engine: Engine, checkpoint: Checkpoint) -> None:
    with pytest.raises(UnknownVoice, match="synthetic"):
        await engine.open(SessionRequest(voice="nobody"))
    for seed in (-1, 2**63):
        with pytest.raises(InvalidInput, match="seed"):
            await engine.open(SessionRequest(seed=seed))
    sessions = [await engine.open() for _ in range(4)]
    with pytest.raises(Overloaded):
        await engine.open()
    for session in sessions:
        await session.cancel()
    with pytest.raises(CheckpointError, match=r"spk2info\.pt"):
        await Engine(replace(checkpoint, voices={}), FOUR).open()


async def test_a_cancelled_session_ends_at_once(engine: Engine) -> None:
    async with await engine.open() as session:
        await session.append(LONG)
        await first_audio(session)
        await session.cancel()
        with pytest.raises(Cancelled):
            await hear(session)
        with pytest.raises(Cancelled):
            await session.append("More.")
    await idle(engine)


async def test_a_cancelled_task_frees_everything(engine: Engine) -> None:
    began = asyncio.Event()

    async def listen() -> None:
        async with await engine.open() as session:
            await session.append(LONG)
            async for event in session:
                if isinstance(event, Audio):
                    began.set()

    task = asyncio.create_task(listen())
    await began.wait()
    assert engine.load_now.streams == 1 and engine.load_now.pages > 0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await idle(engine)


async def test_an_exception_in_the_listener_frees_everything(engine: Engine) -> None:
    async def listen() -> None:
        async with await engine.open() as session:
            await session.append(LONG)
            await first_audio(session)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await listen()
    await idle(engine)


async def test_a_closing_engine_ends_its_sessions(checkpoint: Checkpoint) -> None:
    engine = Engine(checkpoint, FOUR)
    with pytest.raises(Cancelled, match="not running"):
        await engine.open()
    async with engine:
        sounding, waiting = await engine.open(), await engine.open()
        await sounding.append(LONG)
        await first_audio(sounding)
    for session in (sounding, waiting):
        with pytest.raises(Cancelled, match="closing"):
            await hear(session)
    assert engine.load_now == (0, 0)
    with pytest.raises(Cancelled, match="not running"):
        await engine.open()


async def settled(engine: Engine) -> None:
    """Wait until the engine has stopped moving."""
    async with asyncio.timeout(30):
        same = 0
        while same < 10:
            before = engine.load_now
            await asyncio.sleep(0.05)
            same = same + 1 if engine.load_now == before else 0


async def test_a_listener_that_stops_is_held_back_and_loses_nothing(checkpoint: Checkpoint) -> None:
    request = SessionRequest(seed=1, mode=Mode.SENTENCE)
    async with Engine(checkpoint, EngineSettings(max_streams=2, max_waiting_s=1.0, utilisation=math.inf)) as engine:
        free = await speak(engine, (LONG,))
        assert free.done.stats.audio_s > 10

        async with await engine.open(request) as stopped:
            await stopped.append(LONG)
            await settled(engine)
            await speak(engine)
            made = sum(event.samples.size for event in stopped._events if isinstance(event, Audio))
            assert 1.0 < made / engine.sample_rate <= 2.0
            ahead = Heard()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await collect(stopped, ahead)
            assert await stopped.cancel() == ahead.wave.size >= made

        async with await engine.open(request) as slow:
            await slow.append(LONG)
            await slow.finish()
            heard = Heard()
            async for event in slow:
                heard.events.append(event)
                if len(heard.events) in (1, 3):
                    await settled(engine)
        heard.check()
        assert heard.wave.size == free.wave.size
        np.testing.assert_allclose(heard.wave, free.wave, atol=SAME)


def with_voice(checkpoint: Checkpoint, **changes: object) -> Checkpoint:
    """The same model with a second voice, "bad", that is the first with changes."""
    good = checkpoint.voices["synthetic"]
    bad = replace(good, name="bad", **changes)  # type: ignore[arg-type]
    return replace(checkpoint, voices={"synthetic": good, "bad": bad})


async def test_audio_that_is_not_finite_ends_only_its_own_stream(checkpoint: Checkpoint) -> None:
    voice = checkpoint.voices["synthetic"]
    overflowing = with_voice(checkpoint, mel=torch.full_like(voice.mel, 1e38))
    async with Engine(overflowing, FOUR) as engine:
        alone = await speak(engine, (LONG,))
        beside, bad = await asyncio.gather(
            speak(engine, (LONG,)), speak(engine, (LONG,), voice="bad"), return_exceptions=True
        )
        assert isinstance(bad, InternalError) and "not finite" in bad.message
        assert isinstance(beside, Heard)
        np.testing.assert_allclose(beside.wave, alone.wave, atol=SAME)
        await idle(engine)


async def test_a_fault_in_a_stage_ends_that_tick_and_the_loop_lives_on(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(runner: LMRunner, *_: object) -> NoReturn:
        raise IndexError("out of range")

    async with Engine(checkpoint, FOUR) as engine:
        with monkeypatch.context() as fault:
            fault.setattr(LMRunner, "step", broken)
            with pytest.raises(InternalError, match="lm stage failed"):
                await speak(engine)
        assert "tick failed" in caplog.text
        await idle(engine)
        await speak(engine)
        await idle(engine)


async def test_the_device_thread_reads_no_prompts(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = with_voice(checkpoint, transcript="Yes.", lm_speech_tokens=torch.tensor([7, 8], dtype=torch.int32))
    readers = set()
    encode = Tokenizer.encode

    def seen(tokenizer: Tokenizer, text: str) -> list[int]:
        readers.add(threading.current_thread().name)
        return encode(tokenizer, text)

    monkeypatch.setattr(Tokenizer, "encode", seen)
    async with Engine(spoken, FOUR) as engine:
        await speak(engine, voice="bad")
    assert readers and "oscine-device" not in readers


@pytest.mark.parametrize(
    "limits", [{"threads": 0}, {"max_streams": 0}, {"max_waiting_s": 0.0}, {"max_waiting_s": float("nan")}]
)
def test_limits_that_nothing_could_run_under(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(limits))):
        EngineSettings(**limits)  # type: ignore[arg-type]


async def test_a_sentence_that_says_nothing_ends(tmp_path: Path) -> None:
    """Weights that hold the end to be likelier than any speech; of the two signs of a row one does."""
    quiet = load(synthetic.write(tmp_path, replace(synthetic.TINY, text=TextRules(min_token_text_ratio=0))))
    row = torch.randn(quiet.config.lm.hidden_size, generator=torch.Generator().manual_seed(0))
    said = []
    for sign in (1, -1):
        quiet.lm.llm_decoder.weight.zero_()
        quiet.lm.llm_decoder.weight[quiet.config.lm.eos] = 100 * sign * row
        async with Engine(quiet, FOUR) as engine, asyncio.timeout(60):
            heard = await speak(engine, ("Yes.",))
            assert heard.done.stats.segments == 1
            said.append(heard.done.stats.speech_tokens)
            await idle(engine)
    assert 0 in said


VERBS = st.sampled_from(["append", "append", "flush", "finish", "cancel", "played", "take", "take", "wait", "vanish"])
lives = st.lists(st.lists(st.tuples(VERBS, st.integers(0, 20_000)), max_size=12), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def running(checkpoint: Checkpoint) -> Iterator[tuple[asyncio.Runner, Engine]]:
    """An engine that outlives the examples of one test."""
    with asyncio.Runner() as runner:
        engine = Engine(checkpoint, FOUR)
        runner.run(engine.__aenter__())
        yield runner, engine
        runner.run(engine.__aexit__(None, None, None))


@given(lives=lives)
@settings(max_examples=25, deadline=None)
def test_sessions_that_do_anything_side_by_side_leave_nothing(
    running: tuple[asyncio.Runner, Engine], lives: list[list[tuple[str, int]]]
) -> None:
    runner, engine = running
    runner.run(_side_by_side(engine, lives))


async def _side_by_side(engine: Engine, lives: list[list[tuple[str, int]]]) -> None:
    await asyncio.gather(*(_live(engine, number, life) for number, life in enumerate(lives)))
    await idle(engine)
    async with asyncio.timeout(5):  # what a dropped iterator leaves to the event loop may need a turn or two
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)


async def _live(engine: Engine, number: int, life: list[tuple[str, int]]) -> None:
    heard: list[Event] = []
    ended = False
    async with await engine.open(SessionRequest(mode=list(Mode)[number % 3], seed=number)) as session:
        events = aiter(session)
        for verb, value in life:
            with contextlib.suppress(InvalidInput, Cancelled):
                match verb:
                    case "append":
                        await session.append(("Yes. ", "It rains. ", "half of", "…", "你好。")[value % 5])
                    case "flush":
                        await session.flush()
                    case "finish":
                        await session.finish()
                    case "cancel":
                        await session.cancel()
                    case "played":
                        await session.played(value)
                    case "wait":
                        await asyncio.sleep(value / 1e6)
                    case "take":
                        async with asyncio.timeout(30):
                            if session._events:
                                heard.append(await anext(events))
                    case "vanish":
                        return
        with contextlib.suppress(InvalidInput, Cancelled):
            await session.finish()
        with contextlib.suppress(InvalidInput, Cancelled):
            async for event in session:
                assert not ended
                ended = isinstance(event, Done)
                heard.append(event)
        assert session.state in ((State.DONE,) if ended else (State.CANCELLED, State.FAILED))
    position = 0
    for event in heard:
        if isinstance(event, Audio):
            assert event.start_sample == position
            position += event.samples.size


async def test_a_long_text_leaves_the_event_loop_to_others(engine: Engine) -> None:
    text = "Zyxo qwert. " * 500
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with await engine.open() as session:
        task = asyncio.create_task(other())
        await session.append(text)
        task.cancel()
    assert turns >= len(text) // 100


async def test_text_without_end_waits_instead_of_piling_up(engine: Engine) -> None:
    async with await engine.open() as session:
        task = asyncio.create_task(session.append("Hi. " * 3 * MOST_SENTENCES))
        while session.waiting < MOST_SENTENCES:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not task.done()
        assert session.waiting < 1.1 * MOST_SENTENCES
        await session.cancel()
        with pytest.raises(Cancelled):
            await task
