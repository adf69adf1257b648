"""How chunks are timed and compared, on times that are known."""

import pytest
import torch

from bench.growth import Chunk, FlowShape, Watch, compared, growing, passed, places
from oscine_engine.lm.interleave import Prompt
from oscine_engine.runtime.trace import Said, Solved, Ticked
from oscine_engine.scheduler.views import Stage


def tick(stage: Stage, cpu_s: float) -> Ticked:
    return Ticked(stage, (1,), 0.0, 9.0, cpu_s)


def solved(segment: int, frames: int = 50) -> Solved:
    return Solved(1, segment, torch.zeros(frames, 80))


def test_a_chunk_gets_its_own_steps_and_its_own_vocoder_tick() -> None:
    watch = Watch()
    for event in (
        tick(Stage.LM, 7.0),
        tick(Stage.FLOW, 1.0),
        tick(Stage.FLOW, 2.0),
        solved(0),
        tick(Stage.FLOW, 4.0),
        tick(Stage.VOCODER, 0.5),
        solved(0, 20),
        tick(Stage.VOCODER, 0.25),
        Said(1, 0, (), Prompt(), (), False, ((0, 1),)),
        tick(Stage.VOCODER, 8.0),
    ):
        watch(event)
    assert watch.chunks == [Chunk(0, 50, 3.0, 0.5), Chunk(0, 20, 4.0, 0.25)]


def session(slow: float, noise: float = 0.0) -> list[Chunk]:
    """Two segments of three chunks, the second `slow` times the first."""
    made = []
    for segment, factor in enumerate((1.0, slow)):
        made += [Chunk(segment, frames, factor * (at + 1) + noise, factor) for at, frames in enumerate((20, 50, 50, 7))]
    return made


def test_segments_are_compared_place_by_place_and_by_medians() -> None:
    sessions = [session(1.5), session(1.5, noise=30.0), session(1.5)]
    assert places(sessions, 0) == {0: (20, 1.0, 1.0), 1: (50, 2.0, 1.0), 2: (50, 3.0, 1.0)}
    result = compared(sessions, 1)
    assert (result["segment_ratio"], result["flow_ratio"], result["vocoder_ratio"]) == (1.5, 1.5, 1.5)
    assert (result["chunks"], result["sessions"]) == (3, 3)
    assert result["chunk_ms"] == {"flow": 2000.0, "vocoder": 1000.0}


def test_only_places_that_every_session_has_are_compared() -> None:
    short = [chunk for chunk in session(1.0) if chunk.segment == 0 or chunk.frames != 50]
    assert compared([session(1.0), short], 1)["chunks"] == 1
    with pytest.raises(ValueError, match="too short"):
        compared([[Chunk(0, 20, 1.0, 1.0), Chunk(1, 20, 1.0, 1.0)]], 1)


def test_memory_grows_from_the_second_minute_on() -> None:
    mib = 1 << 20
    result = growing([50 * mib, 100 * mib, 102 * mib, 104 * mib])
    assert (result["rss_growth"], result["rss_mib_per_minute"], result["speech_minutes"]) == (0.04, 2.0, 4)
    assert growing([mib])["rss_growth"] is None


def test_what_must_not_grow() -> None:
    assert passed({"segment_ratio": 1.05, "rss_growth": 0.02})
    assert passed({"segment_ratio": 0.9, "rss_growth": None})
    assert not passed({"segment_ratio": 1.06, "rss_growth": 0.0})
    assert not passed({"segment_ratio": 1.0, "rss_growth": 0.03})


def test_bytes_that_a_chunk_reads() -> None:
    # 10 steps of 3 layers; keys and values, two guidance rows, float32
    assert FlowShape(50, 4, 64, 30).kv_bytes(100) == 30 * 2 * 2 * 4 * 64 * 100
