"""The engine over the runners for a GPU, which run on a CPU as well, against the engine over those for a CPU."""

import asyncio
import math
from functools import partial

import numpy as np
import pytest

from oscine_engine import engine as engines
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.events import Audio, Mode, SessionRequest
from oscine_engine.runtime.trace import Said, Trace

TEXTS = (
    "Good evening to you all.",
    "One, two, three and four make ten.",
    "No.",
    "It rained on the plain all day long.",
)
SETTINGS = EngineSettings(max_streams=4, utilisation=math.inf)


async def speak(engine: Engine, text: str, mode: Mode, seed: int) -> np.ndarray:
    async with await engine.open(SessionRequest(mode=mode, seed=seed)) as session:
        for word in text.split(" "):
            await session.append(word + " ")
            await asyncio.sleep(0)
        await session.finish()
        heard = [event.samples async for event in session if isinstance(event, Audio)]
    return np.concatenate(heard)


async def everything(checkpoint: Checkpoint) -> tuple[list[np.ndarray], dict[int, list[tuple[int, ...]]]]:
    ids: dict[int, list[tuple[int, ...]]] = {}

    def watch(event: Trace) -> None:
        if isinstance(event, Said):
            ids.setdefault(event.seed, []).append(event.ids)

    async with Engine(checkpoint, SETTINGS, watch) as engine:
        modes = (Mode.SENTENCE, Mode.INTERLEAVED, Mode.AUTO, Mode.INTERLEAVED)
        talks = [speak(engine, text, mode, seed) for seed, (text, mode) in enumerate(zip(TEXTS, modes, strict=True))]
        waves = await asyncio.gather(*talks)
        assert engine.load_now == (0, 0)
    return waves, ids


async def test_the_same_ids_and_the_same_sound(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    waves, ids = await everything(checkpoint)
    monkeypatch.setattr(engines, "Device", partial(engines.Device, graphed=True))
    slotted, same = await everything(checkpoint)
    assert same == ids
    for wave, other in zip(waves, slotted, strict=True):
        assert wave.shape == other.shape
        np.testing.assert_allclose(other, wave, atol=2e-2, rtol=0)
