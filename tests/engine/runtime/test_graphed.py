"""The engine over the runners for a GPU, which run on a CPU as well, against the engine over those for a CPU."""

import asyncio
import math
from functools import partial

import numpy as np
import pytest

from oscine_engine.checkpoint import draft
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.events import Audio, Mode, SessionRequest
from oscine_engine.lm.acceptance import SUPPOSED
from oscine_engine.lm.drafter import PackedDraft
from oscine_engine.port import StreamOptions
from oscine_engine.runtime import measure
from oscine_engine.runtime.device import Device
from oscine_engine.runtime.pages import PagePool
from oscine_engine.runtime.trace import Said, Trace
from oscine_engine.scheduler.guesses import GuessCosts, ids_a_step
from tests.engine.runtime.rig import COSTS, whole, words

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
    monkeypatch.setattr("oscine_engine.engine.Device", partial(Device, graphed=True))
    slotted, same = await everything(checkpoint)
    assert same == ids
    for wave, other in zip(waves, slotted, strict=True):
        assert wave.shape == other.shape
        np.testing.assert_allclose(other, wave, atol=2e-2, rtol=0)


async def test_guesses_change_how_many_steps_it_takes_and_nothing_else(checkpoint: Checkpoint) -> None:
    """The draft network has random weights: what little it hits is said sooner."""
    plain = await rigged(checkpoint)
    guessed = await rigged(checkpoint, drafter=partial(random_draft, checkpoint))
    assert guessed == plain


async def test_the_loop_learns_how_often_guesses_come_true(checkpoint: Checkpoint) -> None:
    device = Device(
        checkpoint,
        SETTINGS,
        graphed=True,
        drafter=partial(random_draft, checkpoint),
        forced_acceptance=2.5,
        warmed=True,
        costs=COSTS.guessing(GuessCosts(((0, COSTS.lm), (7, COSTS.lm)), (SUPPOSED,) * 7)),
    )
    device.read_prompts()
    core = device.make_core()
    guesses = core.costs.guesses
    assert guesses is not None and guesses.chances == core.stages.lm.chances != (SUPPOSED,) * 7
    assert ids_a_step(7, guesses.chances) == pytest.approx(2.5, rel=0.2)
    assert core.costs.lm(1) / core.costs.an_id(1) == pytest.approx(ids_a_step(7, guesses.chances))


def test_steps_are_measured_with_every_number_of_guesses(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is; what texts cost is not asked here.
    monkeypatch.setattr(measure, "STEPPED_BUDGET_S", 100.0)
    monkeypatch.setattr(measure, "STEPPED_READ_ROWS", (32,))
    device = Device(checkpoint, SETTINGS, graphed=True, drafter=partial(random_draft, checkpoint), warmed=False)
    device.read_prompts()
    guesses = device.make_core().costs.guesses
    assert guesses is not None and [number for number, _ in guesses.curves] == [0, 3, 7]
    assert all({1, 2, 4} <= {rows for rows, _ in curve.points} for _, curve in guesses.curves)


def random_draft(checkpoint: Checkpoint, pool: PagePool) -> PackedDraft:
    network = draft.random(checkpoint.config.lm, seed=0)
    return PackedDraft(network, checkpoint.lm, pool, checkpoint.config.sampling, max_streams=4)


async def rigged(checkpoint: Checkpoint, **options: object) -> dict[int, tuple[int, ...]]:
    """Speech ids of four sentences said side by side."""
    ids: dict[int, tuple[int, ...]] = {}

    def watch(event: Trace) -> None:
        if isinstance(event, Said):
            ids[event.seed] = event.ids

    device = Device(checkpoint, SETTINGS, graphed=True, observe=watch, costs=COSTS, **options)  # type: ignore[arg-type]
    device.read_prompts()
    core = device.make_core()
    voice = next(iter(device.voices))
    ready = device.book.get(voice)
    streams = [core.admit(StreamOptions(voice, seed, False), lambda _: None, ready) for seed in range(4)]
    for place, stream in enumerate(streams):
        core.speak(stream, whole(words(4 + place)), end=True)
    while core.turn():
        for stream in streams:
            core.taken(stream, stream.listener.sent - stream.listener.taken)
    assert core.streams == []
    return ids
