"""Loops are found and speech is not: the recordings fledgling was trained on never look like one, loops of them do."""

from pathlib import Path

import numpy as np
import pytest

from oscine_engine.guards.repetition import (
    CERTAIN_RUN,
    LONGEST_PERIOD,
    LOOKED_AT,
    SUSPECT_RUN,
    Loop,
    echo,
    looping,
)

RECORDED = Path(__file__).parents[3] / "training" / "continue" / "tokens.npz"


@pytest.fixture(scope="module")
def recorded() -> list[int]:
    """The ids of all clips, end to end."""
    ids: list[int] = np.load(RECORDED)["tokens"].tolist()
    return ids


def first(ids: list[int], wanted: Loop) -> int | None:
    """How many ids were said when `wanted` was first reached."""
    return next((n for n in range(1, len(ids) + 1) if looping(ids[max(0, n - LOOKED_AT) : n]) >= wanted), None)


def test_no_recording_is_even_suspected(recorded: list[int]) -> None:
    every_third = recorded[: len(recorded) // 3]
    assert len(every_third) > 180_000
    assert first(every_third, Loop.SUSPECTED) is None


@pytest.mark.parametrize("period", [1, 2, 5, 12, 25, 49, 50])
def test_speech_that_goes_round_is_certain_within_a_second_of_its_return(recorded: list[int], period: int) -> None:
    for start in range(2000, 40_000, 1900):
        said = recorded[start - 200 : start] + recorded[start : start + period] * 60
        suspected, certain = first(said, Loop.SUSPECTED), first(said, Loop.CERTAIN)
        assert suspected is not None and certain is not None
        # Two different ids may also happen to continue the loop backwards by a few.
        assert 200 + period + SUSPECT_RUN - 4 <= suspected <= 200 + period + SUSPECT_RUN
        assert certain - suspected == CERTAIN_RUN - SUSPECT_RUN


def test_a_drone_that_wanders_among_few_ids_is_found(recorded: list[int]) -> None:
    rng = np.random.default_rng(0)
    for size in (3, 6, 10):
        drone = rng.choice(rng.choice(2187, size, replace=False), 80).tolist()
        certain = first(recorded[:100] + drone, Loop.CERTAIN)
        assert certain is not None
        assert certain <= 100 + 51


def test_a_loop_that_was_left_is_forgotten(recorded: list[int]) -> None:
    said = recorded[:50] + [7, 9] * 20
    assert looping(said) is Loop.CERTAIN
    assert looping([*said, *recorded[60:85]]) is Loop.NONE


def test_a_period_beyond_two_seconds_is_no_loop(recorded: list[int]) -> None:
    assert first(recorded[300 : 301 + LONGEST_PERIOD] * 3, Loop.SUSPECTED) is None


@pytest.mark.parametrize("count", range(14))
def test_the_beginning_is_never_suspected(count: int) -> None:
    expected = Loop.SUSPECTED if count > SUSPECT_RUN else Loop.NONE
    assert looping([5] * count) is expected


def test_what_came_before_makes_no_difference(recorded: list[int]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        ids = rng.integers(0, 6, LOOKED_AT).tolist()
        assert looping(ids) is looping(recorded[:77] + ids)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", 0),
        ("x", 0),
        ("the nearest exit is behind you", 0),
        ("hello, that is all", 0),
        ("no no no no no", 11),
        ("well, haha, then", 0),
        ("well, hahaha, then", 4),
        ("aaaaaaaaaa", 9),
        ("go on, go on, go on, then stop", 14),
        ("one, two, one, two, three", 10),
    ],
)
def test_how_much_of_a_text_repeats_what_is_before_it(text: str, wanted: int) -> None:
    assert echo([ord(c) for c in text]) == wanted
