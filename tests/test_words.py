"""Somebody else hears what was said: the first and the last word of every sentence are there."""

import asyncio

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.asr import Recogniser
from oscine_engine.engine import Engine
from oscine_engine.events import Audio, Mode, SessionRequest
from oscine_service.listening.scoring import words

pytestmark = pytest.mark.slow

SENTENCES = (
    "Please bring the blue folder to the meeting tomorrow.",
    "Dinner will be ready at seven in the evening.",
    "Nobody knew where the children had gone.",
    "Winter starts early in the mountains.",
)


async def speech(engine: Engine, text: str, mode: Mode) -> NDArray[np.float32]:
    async with await engine.open(SessionRequest(mode=mode, seed=0)) as session:
        await session.append(text)
        await session.finish()
        return np.concatenate([event.samples async for event in session if isinstance(event, Audio)])


@pytest.mark.parametrize("mode", [Mode.SENTENCE, Mode.INTERLEAVED])
async def test_first_and_last_words_are_heard(mode: Mode) -> None:
    recogniser = Recogniser("en")
    async with Engine.load() as engine:
        for sentence in SENTENCES:
            samples = await speech(engine, sentence, mode)
            heard = words(await asyncio.to_thread(recogniser.transcribe, samples, engine.sample_rate))
            said = words(sentence)
            assert said[0] in heard[:2], f"{sentence} was heard as {heard}"
            assert said[-1] in heard[-2:], f"{sentence} was heard as {heard}"
