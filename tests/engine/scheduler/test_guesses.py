"""How many guesses pay: by tables of costs, and by what has come true of late."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_engine.lm.acceptance import STEPS, SUPPOSED, Acceptance
from oscine_engine.scheduler.costs import CostError, CostModel, Curve, GuessCosts
from oscine_engine.scheduler.guesses import ids_a_step, most_ids
from oscine_engine.scheduler.policy import pick
from oscine_engine.scheduler.views import Stage, StreamView
from tests.engine.scheduler.loads import COSTS

MEASURED = {
    0: Curve(((1, 0.89e-3), (8, 1.01e-3), (32, 1.16e-3), (64, 1.21e-3)), stepped=True),
    3: Curve(((1, 1.30e-3), (8, 1.49e-3), (32, 1.77e-3), (64, 2.06e-3)), stepped=True),
    7: Curve(((1, 1.51e-3), (8, 1.77e-3), (32, 2.21e-3), (64, 2.67e-3)), stepped=True),
}
"""One H200 with a draft of the published shape, measured."""


def evenly(mean: float, count: int = 7) -> tuple[float, ...]:
    """The same chance for all guesses, with which a step that checks all says `mean` ids."""
    chances = np.linspace(0, 1, 2001)
    means = [ids_a_step(count, (chance,) * count) for chance in chances]
    return (float(np.interp(mean, means, chances)),) * count


@pytest.mark.parametrize(
    ("mean", "streams", "wanted"),
    [
        (2.98, 1, 7),
        (2.98, 8, 7),
        (2.98, 64, 3),
        (1.9, 1, 3),
        (1.9, 8, 3),
        (1.5, 64, 0),
        (1.2, 1, 0),
        (8.0, 64, 7),
        (1.0, 8, 0),
    ],
)
def test_the_choice_follows_the_tables(mean: float, streams: int, wanted: int) -> None:
    costs = GuessCosts(tuple(MEASURED.items()), evenly(mean))
    assert costs.best(streams) == wanted
    rates = {guesses: ids_a_step(guesses, evenly(mean)) / curve(streams) for guesses, curve in MEASURED.items()}
    assert rates[wanted] == max(rates.values())


def test_ids_of_a_step() -> None:
    assert ids_a_step(0, ()) == 1.0
    assert ids_a_step(3, (0.5, 0.5, 1.0, 1.0)) == pytest.approx(1 + 0.5 + 0.25 + 0.25)


curves = st.tuples(st.floats(1e-4, 1e-2), st.floats(1.0, 4.0), st.floats(1.0, 4.0))


@given(curves, st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7), st.integers(1, 100))
def test_no_other_number_says_more(shape: tuple[float, float, float], chances: list[float], streams: int) -> None:
    first, dearer, rise = shape
    tables = [
        (guesses, Curve(((1, first * dearer ** (guesses / 7)), (64, first * dearer ** (guesses / 7) * rise))))
        for guesses in (0, 1, 3, 7)
    ]
    costs = GuessCosts(tuple(tables), tuple(chances))
    best = costs.best(streams)
    rates = {guesses: ids_a_step(guesses, chances) / curve(streams) for guesses, curve in tables}
    assert rates[best] >= max(rates.values()) * (1 - 1e-9)
    assert costs.an_id(streams) >= (1 - 1e-9) / rates[best] or streams not in (1, 64)
    if streams in (1, 64):
        assert costs.an_id(streams) == pytest.approx(1 / rates[best])
        assert costs.step(streams) >= costs.seconds(streams, best) * (1 - 1e-9)


def test_the_fewest_of_equals() -> None:
    assert most_ids([(7, 2.0), (0, 1.0), (3, 2.0)], (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)) == 0


@pytest.mark.parametrize(
    ("numbers", "chances"),
    [((), ()), ((3, 7), (0.5,) * 7), ((0, 7, 3), (0.5,) * 7), ((0, 7), (0.5,) * 6), ((0,), (2.0,))],
)
def test_impossible_guesses_are_refused(numbers: tuple[int, ...], chances: tuple[float, ...]) -> None:
    with pytest.raises(CostError):
        GuessCosts(tuple((number, COSTS.lm) for number in numbers), chances)


def test_a_model_that_guesses_is_stored_and_read() -> None:
    costs = COSTS.guessing(GuessCosts(tuple(MEASURED.items()), evenly(2.5)))
    assert CostModel.from_json(json.loads(json.dumps(costs.to_json()))) == costs
    assert costs.best_guesses(64) == 3 and COSTS.best_guesses(64) is None


def test_a_step_is_judged_by_the_guesses_it_had() -> None:
    costs = COSTS.guessing(GuessCosts(tuple(MEASURED.items()), evenly(2.98)))
    for guesses, curve in MEASURED.items():
        after = costs
        for _ in range(300):
            after = after.observed(Stage.LM, 64, 0, curve(64), guesses)
        assert after.correction[Stage.LM] == pytest.approx(1.0)
    changed = costs.with_chances(evenly(1.0))
    assert changed.best_guesses(64) == 0 and changed.lm(64) == MEASURED[0](64)


def test_what_guesses_save_is_time_for_others() -> None:
    """A listener's ids take less time with guesses, so a stranger may come first for longer."""
    listener = StreamView(0.0, 10.08, frozenset({Stage.LM}), ids_left=28, euler_left=10)
    stranger = StreamView(9.9, None, frozenset({Stage.FLOW}), euler_left=10)
    guessing = COSTS.guessing(GuessCosts(tuple(MEASURED.items()), evenly(8.0)))
    assert pick([listener, stranger], 10.0, COSTS) == (Stage.LM, (0,))
    assert pick([listener, stranger], 10.0, guessing) == (Stage.FLOW, (1,))


def tally(said: list[int], checked: int) -> np.ndarray:
    return np.array([(ids, checked) for ids in said], dtype=np.int64)


def told(acceptance: Acceptance, chance: float, guesses: int, streams: int, steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        right = (rng.random((streams, guesses)) < chance).cumprod(1).sum(1)
        acceptance.note(tally((right + 1).tolist(), guesses))


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("streams", [1, 32])
def test_chances_are_those_of_late(chance: float, streams: int) -> None:
    acceptance = Acceptance(3, 64)
    told(acceptance, 1 - chance, 3, streams, 2000, 1)
    told(acceptance, chance, 3, streams, 2000, 2)
    assert acceptance.chances[0] == pytest.approx(chance, abs=0.15 if streams == 1 else 0.05)
    assert acceptance.chances[1] == pytest.approx(chance, abs=0.3) or chance == 0.0


def test_ends_and_fewer_guesses_are_counted_as_what_they_are() -> None:
    """A step that ended said its ids all the same; a guess that was not checked is no false one."""
    acceptance = Acceptance(3, 4)
    for _ in range(40 * STEPS):
        acceptance.note(np.array([(-2, 1), (1, 0), (2, 1), (1, 1)]))
    assert acceptance.chances[0] == pytest.approx(2 / 3, abs=0.02)
    assert acceptance.chances[1:] == (SUPPOSED, SUPPOSED)


def test_chances_stay_the_same_object_until_they_change() -> None:
    acceptance = Acceptance(2, 4)
    before = acceptance.chances
    told(acceptance, 1.0, 2, 4, STEPS - 1, 0)
    assert acceptance.chances is before
    told(acceptance, 1.0, 2, 4, 1, 0)
    assert acceptance.chances is not before


def course(chances: list[float], streams: int, seed: int = 0) -> list[int]:
    """Guesses of each step, the truth being `chances` step by step."""
    rng = np.random.default_rng(seed)
    acceptance, chosen = Acceptance(7, 64), []
    costs = GuessCosts(tuple(MEASURED.items()), acceptance.chances)
    for chance in chances:
        if costs.chances is not acceptance.chances:
            costs = costs.with_chances(acceptance.chances)
        guesses = costs.best(streams)
        chosen.append(guesses)
        right = (rng.random((streams, guesses)) < chance).cumprod(1).sum(1)
        acceptance.note(tally((right + 1).tolist(), guesses))
    return chosen


@pytest.mark.parametrize("streams", [1, 64])
def test_bad_guesses_are_soon_left_and_seldom_tried(streams: int) -> None:
    chosen = course([0.02] * 6000, streams)
    assert 0 not in chosen[:STEPS] and chosen[1000] == 0
    tried = sum(guesses > 0 for guesses in chosen[1000:]) / 5000
    assert 0 < tried < (0.25 if streams == 1 else 0.05)


@pytest.mark.parametrize("streams", [1, 64])
def test_guesses_that_have_become_good_are_found_out(streams: int) -> None:
    chosen = course([0.02] * 2000 + [0.95] * 4000, streams)
    assert chosen[1500] == 0 or streams == 1
    assert min(chosen[5000:]) == 7
