"""The benchmark of the doors: real servers, real sockets and real Opus, in front of a replay."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.transport.__main__ import DOORS, FRAME, door_figures, faults, lateness
from bench.transport.replay import RATE


@pytest.mark.parametrize("door", DOORS)
def test_every_frame_of_every_stream_is_counted(door: str, tmp_path: Path) -> None:
    samples = tmp_path / "samples.npy"
    np.save(samples, 0.1 * np.random.default_rng(0).standard_normal(2 * RATE).astype(np.float32))
    told = door_figures(door, samples, streams=2, seconds=0.5)
    # 25 frames of speech each, and one that the encoder's delay adds.
    assert (told["frames"], told["lost"], told["failed"], told["left_open"]) == (52, 0, 0, 0), told
    assert told["lateness_ms"]["max"] >= 0 and told["first_ms"]["p50"] > 0


def test_lateness_is_against_each_frames_own_turn() -> None:
    early = [[10.0, 0, 2 * FRAME, 2]]
    late = [[10.05, 2 * FRAME, 2 * FRAME, 2]]
    assert [round(value, 3) for value in lateness(early + late, 10.0)] == [0.0, 0.0, 0.01, 0.0]


def test_what_misses_its_bar_is_named() -> None:
    good: dict[str, Any] = {"lost": 0, "failed": 0, "left_open": 0}
    good |= {"lateness_ms": {"p99": 19.9}, "alone_ms": {"p99": 2.9}}
    assert faults({"grpc": good, "websocket": good}) == []
    for change in (
        {"lost": 1},
        {"failed": 1},
        {"left_open": 1},
        {"lateness_ms": {"p99": 20.0}},
        {"alone_ms": {"p99": 3.0}},
        {"lateness_ms": {"p99": None}},
    ):
        (fault,) = faults({"websocket": good | change})
        assert fault.startswith("websocket: ")
