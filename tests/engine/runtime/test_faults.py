"""One bad stream among four, at every stage and in every way: it ends alone, and the others never notice."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import Cancelled
from oscine_engine.planner import Begin, End, Ids
from oscine_engine.runtime.stream import Stream
from oscine_engine.runtime.trace import Said
from tests.engine.runtime.rig import SAME, Rig, words

TEXTS = [words(9), words(11, 110), words(8, 120), words(12, 130)]
Poison = Callable[[Rig, Stream], bool]
"""Spoils a stream if it is where it can be; tells whether it was."""


def lm_that_raises(_: Rig, stream: Stream) -> bool:
    """An id beyond the table of embeddings."""
    machine = stream.lane.segments[0].lm.machine
    if machine.said < 3:
        return False
    machine._pending[-1] = machine._pending[-1]._replace(id=10**6)
    return True


def lm_of_nan(rig: Rig, stream: Stream) -> bool:
    """Its past is not a number."""
    lm = stream.lane.segments[0].lm
    if len(lm.tokens) < 3:
        return False
    rig.device.lm.pool.data[lm.pages] = torch.nan
    return True


def flow_that_raises(_: Rig, stream: Stream) -> bool:
    """A chunk of another shape."""
    flow = stream.lane.segments[0].flow
    if flow is None or flow.chunk is None or flow.chunk.work is None or flow.chunk.step != 4:
        return False
    flow.chunk.work.x = flow.chunk.work.x[:, :7]
    return True


def flow_of_nan(_: Rig, stream: Stream) -> bool:
    flow = stream.lane.segments[0].flow
    if flow is None or flow.chunk is None or flow.chunk.work is None or flow.chunk.step != 4:
        return False
    flow.chunk.work.x[3, 5] = torch.nan
    return True


def flow_of_nan_pages(rig: Rig, stream: Stream) -> bool:
    """The page of its own finished chunk is not a number; it goes back to the pool so."""
    flow = stream.lane.segments[0].flow
    if flow is None or flow.chunk is None or stream.lane.segments[0].frames == 0:
        return False
    rig.device.flow.pool.data[flow.pages[-2]] = torch.nan
    return True


def flow_fed_wrongly(_: Rig, stream: Stream) -> bool:
    """A speech id the flow does not know."""
    segment = stream.lane.segments[0]
    if not segment.ids:
        return False
    segment.ids[-1] = 10**6
    return True


def vocoder_that_raises(_: Rig, stream: Stream) -> bool:
    """Mel of another shape."""
    segment = stream.lane.segments[0]
    if segment.mel is None:
        return False
    segment.mel = segment.mel[:, :7]
    return True


def vocoder_of_nan(_: Rig, stream: Stream) -> bool:
    segment = stream.lane.segments[0]
    if segment.mel is None:
        return False
    segment.mel[0, 0] = torch.nan
    return True


def vocoder_of_nan_memory(_: Rig, stream: Stream) -> bool:
    vocoder = stream.lane.segments[0].vocoder
    if vocoder.memory is None:
        return False
    vocoder.memory = torch.full_like(vocoder.memory, torch.nan)
    return True


POISONS = [
    lm_that_raises,
    lm_of_nan,
    flow_that_raises,
    flow_of_nan,
    flow_of_nan_pages,
    flow_fed_wrongly,
    vocoder_that_raises,
    vocoder_of_nan,
    vocoder_of_nan_memory,
]


@pytest.fixture(scope="module")
def alone(checkpoint: Checkpoint) -> list[np.ndarray]:
    rig = Rig(checkpoint)
    return [rig.heard(text, seed=seed) for seed, text in enumerate(TEXTS)]


@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: poison.__name__)
def test_a_bad_stream_in_a_batch_of_four_ends_alone(
    checkpoint: Checkpoint, alone: list[np.ndarray], poison: Poison
) -> None:
    rig = Rig(checkpoint)
    streams = [rig.open(seed) for seed in range(4)]
    for (stream, _), text in zip(streams, TEXTS, strict=True):
        rig.say(stream, text)
    bad, bad_ear = streams[2]
    while not bad.ended and not (bad.lane.segments and poison(rig, bad)):
        assert rig.turn(), "the poison was never given"
    before = len(rig.stages.ticks)
    while not bad.ended:
        assert rig.turn()
    assert max(rows for _, rows in rig.stages.ticks[before:]) > 1, "the bad one should have had company"
    rig.run()
    assert bad_ear.error.code in ("internal", "invalid_input")
    for place, (stream, ear) in enumerate(streams):
        if stream is not bad:
            assert ear.done
            assert ear.samples.size == alone[place].size
            np.testing.assert_allclose(ear.samples, alone[place], atol=SAME)
    rig.check_idle()
    # What the bad one left in the pages hurts nobody who gets them next.
    for place, text in enumerate(TEXTS):
        np.testing.assert_allclose(rig.heard(text, seed=place), alone[place], atol=SAME)


@pytest.mark.parametrize("stage", ["lm", "flow", "vocoder"])
def test_a_tick_that_fails_together_but_not_alone_costs_nobody_anything(
    checkpoint: Checkpoint, alone: list[np.ndarray], stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when memory is short: late in a tick of several, where most has been computed."""
    rig = Rig(checkpoint)
    failures = 0
    runner, inner = {
        "lm": (rig.device.lm.packed, "head"),
        "flow": (rig.device.flow._dit, "velocities"),
        "vocoder": (rig.device.vocoder, "finish"),
    }[stage]
    original = getattr(runner, inner)
    calls = 0

    def short(*args: object) -> object:
        nonlocal failures, calls
        calls += 1
        if calls in (5, 9) and len(rig.core.streams) > 1 and rig.stages.ticks[-1][1] > 1:
            failures += 1
            raise MemoryError("together it is too much")
        return original(*args)

    monkeypatch.setattr(runner, inner, short)
    streams = [rig.open(seed) for seed in range(4)]
    for (stream, _), text in zip(streams, TEXTS, strict=True):
        rig.say(stream, text)
    rig.run()
    assert failures
    for place, (_, ear) in enumerate(streams):
        assert ear.done
        np.testing.assert_allclose(ear.samples, alone[place], atol=SAME)
    rig.check_idle()


def test_text_beyond_a_streams_share_is_refused_at_once(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint)
    beside, beside_ear = rig.open(1)
    rig.say(beside, words(9))
    stream, ear = rig.open(2)
    rig.core.speak(stream, [Begin(whole=False)])
    for _ in range(40):
        rig.core.speak(stream, [Ids(tuple(words(50)))])
    assert ear.error.code == "invalid_input" and "longer" in ear.error.message
    rig.core.speak(stream, [End()], end=True)
    rig.run()
    assert beside_ear.done
    rig.check_idle()


def test_two_hundred_streams_cancelled_as_they_start_change_nothing_for_a_long_one(checkpoint: Checkpoint) -> None:
    """They share language model steps with it and no more, which decide ids and nothing else: bit for bit the same."""
    texts = [words(14, 100 + count) for count in range(12)]
    rig = Rig(checkpoint)
    undisturbed = rig.heard(*texts)
    stream, ear = rig.open()
    rig.say(stream, *texts)
    cancelled = 0
    while rig.turn():
        if cancelled < 200:
            other, other_ear = rig.open(seed=100 + cancelled)
            rig.say(other, words(9), end=False)
            for _ in range(cancelled % 6):
                rig.turn()
            rig.core.end(other, Cancelled("never mind"))
            assert isinstance(other_ear.error, Cancelled)
            assert len(rig.core.streams) <= 1
            cancelled += 1
    assert cancelled == 200 and ear.done
    np.testing.assert_array_equal(ear.samples, undisturbed)
    rig.check_idle()


@pytest.mark.slow
def test_pairs_of_streams_do_not_blend(checkpoint: Checkpoint) -> None:
    """Fifty pairs of disjoint texts: the ids each one says are those it says alone."""
    said: dict[int, tuple[int, ...]] = {}

    def observe(event: object) -> None:
        if isinstance(event, Said):
            said[event.seed] = event.ids

    rig = Rig(checkpoint, observe=observe)
    for pair in range(50):
        left, right = [100 + pair % 20] * 5, [130 + pair % 20] * 5
        alone = []
        for seed, text in ((1, left), (2, right)):
            rig.heard(text, seed=seed)
            alone.append(said[seed])
        streams = [rig.open(1), rig.open(2)]
        rig.say(streams[0][0], left)
        rig.say(streams[1][0], right)
        rig.run()
        assert [said[1], said[2]] == alone
        assert alone[0] != alone[1]
    rig.check_idle()
