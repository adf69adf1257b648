"""One session before an engine that the test plays, with time by hand."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oscine_engine.checkpoint import synthetic
from oscine_engine.errors import (
    Cancelled,
    Idle,
    InternalError,
    InvalidInput,
    OscineError,
    Overloaded,
    Stalled,
    Unavailable,
    UnknownVoice,
)
from oscine_engine.events import Audio, Done, Event, Flushed, Marked, Mode, SessionRequest, Started
from oscine_engine.front import DECODING, Front, VoiceInfo, read_front_end
from oscine_engine.marks import MOST, TooManyMarks
from oscine_engine.options import ColdVoice
from oscine_engine.planner import Planner, Step
from oscine_engine.port import Progress
from oscine_engine.session import MOST_ANSWERS, MOST_SENTENCES, SLICE, Session, SessionLimits
from oscine_engine.session_states import State
from oscine_engine.text.front_end import FrontEnd
from tests.engine.ports import HandClock, HandPort, HandStream, settle

LIMITS = SessionLimits(quiet_s=0.25, idle_s=60.0, stall_s=20.0, pause_s=600.0)
VOICES = {"anna": VoiceInfo("en", "calm"), "bo": VoiceInfo("zh", "")}


@pytest.fixture(scope="module")
def front_end(tmp_path_factory: pytest.TempPathFactory) -> FrontEnd:
    return read_front_end(synthetic.write(tmp_path_factory.mktemp("model")))


@dataclass
class Room:
    """A front, its engine and its clock."""

    port: HandPort
    clock: HandClock
    front: Front

    async def open(self, mode: Mode = Mode.SENTENCE, **request: Any) -> tuple[Session, HandStream]:
        session = await self.front.open(SessionRequest(mode=mode, seed=1, **request))
        return session, self.port.streams[-1]


@dataclass
class Listener:
    """Takes events by hand, and checks what every session promises."""

    session: Session
    events: list[Event] = field(default_factory=list)
    errors: set[OscineError] = field(default_factory=set)

    @property
    def error(self) -> OscineError | None:
        """What iteration raised: always the same."""
        assert len(self.errors) <= 1
        return next(iter(self.errors), None)

    def __post_init__(self) -> None:
        self._iterator = self.session.__aiter__()

    async def take(self) -> bool:
        """One event, or the end; False if neither is there yet."""
        step = asyncio.ensure_future(anext(self._iterator, None))
        await settle()
        if not step.done():
            step.cancel()
            await asyncio.wait([step])
            self._iterator = self.session.__aiter__()
            return False
        try:
            event = step.result()
        except OscineError as error:
            self.errors.add(error)
            self._iterator = self.session.__aiter__()
            return False
        if event is None:
            assert isinstance(self.events[-1], Done)
            self._iterator = self.session.__aiter__()
            return False
        assert self.error is None
        assert not any(isinstance(event, Done) for event in self.events)
        self.events.append(event)
        return True

    async def take_all(self) -> list[Event]:
        while await self.take():
            pass
        return self.events

    @property
    def samples(self) -> int:
        return sum(event.samples.size for event in self.events if isinstance(event, Audio))

    def check(self) -> None:
        assert isinstance(self.events[0], Started)
        position = 0
        for seq, event in enumerate(event for event in self.events if isinstance(event, Audio)):
            assert (event.seq, event.start_sample) == (seq, position)
            np.testing.assert_array_equal(event.samples, np.arange(position, position + event.samples.size))
            position += event.samples.size
        for event in self.events:
            assert not isinstance(event, Flushed) or event.end_sample <= position


@pytest.fixture
async def room(front_end: FrontEnd) -> AsyncIterator[Room]:
    port, clock = HandPort(), HandClock()
    yield Room(port, clock, Front(port, front_end, VOICES, 24000, LIMITS, clock))
    await settle()
    assert port.admitted == 0
    assert clock.waiting == 0


async def spoken(session: Session, stream: HandStream) -> int:
    """Segments handed over whole so far."""
    await settle()
    return len(stream.said) - stream.writing


async def test_recordings_of_callers_who_left_are_not_read_beside_more_than_may_be(front_end: FrontEnd) -> None:
    begun, go = list[bytes](), threading.Event()

    def decode(audio: bytes) -> tuple[NDArray[np.float32], int]:
        begun.append(audio)
        go.wait(60)
        raise InvalidInput("reference: this is none")

    front = Front(HandPort(), front_end, VOICES, 24000, decode=decode)
    request = SessionRequest(reference=ColdVoice(b"sound"))
    try:
        for number in range(DECODING):
            leaving = asyncio.create_task(front.open(request))
            while len(begun) <= number:
                await asyncio.sleep(0.001)
            leaving.cancel()
            await asyncio.wait([leaving])
        staying = asyncio.create_task(front.open(request))
        await asyncio.sleep(0.05)
        assert len(begun) == DECODING
    finally:
        go.set()
    with pytest.raises(InvalidInput, match="this is none"):
        await staying
    assert len(begun) == DECODING + 1


async def test_a_recording_whose_words_the_model_cannot_read_is_not_decoded() -> None:
    def decode(audio: bytes) -> tuple[NDArray[np.float32], int]:
        raise AssertionError("the words come first")

    front = Front(HandPort(), read_front_end(None), VOICES, 24000, decode=decode)
    with pytest.raises(InvalidInput, match=r"^reference\.transcript: .* 'привет'"):
        await front.open(SessionRequest(reference=ColdVoice(b"sound", "The kettle привет")))


# Speaking without being told to


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    "text", ["She moved in May 2007.", "We left the U.S.", "He said “stop.”", "Well…", "Really?", "Yes.\U0001f642"]
)
async def test_a_finished_sentence_is_spoken_when_nothing_follows(room: Room, mode: Mode, text: str) -> None:
    session, stream = await room.open(mode)
    async with session:
        for count in (1, 2):
            await session.append(text)
            room.clock.pass_s(0.24)
            assert await spoken(session, stream) == count - 1
            room.clock.pass_s(0.02)
            assert await spoken(session, stream) == count
            stream.run()
            listener = Listener(session)
            await listener.take_all()
            assert not any(isinstance(event, Flushed) for event in listener.events)


async def test_a_boundary_that_is_known_does_not_wait(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        for count, text in enumerate(["Good morning, all. ", "你好。", "Line\n", "Is it? "], 1):
            await session.append(text)
            assert await spoken(session, stream) == count


@pytest.mark.parametrize("mode", list(Mode))
async def test_half_a_sentence_waits_for_its_rest(room: Room, mode: Mode, front_end: FrontEnd) -> None:
    session, stream = await room.open(mode)
    async with session:
        await session.append("我")
        room.clock.pass_s(2)
        assert await spoken(session, stream) == 0
        await session.append("们明天早上八点出发。")
        assert await spoken(session, stream) == 1
        assert stream.said == [front_end.whole("我们明天早上八点出发。")]


async def test_more_text_in_time_goes_on_with_the_sentence(room: Room, front_end: FrontEnd) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("It is 3.")
        room.clock.pass_s(0.2)
        await session.append("5")
        room.clock.pass_s(1.0)
        assert await spoken(session, stream) == 0
        await session.append(" degrees.")
        room.clock.pass_s(0.3)
        assert await spoken(session, stream) == 1
        assert stream.said == [front_end.whole("It is 3.5 degrees.")]


async def test_empty_pieces_do_not_put_it_off(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("It is late.")
        for _ in range(3):
            room.clock.pass_s(0.1)
            await session.append("")
        assert await spoken(session, stream) == 1


@pytest.mark.parametrize(("quiet_s", "held"), [(1.0, 0.9), (0.01, 0.0)])
async def test_a_request_may_set_how_long_is_waited(room: Room, quiet_s: float, held: float) -> None:
    session, stream = await room.open(quiet_s=quiet_s)
    async with session:
        await session.append("It is late.")
        room.clock.pass_s(held)
        assert await spoken(session, stream) == 0
        room.clock.pass_s(quiet_s)
        assert await spoken(session, stream) == 1


async def test_a_request_may_forbid_it(room: Room) -> None:
    session, stream = await room.open(quiet_s=math.inf)
    async with session:
        await session.append("It is late.")
        room.clock.pass_s(50)
        assert await spoken(session, stream) == 0


@pytest.mark.parametrize("quiet_s", [0.0, -1.0, math.nan])
async def test_a_wait_that_is_none_is_refused(room: Room, quiet_s: float) -> None:
    with pytest.raises(InvalidInput, match="quiet_s"):
        await room.open(quiet_s=quiet_s)
    with pytest.raises(InvalidInput, match="idle_s"):
        SessionLimits(idle_s=quiet_s)


async def test_text_that_waits_for_its_turn_is_on_its_way(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        first = asyncio.create_task(session.append("Hi. " * (MOST_SENTENCES + 1) + "We left the U.S."))
        writing = asyncio.create_task(session.append(" They stayed."))
        await first
        await settle()
        before = len(stream.said)
        room.clock.pass_s(1.0)
        assert await spoken(session, stream) == before
        stream.run()
        await writing
        assert session.state is State.RIPE
        room.clock.pass_s(0.3)
        assert await spoken(session, stream) == before + 2


# Flushing and finishing


async def test_both_halves_around_a_flush_are_heard(room: Room, front_end: FrontEnd) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("First part, ")
        await session.flush()
        room.clock.pass_s(0.02)
        await session.append("second part follows.")
        await session.finish()
        stream.run()
        listener = Listener(session)
        kinds = [type(event) for event in await listener.take_all()]
        assert kinds == [Started, Audio, Flushed, Audio, Done]
        assert stream.said == [front_end.whole("First part,"), front_end.whole("second part follows.")]


@pytest.mark.parametrize("mode", list(Mode))
async def test_blank_pieces_are_skipped(room: Room, mode: Mode, front_end: FrontEnd) -> None:
    session, stream = await room.open(mode)
    async with session:
        for piece in (" ", "...", "so we go on from here.", " ", "…", "🙂"):
            await session.append(piece)
        await session.finish()
        stream.run()
        assert [type(event) for event in await Listener(session).take_all()] == [Started, Audio, Done]
        assert stream.said == [front_end.whole("so we go on from here.")]


@pytest.mark.parametrize("text", ["", "……", "?!?!", "\u200b\u3000", "，", "🙂", ":-) ;-)"])
async def test_nothing_to_say_is_said_at_once_and_asks_nothing_of_the_engine(room: Room, text: str) -> None:
    session, stream = await room.open()
    async with session:
        await session.append(text)
        room.clock.pass_s(1.0)
        await session.flush()
        stream.run()
        await settle()
        with pytest.raises(InvalidInput, match="nothing to speak"):
            await session.finish()
        listener = Listener(session)
        assert [type(event) for event in await listener.take_all()] == [Started, Flushed]
        assert isinstance(listener.error, InvalidInput)
        assert stream.said == []


async def test_letters_that_are_left_out_are_counted_once(room: Room) -> None:
    session, stream = await room.open(Mode.AUTO)
    async with session:
        for piece in ("Say при", "вет, please. ", "ไทย! ", "你好。 café μ 🙂 "):
            await session.append(piece)
        await session.finish()
        stream.run()
        last = (await Listener(session).take_all())[-1]
        assert isinstance(last, Done)
        assert last.stats.unspoken_characters == len("привет" + "ไทย")


async def test_every_flush_is_answered_before_nothing_is_found_to_say(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("…")
        await session.flush()
        await session.flush()
        finishing = asyncio.create_task(session.finish())
        listener = Listener(session)
        await listener.take_all()
        room.clock.pass_s(500)
        assert not finishing.done()
        stream.run()
        with pytest.raises(InvalidInput, match="nothing to speak"):
            await finishing
        assert [type(event) for event in await listener.take_all()] == [Started, Flushed, Flushed]
        assert isinstance(listener.error, InvalidInput)


async def test_marks_in_what_turns_out_not_to_be_said_are_answered_in_order(room: Room) -> None:
    session, stream = await room.open()
    listener = Listener(session)
    await session.append("Say one. <b")
    await session.mark("in a tag")
    await session.append("r>")
    await session.mark("behind it")
    await session.append("Say two. <b")
    await session.mark("last")
    await session.append("r>")
    await session.finish()
    while stream.ended is None:
        stream.turn()
    marks = [event for event in await listener.take_all() if isinstance(event, Marked)]
    assert marks == [Marked("in a tag", 960), Marked("behind it", 960), Marked("last", 1920)]
    assert isinstance(listener.events[-1], Done)


async def test_who_waits_for_its_flushes_learns_of_any_other_end(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.flush()
        finishing = asyncio.create_task(session.finish())
        await settle()
        stream.end(Unavailable("the engine process ended"))
        with pytest.raises(Unavailable):
            await finishing


async def test_an_engine_that_ends_too_early_is_at_fault(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("Hello there. ")
        stream.ending = True
        stream.run()
        listener = Listener(session)
        await listener.take_all()
        assert isinstance(listener.error, InternalError)


# Stopping


async def test_a_cancel_tells_what_was_taken_and_hands_out_nothing_more(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("One. Two. Three. Four. ")
        stream.turn(100)
        listener = Listener(session)
        await listener.take_all()
        stream.turn(50)
        await settle()
        assert await session.cancel() == 100
        await listener.take()
        assert isinstance(listener.error, Cancelled) and listener.error.heard == 100
        assert listener.samples == 100
        assert isinstance(stream.ended, Cancelled)
        assert await session.cancel() == 100
        with pytest.raises(Cancelled):
            await session.append("More.")


async def test_what_was_played_counts_where_it_is_reported(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("One. Two. Three. Four. ")
        stream.turn(100)
        stream.turn(100)
        await Listener(session).take_all()
        for report, heard in ((70, 70), (60, 70), (999, 200)):
            await session.played(report)
            assert (session.heard, stream.played_) == (heard, heard)
        with pytest.raises(InvalidInput, match="played"):
            await session.played(-1)
        assert await session.cancel() == 200
        await session.played(300)
        assert session.heard == 200


async def test_a_cancel_after_all_was_made_still_silences(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("One. Two.")
        await session.finish()
        stream.run()
        await settle()
        listener = Listener(session)
        await listener.take()
        await listener.take()
        assert session.state is State.DRAINING
        assert await session.cancel() == 960
        await listener.take_all()
        assert isinstance(listener.error, Cancelled)
        assert listener.samples == 960


async def test_a_cancel_after_the_end_only_tells_the_position(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("One.")
        await session.finish()
        stream.run()
        listener = Listener(session)
        await listener.take_all()
        await session.played(500)
        assert await session.cancel() == 500
        assert session.state is State.DONE
        assert not await listener.take() and listener.error is None


async def test_who_leaves_frees_everything(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("One. Two")
    assert isinstance(stream.ended, Cancelled)
    assert session.state is State.CANCELLED


async def test_an_append_that_waits_learns_that_the_session_has_ended(room: Room) -> None:
    session, _ = await room.open()
    async with session:
        writing = asyncio.create_task(session.append("Hi. " * 2 * MOST_SENTENCES))
        while session.waiting <= MOST_SENTENCES:
            await asyncio.sleep(0)
        await settle()
        assert not writing.done()
        await session.cancel()
        with pytest.raises(Cancelled):
            await writing


# Those who do nothing, and engines that are lost


@pytest.mark.parametrize("text", ["", "Half a sentence", "A whole one. "])
async def test_a_client_that_does_nothing_loses_its_place(room: Room, text: str) -> None:
    session, stream = await room.open()
    async with session:
        await session.append(text)
        await settle()
        stream.run()
        listener = Listener(session)
        await listener.take_all()
        room.clock.pass_s(59)
        assert session.state.holds_engine
        room.clock.pass_s(2)
        assert isinstance(stream.ended, Idle)
        await listener.take()
        assert isinstance(listener.error, Idle)


async def test_nobody_is_idle_while_something_is_computed_for_them(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("A whole one. ")
        listener = Listener(session)
        await listener.take_all()
        assert session.working
        room.clock.pass_s(600)
        assert session.state is State.OPEN
        stream.run()
        await listener.take_all()
        room.clock.pass_s(59)
        assert session.state is State.OPEN
        room.clock.pass_s(2)
        assert isinstance(stream.ended, Idle)


async def test_a_listener_that_takes_nothing_loses_its_place_and_what_waits(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        listener = Listener(session)
        await listener.take_all()
        await session.append("One. Two. ")
        room.clock.pass_s(30)
        stream.turn()
        await settle()
        room.clock.pass_s(19)
        stream.turn()
        await settle()
        assert session.state is State.OPEN
        room.clock.pass_s(2)
        assert isinstance(stream.ended, Stalled)
        await listener.take()
        assert isinstance(listener.error, Stalled)
        assert listener.samples == 0


async def test_a_listener_that_stalls_after_the_end_is_stalled_too(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("One. ")
        await session.finish()
        stream.run()
        await settle()
        room.clock.pass_s(21)
        assert session.state is State.FAILED
        with pytest.raises(Stalled):
            await session.append("More.")


async def paused(room: Room, ending: bool) -> tuple[Session, HandStream]:
    """A session whose engine waits for its listener to report more, which has taken all there is."""
    session, stream = await room.open()
    await session.append("One. Two. ")
    if ending:
        await session.finish()
    stream.turn()
    await Listener(session).take_all()
    await session.played(10)
    stream.deliver(Progress(working=False, answered=1))
    await settle()
    return session, stream


@pytest.mark.parametrize("ending", [False, True])
async def test_a_player_may_pause_for_long_without_a_word(room: Room, ending: bool) -> None:
    session, stream = await paused(room, ending)
    async with session:
        room.clock.pass_s(599)
        assert session.state.holds_engine
        await session.played(960)
        stream.run()
        await settle()
        assert isinstance((await Listener(session).take_all())[0], Audio)


@pytest.mark.parametrize("ending", [False, True])
async def test_a_player_that_reports_the_same_may_pause_for_ever(room: Room, ending: bool) -> None:
    session, stream = await paused(room, ending)
    async with session:
        for _ in range(10):
            room.clock.pass_s(599)
            await session.played(10)
        assert session.state.holds_engine and stream.ended is None


@pytest.mark.parametrize("ending", [False, True])
async def test_reports_that_no_longer_come_are_a_stall(room: Room, ending: bool) -> None:
    session, stream = await paused(room, ending)
    async with session:
        room.clock.pass_s(601)
        assert isinstance(stream.ended, Stalled)
        assert "600 s" in str(stream.ended) and "report the same" in str(stream.ended)


async def test_a_listener_that_can_report_no_more_is_taken_to_play_on(room: Room) -> None:
    session, stream = await paused(room, ending=False)
    async with session:
        await session.reports_end()
        for second in range(3):
            room.clock.pass_s(1)
            assert stream.played_ == min(960, 10 + (second + 1) * 24_000)
        stream.turn(100_000)
        await Listener(session).take_all()
        room.clock.pass_s(1)
        assert stream.played_ == 960 + 24_000
        room.clock.pass_s(10)
        assert stream.played_ == 100_960


async def test_to_be_taken_to_play_on_is_no_sign_of_life(room: Room) -> None:
    session, stream = await paused(room, ending=False)
    async with session:
        await session.reports_end()
        room.clock.pass_s(1)
        stream.run()
        await settle()
        room.clock.pass_s(21)
        assert isinstance(stream.ended, Stalled)
    session, stream = await paused(room, ending=False)
    async with session:
        await session.reports_end()
        room.clock.pass_s(1)
        stream.run()
        await Listener(session).take_all()
        room.clock.pass_s(61)
        assert isinstance(stream.ended, Idle)


async def test_who_never_reported_is_not_reported_for(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("Good morning, all. ")
        await session.reports_end()
        stream.turn()
        await Listener(session).take_all()
        room.clock.pass_s(5)
        assert stream.played_ is None


async def test_a_last_report_a_little_early_is_no_pause(room: Room) -> None:
    """With nothing left to say the client owes text, whatever it has reported."""
    session, stream = await room.open()
    async with session:
        await session.append("Good morning, all. ")
        stream.run()
        await Listener(session).take_all()
        await session.played(950)
        room.clock.pass_s(61)
        assert isinstance(stream.ended, Idle)


async def test_a_listener_that_reports_without_taking_is_waited_for(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("Good morning, all. ")
        stream.turn()
        await settle()
        for _ in range(10):
            room.clock.pass_s(19)
            await session.played(0)
        assert session.state.holds_engine
        room.clock.pass_s(21)
        assert isinstance(stream.ended, Stalled)


@pytest.mark.parametrize("ending", [False, True])
async def test_nobody_is_idle_while_the_engine_owes_them_speech(room: Room, ending: bool) -> None:
    """It may wait for memory that others hold."""
    session, stream = await room.open()
    async with session:
        await session.append("Good morning, all. ")
        if ending:
            await session.finish()
        stream.deliver(Progress(working=False, answered=0))
        await Listener(session).take_all()
        room.clock.pass_s(3000)
        assert stream.ended is None


@pytest.mark.parametrize("error", [Unavailable("the engine process ended"), InternalError("not finite")])
async def test_an_error_comes_after_the_audio_before_it(room: Room, error: OscineError) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("One. Two. Three.")
        stream.turn()
        stream.end(error)
        listener = Listener(session)
        assert [type(event) for event in await listener.take_all()] == [Started, Audio]
        assert listener.error is error
        assert session.state is State.FAILED
        assert await session.cancel() == 960
        with pytest.raises(type(error)):
            await session.flush()


# Opening


async def test_what_cannot_be_opened_says_why(room: Room) -> None:
    with pytest.raises(UnknownVoice, match="anna, bo"):
        await room.open(voice="nobody")
    for seed in (-1, 2**63):
        with pytest.raises(InvalidInput, match="seed"):
            await room.front.open(SessionRequest(seed=seed))
    assert room.port.streams == []
    sessions = [(await room.open(voice="bo", trim=False))[0] for _ in range(4)]
    assert {(stream.options.voice, stream.options.trim) for stream in room.port.streams} == {("bo", False)}
    with pytest.raises(Overloaded):
        await room.open()
    for session in sessions:
        await session.cancel()


async def test_how_fast_it_went_is_seen_from_here(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        assert (session.first_packet_s, session.busy_s) == (None, None)
        await session.append("We won. ")
        await settle()
        room.clock.pass_s(0.2)
        stream.turn()
        await settle()
        room.clock.pass_s(5)
        assert session.first_packet_s == pytest.approx(0.2)
        assert session.busy_s == pytest.approx(0.2)
        await session.append("They lost. ")
        await settle()
        room.clock.pass_s(0.3)
        stream.turn()
        await settle()
        assert session.first_packet_s == pytest.approx(0.2)
        assert session.busy_s == pytest.approx(0.5)


# Anything in any order

TEXTS = ["One. ", "Two.", "half ", "我们", "。", "…", "", "🙂", "\n", "U.S.", "\ud83d", "Hi. " * 40]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(TEXTS)),
        st.tuples(st.sampled_from(["flush", "turn", "turn", "take", "take"]), st.none()),
        st.tuples(st.sampled_from(["finish", "cancel", "fail", "lose", "unheard"]), st.none()),
        st.tuples(st.just("played"), st.integers(0, 5000)),
        st.tuples(st.just("sound"), st.integers(1, 500)),
        st.tuples(st.just("pass"), st.sampled_from([0.1, 0.3, 19.0, 70.0, 700.0])),
        st.tuples(st.just("later"), st.sampled_from(["append", "flush", "finish"])),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(steps=steps, mode=st.sampled_from(list(Mode)), leave=st.booleans())
def test_any_order_of_events_ends_once_and_leaves_nothing(
    front_end: FrontEnd, steps: list[tuple[str, Any]], mode: Mode, leave: bool
) -> None:
    asyncio.run(_live(front_end, steps, mode, leave))


async def _live(front_end: FrontEnd, steps: list[tuple[str, Any]], mode: Mode, leave: bool) -> None:
    room = Room(port := HandPort(), clock := HandClock(), Front(port, front_end, VOICES, 24000, LIMITS, clock))
    session, stream = await room.open(mode)
    listener = Listener(session)
    running: list[asyncio.Task[None]] = []
    refused: list[State] = []

    async def attempt(verb: Callable[[], Any]) -> None:
        try:
            await verb()
        except OscineError:
            refused.append(session.state)

    async with session:
        for name, value in steps:
            match name:
                # Not awaited: a finish waits for its flushes where there was nothing to say, and all behind it do too.
                case "append":
                    running.append(asyncio.create_task(attempt(partial(session.append, value))))
                case "flush":
                    running.append(asyncio.create_task(attempt(session.flush)))
                case "finish":
                    running.append(asyncio.create_task(attempt(session.finish)))
                case "cancel":
                    heard = await session.cancel()
                    assert heard == session.heard <= listener.samples
                case "played":
                    await session.played(value)
                case "unheard":
                    await session.reports_end()
                case "turn":
                    stream.turn()
                case "sound":
                    if stream.queue and stream.queue[0] is not None:
                        stream.sound(value)
                case "fail":
                    stream.end(InternalError("not finite"))
                case "lose":
                    stream.end(Unavailable("the engine process ended"))
                case "take":
                    await listener.take()
                case "pass":
                    clock.pass_s(value)
                case "later":
                    verb = {"append": lambda: session.append("Late. " * 20), "flush": session.flush}
                    running.append(asyncio.create_task(attempt(verb.get(value, session.finish))))
            if name != "later":
                await settle()
            if session.state.takes_text and not any(not task.done() for task in running):
                assert (session.state is State.RIPE) == session._planner.finished
        if not leave:
            running.append(asyncio.create_task(attempt(session.finish)))
        await settle()
        while not all(task.done() for task in running):
            stream.run()
            await settle()
        if not leave:
            await asyncio.gather(*running)
            while session.state is State.ENDING:
                stream.run()
                await settle()
            await listener.take_all()
            assert session.state in (State.DONE, State.CANCELLED, State.FAILED)
            assert (listener.error is None) == (session.state is State.DONE)
            if session.state is State.DONE:
                assert isinstance(listener.events[-1], Done)
                assert listener.samples == stream.sent
    await settle()
    if listener.events:
        listener.check()
    assert stream.ended is not None
    assert port.admitted == 0
    assert clock.waiting == 0
    assert not session.state.takes_text
    assert not any(state.takes_text for state in refused)
    assert len(asyncio.all_tasks()) == 1


# Marks and flushes beyond what may wait


async def test_marks_wait_for_room_behind_a_listener_who_takes_nothing(room: Room) -> None:
    session, _ = await room.open()
    async with session:

        async def marking() -> None:
            for number in range(3 * MOST_ANSWERS):
                await session.mark(str(number))

        writing = asyncio.create_task(marking())
        await settle()
        listener = Listener(session)
        assert not writing.done() and session._answers == MOST_ANSWERS + 1
        # They are no signs of life that would keep a listener who takes nothing.
        while await listener.take():
            assert session._answers <= MOST_ANSWERS + 1
        await writing
        assert [event.name for event in listener.events if isinstance(event, Marked)] == [
            str(number) for number in range(3 * MOST_ANSWERS)
        ]


async def test_marks_wait_for_room_behind_a_paused_player(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("It will be said. It will not. ")

        async def marking() -> None:
            for number in range(3 * MOST_ANSWERS):
                await session.mark(str(number))

        writing = asyncio.create_task(marking())
        await settle()
        assert not writing.done() and session._marks.placed == MOST_ANSWERS + 1
        stream.run()
        listener = Listener(session)
        await listener.take_all()
        await writing
        assert sum(isinstance(event, Marked) for event in await listener.take_all()) == 3 * MOST_ANSWERS


async def test_marks_in_one_sentence_are_counted_and_the_session_goes_on(room: Room) -> None:
    session, stream = await room.open()
    async with session:
        await session.append("Half a sen")
        for number in range(MOST):
            await session.mark(str(number))
        with pytest.raises(TooManyMarks, match="1000 stand in this sentence"):
            await session.mark("one more")
        await session.append("tence.")
        await session.finish()
        stream.run()
        events = await Listener(session).take_all()
        assert sum(isinstance(event, Marked) for event in events) == MOST and isinstance(events[-1], Done)


async def test_flushes_wait_for_room(room: Room) -> None:
    session, stream = await room.open()
    async with session:

        async def flushing() -> None:
            for _ in range(2 * MOST_SENTENCES):
                await session.flush()

        writing = asyncio.create_task(flushing())
        await settle()
        assert not writing.done() and session.waiting == MOST_SENTENCES + 1
        stream.run()
        listener = Listener(session)
        while not writing.done():
            await listener.take_all()
            stream.run()
        await listener.take_all()
        assert sum(isinstance(event, Flushed) for event in listener.events) == 2 * MOST_SENTENCES


@pytest.mark.parametrize("waits", ["mark", "flush"])
async def test_who_waits_for_room_learns_that_the_session_has_ended(room: Room, waits: str) -> None:
    session, _ = await room.open()
    async with session:

        async def writing() -> None:
            while True:
                await (session.mark("m") if waits == "mark" else session.flush())

        task = asyncio.create_task(writing())
        await settle()
        assert not task.done()
        await session.cancel()
        with pytest.raises(Cancelled):
            await task


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("cut", [1, 7, 1000])
async def test_a_mark_is_behind_its_sentence_however_the_text_was_cut(room: Room, mode: Mode, cut: int) -> None:
    """And what follows it is not read a character at a time."""
    session, stream = await room.open(mode)
    rest = "rst one. The second one. The third one. The fourth"
    async with session:
        await session.append("The fi")
        await session.mark("in one")
        for start in range(0, len(rest), cut):
            await session.append(rest[start : start + cut])
        await session.mark("in four")
        await session.append(" one.")
        await session.finish()
        while stream.ended is None:
            stream.turn()
        events = await Listener(session).take_all()
    sound = [event.samples.size for event in events if isinstance(event, Audio)]
    marks = {event.name: event.end_sample for event in events if isinstance(event, Marked)}
    assert marks["in four"] == sum(sound) == 4 * marks["in one"] > 0


async def test_text_behind_a_standing_mark_is_read_in_slices(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[int] = []
    push = Planner.push

    def counted(planner: Planner, text: str) -> list[Step]:
        pushed.append(len(text))
        return push(planner, text)

    monkeypatch.setattr(Planner, "push", counted)
    session, _ = await room.open()
    async with session:
        await session.append("It begins")
        await session.mark("in it")
        await session.append(" and goes on" * 100)
    assert len(pushed) <= 2 + 1200 // SLICE
