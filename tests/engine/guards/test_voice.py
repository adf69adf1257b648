"""The embedded voice under text that other engines stumble over, heard by somebody else.

What is judged is that a sentence stays in bounds: nothing lost at its edges, nothing said without end, no noise behind
it. How well single words are understood is `bench.intelligibility`'s question.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from bench.asr import Language, Recogniser
from oscine_engine.checkpoint.load import load
from oscine_engine.engine import Engine
from oscine_engine.events import Audio, Mode, SessionRequest
from oscine_engine.guards.levels import window_levels
from oscine_service.listening.scoring import words

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

RATE, WINDOW = 24000, 240
SOUND_DB = -50.0
SENTENCES = (Path(__file__).parents[3] / "bench" / "sentences" / "en.txt").read_text(encoding="utf-8").splitlines()
TWELVE = "apples bread candles doors eagles fire gardens horses iron judges kings lamps".split()
BOTH = pytest.mark.parametrize("mode", [Mode.SENTENCE, Mode.INTERLEAVED])
Samples = NDArray[np.float32]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    async with Engine.load() as engine:
        yield engine


@cache
def recogniser(lang: Language, base: bool) -> Recogniser:
    return Recogniser(lang, base=base)


async def speak(
    engine: Engine,
    text: str,
    mode: Mode = Mode.SENTENCE,
    lang: Language = "en",
    voice: str | None = None,
    seed: int = 0,
) -> Samples:
    voice = voice or next(name for name, each in engine.voices.items() if each.language == lang)
    async with await engine.open(SessionRequest(voice=voice, mode=mode, seed=seed)) as session:
        await session.append(text)
        await session.finish()
        return np.concatenate([event.samples async for event in session if isinstance(event, Audio)])


async def hear(samples: Samples, lang: Language = "en", *, base: bool = False) -> str:
    return await asyncio.to_thread(recogniser(lang, base).transcribe, samples, RATE)


def sound(samples: Samples) -> NDArray[np.bool_]:
    """Which windows of 10 ms are louder than SOUND_DB."""
    return window_levels(samples, WINDOW) > SOUND_DB


def longest_pause_s(samples: Samples) -> float:
    """Inside, not at the edges."""
    return float(np.diff(np.flatnonzero(sound(samples))).max() - 1) * WINDOW / RATE


@BOTH
async def test_a_repeated_phrase_ends_and_the_last_clause_is_there(engine: Engine, mode: Mode) -> None:
    counts = []
    for seed in range(3):
        samples = await speak(
            engine, "Go on, go on, go on, go on, go on, go on, then stop right here.", mode, seed=seed
        )
        # The small recogniser drops repeated words itself: it heard all six in one of 24 readings, this one in nine.
        heard = " ".join(words(await hear(samples, base=True)))
        counts.append(heard.count("go on"))
        assert heard.endswith("right here"), heard
        assert 2.5 < len(samples) / RATE < 6
    # Six are written. How exactly the voice counts is a matter of its training, that it stops is the guards'.
    assert min(counts) >= 4 and max(counts) <= 7, counts
    assert sorted(counts)[1] >= 5, counts


@BOTH
async def test_written_laughter_ends_and_the_next_sentence_follows(engine: Engine, mode: Mode) -> None:
    samples = await speak(engine, "他笑了：哈哈哈哈哈哈。然后就走了。", mode, "zh")
    heard = await hear(samples, "zh")
    assert heard.startswith("他") and "走了" in heard, heard
    assert len(samples) / RATE < 5.5


@BOTH
async def test_none_of_twelve_clauses_is_skipped(engine: Engine, mode: Mode) -> None:
    samples = await speak(engine, ", ".join(f"it was the year of {noun}" for noun in TWELVE) + ".", mode)
    assert 12 < len(samples) / RATE < 26
    middle = len(samples) // 2 - int(np.argmin(window_levels(samples[len(samples) // 2 - RATE :][:RATE], WINDOW)))
    heard = words(await hear(samples[:middle])) + words(await hear(samples[middle:]))
    assert 10 <= heard.count("year") <= 13, heard
    found = [noun for noun in TWELVE if noun in heard]
    assert len(found) >= 7, heard
    assert found[0] == TWELVE[0] and found[-1] in TWELVE[-3:], heard


@BOTH
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbau.", 12),
        ("3f9ab07c" * 8, 45),
        ("a" * 500, 60),
        ("0" * 64, 45),
    ],
)
async def test_what_nobody_can_read_ends_in_bounded_time(engine: Engine, mode: Mode, text: str, seconds: int) -> None:
    samples = await speak(engine, f"{text} And on we go.", mode)
    assert 1 < len(samples) / RATE < seconds
    assert sound(samples[-2 * RATE :]).mean() > 0.2, "the sentence behind it is missing"


@BOTH
@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("Thank you.", "en"),
        ("Thank you", "en"),
        ("Thank you!", "en"),
        ("I need milk, eggs, flour, sugar, salt, butter, rice, beans, tea and…", "en"),
        ("我买了苹果、香蕉、橙子、葡萄、西瓜、草莓、桃子、梨、樱桃和…", "zh"),
    ],
)
async def test_nothing_sounds_behind_the_last_word(engine: Engine, mode: Mode, text: str, lang: Language) -> None:
    samples = await speak(engine, text, mode, lang)
    sounding = np.flatnonzero(sound(samples))
    assert len(samples) - (sounding[-1] + 1) * WINDOW >= 0.05 * RATE, "the sentence ends in sound"
    assert behind_a_stop(sounding) is None


def behind_a_stop(sounding: NDArray[np.int_]) -> str | None:
    """What is wrong with the last sound, if it is a short one after a silence. A final t, d or k is that, too: its
    closure lasted 10 to 80 ms and its release 30 to 90 ms at the ends of 168 sentences."""
    breaks = np.flatnonzero(np.diff(sounding) > 1)
    if not len(breaks):
        return None
    before, after = sounding[breaks[-1]], sounding[breaks[-1] + 1]
    silence_s, sound_s = (after - before - 1) * WINDOW / RATE, (sounding[-1] - after + 1) * WINDOW / RATE
    fine = silence_s <= 0.1 or sound_s > 0.15
    return None if fine else f"{sound_s:.2f} s of sound {silence_s:.2f} s behind the last word"


async def test_no_sentence_has_a_sound_behind_its_last_word(engine: Engine) -> None:
    found = []
    for sentence in [line for line in SENTENCES if len(line.split()) > 4][20:40]:
        fault = behind_a_stop(np.flatnonzero(sound(await speak(engine, sentence))))
        if fault is not None:
            found.append((sentence, fault))
    assert not found


async def test_streaming_stretches_no_word_and_tears_none(engine: Engine) -> None:
    whole, streamed = [
        await speak(engine, "我们正在研究多模态人机交互", mode, "zh") for mode in (Mode.SENTENCE, Mode.INTERLEAVED)
    ]
    assert 0.67 < len(streamed) / len(whole) < 1.5
    assert longest_pause_s(streamed) < 0.2
    assert longest_pause_s(whole) < 0.2


@BOTH
async def test_the_prompt_of_a_voice_is_never_heard(engine: Engine, mode: Mode) -> None:
    text = {"en": "Breakfast is served until ten.", "zh": "早餐供应到十点。"}
    for name, voice in load().voices.items():
        samples = await speak(engine, text[voice.language], mode, voice.language, name)
        # A soft onset, as that of a b, rises from silence for a while; a word would fit into no more than 0.15 s.
        assert int(np.flatnonzero(sound(samples))[0]) * WINDOW / RATE <= 0.15, name
        heard = await hear(samples, voice.language)
        if voice.language == "en":
            foreign = set(words(voice.transcript)) - set(words(text["en"]))
            assert words(heard)[0] == "breakfast", (name, heard)
            assert len(foreign & set(words(heard))) <= 1, (name, heard)
        else:
            assert heard.lstrip()[:1] == "早", (name, heard)


async def test_no_last_word_is_lost(engine: Engine) -> None:
    lost = []
    for sentence in [line for line in SENTENCES if len(line.split()) > 4][:20]:
        heard = words(await hear(await speak(engine, sentence)))
        if words(sentence)[-1] not in heard[-2:]:
            lost.append((sentence, heard))
    # The recogniser and the voice are small: one word may be heard as another.
    assert len(lost) <= 2, lost


async def test_a_text_of_300_words_is_said_to_its_end(engine: Engine) -> None:
    text = " ".join(" ".join(SENTENCES).split()[:300])
    samples = await speak(engine, text)
    heard: list[str] = []
    start = 0
    while start < len(samples):
        # Pieces of about 20 s, cut where it is quiet for longest, since the recogniser takes 30 s at most.
        piece = samples[start : start + 24 * RATE]
        if start + len(piece) < len(samples):
            tail = np.convolve(~sound(piece[16 * RATE :]), np.ones(15), "same")
            piece = piece[: 16 * RATE + int(tail.argmax()) * WINDOW]
        heard += words(await hear(piece))
        start += len(piece)
    missing = list(words(text))
    for word in heard:
        if word in missing:
            missing.remove(word)
    coverage = 1 - len(missing) / len(words(text))
    print(f"coverage {coverage:.3f}, {len(samples) / RATE:.1f} s, not heard: {' '.join(missing)}")
    # Five seeds gave 0.950 to 0.967. What is missing is misheard or slurred here and there: no sentence is cut.
    assert coverage >= 0.93, missing
    assert words(text)[-1] in heard[-3:], heard[-10:]
