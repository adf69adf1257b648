"""A pool that is smaller than what all streams could need: who waits, for whom, and that nobody waits for ever."""

import dataclasses
import math
import random

import numpy as np
import pytest

from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.config import TextRules
from oscine_engine.errors import Overloaded
from oscine_engine.events import Done
from oscine_engine.planner import Begin, End, Ids
from oscine_engine.runtime.device import DeviceLimits
from oscine_engine.runtime.stages import Stages
from tests.engine.runtime.rig import SAME, Rig, whole, words

STREAMS = 4
LONG, MEDIUM = 60, 26
"""Words; three speech ids each."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Small chunks, so that a pool has many pages."""
    rules = TextRules(min_token_text_ratio=3.0, max_token_text_ratio=3.0, front_end="phones")
    return load(synthetic.write(tmp_path_factory.mktemp("model"), dataclasses.replace(synthetic.TINY, text=rules)))


def crowded(checkpoint: Checkpoint, pages: int, streams: int = STREAMS) -> Rig:
    """All streams share `pages`."""
    rig = Rig(checkpoint, DeviceLimits(max_streams=streams, utilisation=math.inf, stream_bytes=0))
    assert rig.stages._shared >= pages, "the longest sentence fits"
    rig.stages._shared = pages
    return rig


def check(stages: Stages) -> None:
    """What holds between any two turns."""
    kept = stages._kept
    assert stages._promised == sum(segment.promised for segment in kept) <= stages._shared
    for segment, lane in kept.items():
        assert segment.flow is not None and stages._own_pages(lane, segment.flow) <= segment.promised


def turns(rig: Rig) -> int:
    """Turn until there is nothing to do. Returns the most sentences that had pages at once."""
    most = 0
    while rig.turn():
        check(rig.stages)
        most = max(most, len(rig.stages._kept))
    return most


def test_the_least_there_may_be_holds_the_longest_sentence(checkpoint: Checkpoint) -> None:
    rig = Rig(checkpoint, DeviceLimits(max_streams=STREAMS, utilisation=math.inf, stream_bytes=0))
    ample = Rig(checkpoint, DeviceLimits(max_streams=STREAMS, utilisation=math.inf))
    assert rig.stages._shared * STREAMS == ample.stages._shared


def test_sentences_wait_for_pages_and_sound_as_they_would_alone(checkpoint: Checkpoint) -> None:
    texts = [words(LONG), words(MEDIUM), words(LONG, 107), words(MEDIUM, 114)]
    alone = [Rig(checkpoint).heard(text, seed=seed) for seed, text in enumerate(texts)]
    rig = crowded(checkpoint, 9)
    streams = [rig.open(seed) for seed in range(STREAMS)]
    for (stream, _), text in zip(streams, texts, strict=True):
        rig.say(stream, text)
    assert turns(rig) < STREAMS
    for (_, ear), wave in zip(streams, alone, strict=True):
        assert ear.done and ear.samples.size == wave.size
        np.testing.assert_allclose(ear.samples, wave, atol=SAME)
    rig.check_idle()


def test_what_is_kept_falls_to_what_is_needed(checkpoint: Checkpoint) -> None:
    """A sentence whose ids are all known keeps no more than they take."""
    rig = crowded(checkpoint, 20)
    stream, _ = rig.open()
    rig.say(stream, words(MEDIUM), end=False)
    segment = stream.lane.segments[0]
    while not segment.complete:
        rig.turn()
    flow = segment.flow
    assert flow is not None
    assert segment.promised == -(-(stream.lane.voice.open_tokens + segment.given) // 25)


def test_nobody_overtakes_who_waits_for_many_pages(checkpoint: Checkpoint) -> None:
    """Short sentences come without end; the long one behind the first of them begins when that one is through."""
    rig = crowded(checkpoint, 9)
    short = [rig.open(seed) for seed in (1, 2)]
    for stream, _ in short:
        rig.say(stream, *[words(MEDIUM)] * 6, end=False)
    while not rig.stages._kept:
        rig.turn()
    long_stream, ear = rig.open(3)
    rig.say(long_stream, words(LONG))
    while not ear.over:
        assert rig.turn()
        check(rig.stages)
    assert ear.done
    assert all(stream.spoken < 6 for stream, _ in short)


def test_text_that_grows_waits_for_those_that_can_end(checkpoint: Checkpoint) -> None:
    """Two begin with little text; only one of them can be held when both have grown, so it goes first."""
    rig = crowded(checkpoint, 10)
    streams = [rig.open(seed) for seed in (1, 2)]
    for stream, _ in streams:
        rig.core.speak(stream, [Begin(whole=False), Ids(tuple(words(10)))])
    for _ in range(200):
        if not rig.turn():
            break
        check(rig.stages)
    assert len(rig.stages._kept) == 2
    for stream, _ in streams:
        rig.core.speak(stream, [Ids(tuple(words(LONG - 10))), End()], end=True)
    turns(rig)
    outcomes = [ear.events[-1][1] for _, ear in streams]
    assert isinstance(outcomes[0], Done) and isinstance(outcomes[1], Done | Overloaded)
    rig.check_idle()


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_somebody_always_gets_on(checkpoint: Checkpoint, seed: int) -> None:
    """Texts of any length, whole or in pieces, over few pages: all end, most of them well, and nothing is left."""
    draw = random.Random(seed)
    rig = crowded(checkpoint, draw.randint(9, 14))
    streams = [rig.open(number) for number in range(STREAMS)]
    left = {number: draw.randint(1, 3) for number in range(STREAMS)}
    open_text: dict[int, int] = {}
    while left or open_text:
        number = draw.choice([*left, *open_text])
        stream, ear = streams[number]
        if ear.over:
            left.pop(number, None)
            open_text.pop(number, None)
        elif number in open_text:
            if open_text[number] < LONG - 10 and draw.random() < 0.7:
                rig.core.speak(stream, [Ids(tuple(words(10)))])
                open_text[number] += 10
            else:
                del open_text[number]
                rig.core.speak(stream, [End()], end=number not in left)
        else:
            left[number] -= 1
            if not left[number]:
                del left[number]
            if draw.random() < 0.5:
                rig.core.speak(stream, whole(words(draw.randint(1, LONG))), end=number not in left)
            else:
                rig.core.speak(stream, [Begin(whole=False), Ids(tuple(words(5)))])
                open_text[number] = 5
        for _ in range(draw.randint(0, 30)):
            rig.turn()
            check(rig.stages)
    turns(rig)
    outcomes = [ear.events[-1][1] for _, ear in streams]
    assert all(isinstance(outcome, Done | Overloaded) for outcome in outcomes)
    assert any(isinstance(outcome, Done) for outcome in outcomes)
    rig.check_idle()
