"""Word times of the embedded voice, through a session."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from oscine_engine.engine import Engine
from oscine_engine.events import Audio, Done, Flushed, Mode, SessionRequest, Word, Words
from oscine_engine.front import read_front_end
from oscine_engine.guards.levels import window_levels
from oscine_engine.planner import Planner
from oscine_engine.word_times.times import LAG_S, WordTimes

pytestmark = pytest.mark.asyncio(loop_scope="module")

RATE, WINDOW, QUIET_DB = 24000, 240, -50.0
TEXT = "Good morning. Dr. Hill has 12 horses, and the library closes early."
WORDS = "Good morning Dr. Hill has 12 horses and the library closes early".split()
LOOK_S, AHEAD_S = 0.1, 0.2
"""From one look at the best path to the next, and what a frame's scores wait for."""


@dataclass
class Heard:
    """What a session gave. given: for each word, how many samples had come before the packet that it came behind."""

    samples: NDArray[np.float32]
    words: list[Word]
    given: list[int]
    borders: list[int]
    """Where the sentences end, the first by a flush."""


async def listen(engine: Engine, *texts: str, **request: object) -> Heard:
    """The texts, a flush behind each."""
    packets: list[NDArray[np.float32]] = []
    heard = Heard(np.zeros(0, np.float32), [], [], [])
    total = before = 0
    async with await engine.open(SessionRequest(seed=0, **request)) as session:  # type: ignore[arg-type]
        for text in texts:
            await session.append(text)
            await session.flush()
        await session.finish()
        async for event in session:
            match event:
                case Audio(samples=samples):
                    before, total = total, total + len(samples)
                    packets.append(samples)
                case Words(words=words):
                    assert words
                    heard.words += words
                    heard.given += [before] * len(words)
                case Flushed(end_sample=end):
                    heard.borders.append(end)
                case Done():
                    assert total == sum(map(len, packets))
    heard.samples = np.concatenate(packets)
    return heard


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    async with Engine.load() as engine:
        yield engine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def heard(engine: Engine) -> Heard:
    return await listen(engine, TEXT[:14], TEXT[14:], mode=Mode.SENTENCE, word_times=True)


def loud(samples: NDArray[np.float32]) -> NDArray[np.intp]:
    """Windows of 10 ms that are not silent."""
    return np.flatnonzero(window_levels(samples, WINDOW) > QUIET_DB)


async def test_every_word_is_told_once_in_order(heard: Heard) -> None:
    assert [word.text for word in heard.words] == WORDS
    assert "".join(word.text + word.behind for word in heard.words) == TEXT
    assert all(word.start_sample < word.end_sample <= len(heard.samples) for word in heard.words)
    assert all(before.end_sample <= after.start_sample for before, after in pairwise(heard.words))


async def test_words_lie_in_their_sentence_and_reach_from_its_first_sound_to_its_last(heard: Heard) -> None:
    border = heard.borders[0]
    assert heard.words[1].end_sample <= border <= heard.words[2].start_sample
    for first, last, start, end in ((0, 1, 0, border), (2, -1, border, len(heard.samples))):
        sound = start + WINDOW * loud(heard.samples[start:end])
        assert heard.words[first].start_sample == pytest.approx(sound[0], abs=0.08 * RATE)
        assert heard.words[last].end_sample == pytest.approx(sound[-1] + WINDOW, abs=0.12 * RATE)


async def test_a_word_is_told_shortly_after_its_audio(heard: Heard) -> None:
    """What had been given before the packet it came with was not enough, or its sentence ended with that packet."""
    for word, given in zip(heard.words, heard.given, strict=True):
        if given not in heard.borders:
            assert given < word.end_sample + (LAG_S + LOOK_S + AHEAD_S) * RATE


def replayed(heard: Heard, size: int, moved: int = 0) -> list[Word]:
    planner, times = Planner(read_front_end(None), Mode.SENTENCE, words=True), WordTimes()
    for text in (TEXT[:14], TEXT[14:]):
        planner.push(text)
        planner.flush()
    times.tell(planner.take_words())
    border = heard.borders[0]
    second = np.concatenate((np.zeros(moved, np.float32), heard.samples[border:]))
    parts = [heard.samples[at : min(border, at + size)] for at in range(0, border, size)]
    for part in (*parts, border, *(second[at : at + size] for at in range(0, len(second), size)), border + len(second)):
        if isinstance(part, int):
            times.end_segment(part)
        else:
            times.hear(part)
        times.work()
    assert not times.waiting
    return list(times.take())


@pytest.mark.parametrize("size", [777, 24000])
async def test_times_do_not_depend_on_packets(heard: Heard, size: int) -> None:
    assert [(w.text, w.start_sample, w.end_sample) for w in replayed(heard, size)] == [
        (w.text, w.start_sample, w.end_sample) for w in heard.words
    ]


async def test_silence_in_front_moves_what_is_behind_it(heard: Heard) -> None:
    moved = replayed(heard, 4800, moved=9600)
    for before, after in zip(heard.words, moved, strict=True):
        shift = 0 if before.end_sample <= heard.borders[0] else 9600
        assert after.start_sample - before.start_sample == pytest.approx(shift, abs=960)


async def test_nobody_is_told_who_does_not_ask(engine: Engine, heard: Heard) -> None:
    assert (await listen(engine, TEXT[:14], mode=Mode.SENTENCE)).words == []


async def test_words_that_are_read_otherwise_are_told_as_written(engine: Engine) -> None:
    cats = '<phoneme alphabet="arpabet" ph="K AE1 T S">cts</phoneme>'
    text = f'Ms. Nguyen has <sub alias="twelve brown horses">12 h.</sub> and {cats}.'
    heard = await listen(engine, text, mode=Mode.SENTENCE, word_times=True, pronunciations={"Nguyen": "win"})
    assert [word.text for word in heard.words] == ["Ms.", "Nguyen", "has", "12 h.", "and", "cts"]
    longest = max(heard.words, key=lambda word: word.end_sample - word.start_sample)
    assert longest.text == "12 h."
    assert all(before.end_sample <= after.start_sample for before, after in pairwise(heard.words))


async def test_a_silence_that_the_text_asks_for_is_as_long_as_that(engine: Engine) -> None:
    text = 'Good morning. <break time="1.5s"/> And good night.'
    heard = await listen(engine, text, mode=Mode.SENTENCE, word_times=True)
    pauses = WINDOW / RATE * np.diff(loud(heard.samples))
    assert max(pauses) == pytest.approx(1.5, abs=0.1)
    before, after = heard.words[1:3]
    assert (before.text, after.text) == ("morning", "And")
    assert after.start_sample - before.end_sample == pytest.approx(1.5 * RATE, abs=0.2 * RATE)
