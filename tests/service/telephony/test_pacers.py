"""Frames, and the two ways to pace them, by hand: no sockets, and clocks that a test sets."""

import asyncio
import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_codecs import g711
from oscine_service.audio import Container, Encoding, Format
from oscine_service.telephony import realtime
from oscine_service.telephony.burst import Burst
from oscine_service.telephony.frames import Cutter, Frame, frame_samples, silence
from oscine_service.telephony.realtime import Clock, RealTime

MULAW, OPUS = Format(Encoding.MULAW, 8000), Format(Encoding.OPUS, 24000)
FORMATS = [MULAW, Format(Encoding.ALAW, 8000), *(Format(Encoding.PCM16, rate) for rate in (8000, 11025, 44100, 48000))]


def sound(count: int, width: int = 1) -> bytes:
    return np.random.default_rng(count).integers(0, 256, count * width, dtype=np.uint8).tobytes()


@given(st.sampled_from(FORMATS), st.lists(st.integers(0, 2000), max_size=8))
def test_any_cut_gives_the_same_frames_and_a_quiet_last_one(format: Format, sizes: list[int]) -> None:
    width = 2 if format.encoding is Encoding.PCM16 else 1
    data, cutter, frames = sound(sum(sizes), width), Cutter(format), []
    at = 0
    for size in sizes:
        frames += cutter.push([data[at * width : (at + size) * width]], size)
        at += size
    assert all(len(frame.data) == frame_samples(format) * width == len(silence(format)) for frame in frames)
    assert cutter.waiting == at - sum(frame.samples for frame in frames)
    rest = cutter.rest()
    frames += [] if rest is None else [rest]
    assert sum(frame.samples for frame in frames) == at and cutter.rest() is None
    joined = b"".join(frame.data for frame in frames)
    padding = joined[len(data) :]
    assert joined[: len(data)] == data and padding == silence(format)[: len(padding)]


def test_the_silence_of_a_law_is_that_of_its_decoder() -> None:
    for law, encoding in ((g711.MULAW, Encoding.MULAW), (g711.ALAW, Encoding.ALAW)):
        assert np.abs(law.decode(silence(Format(encoding, 8000)))).max() <= 8 / 32768


@given(st.integers(0, 12), st.integers(0, 12))
def test_packets_pass_and_the_last_of_them_is_not_heard_before_it_is_sent(whole: int, empty: int) -> None:
    packets = [bytes([number]) for number in range(whole + empty)]
    frames = [*Cutter(OPUS).push(packets, whole * 480)]
    assert [frame.data for frame in frames] == packets
    assert sum(frame.samples for frame in frames) == whole * 480
    if whole * 480 > empty and frames:
        assert frames[-1].samples > 0


@pytest.mark.parametrize("format", [Format(Encoding.MP3), Format(Encoding.OPUS, container=Container.OGG)])
def test_what_has_no_frames(format: Format) -> None:
    with pytest.raises(ValueError, match="has no frames"):
        Cutter(format)


async def test_a_real_time_player_counts_what_it_sends() -> None:
    sent: list[Frame | None] = []
    told: list[int] = []
    player = RealTime(MULAW, sent.append)
    player.tell = lambda: told.append(player.heard)
    player.beat()
    await player.write([sound(400)], 400)
    for _ in range(3):
        player.beat()
    # Half a frame with nothing behind it is late already.
    assert sent[0] is None and [frame.samples for frame in sent[1:] if frame] == [160, 160, 80]
    assert player.heard == player.given == 400 and told == []
    await player.point()
    assert told == [400]
    await player.write([sound(170)], 170)
    await player.flush()
    for _ in range(2):
        player.beat()
    assert told == [400, 570] and sent[-1] == Frame(sound(170)[160:] + b"\xff" * 150, 10)


async def test_a_clear_leaves_nothing_and_the_next_follows_there() -> None:
    sent: list[Frame | None] = []
    player = RealTime(MULAW, sent.append)
    await player.write([sound(1700)], 1700)
    player.beat()
    assert await player.clear() == 160 == player.given
    player.beat()
    await player.write([b"\x01" * 160], 160)
    player.beat()
    assert sent[1:] == [None, Frame(b"\x01" * 160, 160)] and player.heard == 320


async def test_a_writer_waits_while_too_much_waits() -> None:
    player = RealTime(MULAW, lambda frame: None, lead_s=1.0)
    await player.write([bytes(8000)], 8000)
    writing = asyncio.create_task(player.write([bytes(8000)], 8000))
    await asyncio.sleep(0)
    assert not writing.done()
    for _ in range(50):
        player.beat()
    await asyncio.wait_for(writing, 5)
    writing = asyncio.create_task(player.write([bytes(8000)], 8000))
    await asyncio.sleep(0)
    assert not writing.done()
    await player.clear()
    await asyncio.wait_for(writing, 5)


class Loop:
    """An event loop's clock and timers. late: what it is held up for before each timer runs."""

    def __init__(self, late: itertools.chain[float] | list[float]) -> None:
        self.now, self._late, self._timers = 100.0, iter(late), []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, act: object) -> "Loop":
        self._timers.append((when, act))
        return self

    def cancel(self) -> None:
        self._timers.clear()

    def run(self, until: float) -> None:
        while self._timers and self._timers[0][0] <= until:
            when, act = self._timers.pop(0)
            self.now = max(self.now, when) + next(self._late, 0.0)
            act()


def test_a_clock_does_not_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes on a loop that is late each time: as many beats as 20 ms went by, none ahead of its time."""
    random.seed(1)
    loop = Loop([random.choice((0.0, 0.001, 0.003, 0.05, 0.3)) for _ in range(30000)])
    monkeypatch.setattr(realtime.asyncio, "get_running_loop", lambda: loop)
    clock, at = Clock(), []
    with clock.beating(lambda: at.append(loop.now)):
        loop.run(700.0)
        late = [moment - 100 - number * 0.02 for number, moment in enumerate(at)]
        assert min(late) > -1e-6 and max(late) < 0.3 + 0.02
        # How late it is at the end is how late the loop was then, whatever came before.
        assert len(at) == pytest.approx((loop.now - 100) / 0.02, abs=1.01)
        assert clock.skipped == 0


def test_a_clock_gives_up_what_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop([0.0, 0.0, 60.0])
    monkeypatch.setattr(realtime.asyncio, "get_running_loop", lambda: loop)
    clock, at = Clock(), []
    with clock.beating(lambda: at.append(loop.now)):
        loop.run(161.0)
    assert len(at) < 60 and clock.skipped == pytest.approx(3000, abs=2)


def test_a_clock_runs_while_there_are_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop([])
    monkeypatch.setattr(realtime.asyncio, "get_running_loop", lambda: loop)
    clock, heard = Clock(), []
    with clock.beating(lambda: heard.append("a")):
        loop.run(100.01)
        with clock.beating(lambda: heard.append("b")):
            loop.run(100.03)
        loop.run(100.05)
    loop.run(200.0)
    assert heard == ["a", "a", "b", "a"]
    with clock.beating(lambda: heard.append("c")):
        loop.run(loop.now)
    assert heard[-1] == "c"


class Recorder:
    """What a burst wrote, in order."""

    def __init__(self) -> None:
        self.said: list[bytes | str] = []

    async def media(self, sound: bytes) -> None:
        self.said.append(sound)

    async def mark(self, name: str) -> None:
        self.said.append(name)

    async def clear(self) -> None:
        self.said.append("clear")

    @property
    def marks(self) -> list[str]:
        return [each for each in self.said if isinstance(each, str) and each != "clear"]


class Time:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def burst(**options: object) -> tuple[Burst, Recorder, Time, list[int]]:
    recorder, time, told = Recorder(), Time(), []
    found = Burst(MULAW, recorder, now=time, **options)  # type: ignore[arg-type]
    found.tell = lambda: told.append(found.heard)
    return found, recorder, time, told


async def test_a_burst_is_whole_frames_with_marks_between() -> None:
    player, recorder, _, _ = burst()
    await player.write([sound(1000)], 1000)
    await player.write([sound(8000)], 8000)
    await player.flush()
    media = [each for each in recorder.said if isinstance(each, bytes)]
    assert all(len(each) % 160 == 0 and len(each) <= 1600 for each in media)
    assert b"".join(media)[:9000] == sound(1000) + sound(8000) and len(b"".join(media)) == 9120
    # At the end a mark, and before it one each 200 ms.
    assert recorder.said[-1] == recorder.marks[-1] and len(recorder.marks) >= 5
    assert len(set(recorder.marks)) == len(recorder.marks)


async def test_what_was_heard_goes_on_in_real_time_between_two_marks() -> None:
    player, recorder, time, told = burst()
    await player.write([sound(4800)], 4800)
    first, second = recorder.marks[:2]
    assert player.heard == 0
    time.now += 0.1
    assert player.heard == 800
    # A carrier that is slower than the clock is not run ahead of.
    time.now += 10
    assert player.heard == 1600
    player.marked(first)
    assert told == [1600] and player.heard == 1600
    time.now += 0.05
    assert player.heard == 2000
    player.marked(second)
    assert told[-1] == 3200
    player.marked("a name of somebody else's")
    player.marked(first)
    assert len(told) == 2
    player.marked("")
    assert told[-1] == 4800 == player.given


async def test_marks_that_a_clear_sends_back_do_not_count() -> None:
    player, recorder, time, told = burst()
    await player.write([sound(16000)], 16000)
    marks = recorder.marks
    time.now += 0.15
    player.marked(marks[0])
    time.now += 0.05
    assert await player.clear() == 2000 == player.given
    assert recorder.said[-1] == "clear"
    for name in marks[1:]:
        player.marked(name)
    time.now += 10
    assert player.heard == 2000 == max(told)
    # What follows is heard from there on.
    await player.write([sound(1600)], 1600)
    await player.flush()
    time.now += 0.1
    assert player.heard == 2800
    player.marked(recorder.marks[-1])
    assert told[-1] == 3600 and not {*marks} & {*recorder.marks[len(marks) :]}


async def test_nothing_is_cleared_where_nothing_is_left() -> None:
    player, recorder, _, _ = burst()
    assert await player.clear() == 0 and not recorder.said
    await player.write([sound(1600)], 1600)
    await player.flush()
    player.marked(recorder.marks[-1])
    assert await player.clear() == 1600 and "clear" not in recorder.said


async def test_a_burst_waits_for_its_credit_and_a_clear_lets_it_go() -> None:
    player, recorder, _, _ = burst(credit_s=1.0)
    await player.write([sound(8000)], 8000)
    writing = asyncio.create_task(player.write([sound(4000)], 4000))
    await asyncio.sleep(0)
    assert not writing.done()
    player.marked(recorder.marks[2])
    await asyncio.wait_for(writing, 5)
    writing = asyncio.create_task(player.write([sound(8000)], 8000))
    await asyncio.sleep(0)
    assert not writing.done()
    await player.clear()
    await asyncio.wait_for(writing, 5)


async def test_silence_between_two_sentences_is_not_taken_for_speech() -> None:
    player, recorder, time, _ = burst()
    await player.write([sound(1600)], 1600)
    await player.flush()
    player.marked(recorder.marks[-1])
    time.now += 60
    assert player.heard == 1600
    await player.write([sound(1600)], 1600)
    assert player.heard == 1600
    time.now += 0.02
    assert player.heard == 1760
