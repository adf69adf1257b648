"""Arithmetic that several benchmarks share, and the listener they all have."""

import pytest

from bench.figures import line, ranks, resident
from bench.player import Gap, Player


def test_ranks_are_named_scaled_and_rounded() -> None:
    assert ranks([0.001, 0.0025, 0.2], 50, 100, scale=1000) == {"p50": 2.5, "max": 200.0}
    assert ranks([], 95) == {"p95": None}


def test_a_line_goes_through_its_points() -> None:
    assert line([1, 2, 4], [5.0, 7.0, 11.0]) == pytest.approx((3.0, 2.0))
    with pytest.raises(ValueError, match="two different"):
        line([1, 1], [2.0, 3.0])


def test_resident_memory_counts_what_is_held() -> None:
    resident()  # frees what earlier tests left to the collector
    before = resident()
    held = bytearray(64 << 20)
    held[::4096] = b"x" * len(held[::4096])
    assert resident() - before >= 60 << 20
    assert held[0]


def test_a_player_knows_when_it_ran_dry_and_how_far_it_is() -> None:
    player = Player(100)
    assert player.played(1.0) == 0
    assert player.take(10.0, 100) == 10.0
    assert (player.played(10.0), player.played(10.25), player.played(12.0)) == (0, 25, 100)
    assert player.take(10.5, 100) == 11.0
    assert not player.gaps
    assert player.take(12.5, 50) == 12.5
    assert player.gaps == [Gap(12.0, 0.5)]
    assert player.played(12.75) == 225
