"""What ticks cost: curves, measurements, correction, storage."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_engine.scheduler.costs import CORRECTION, TABLED, CostError, CostModel, Curve
from oscine_engine.scheduler.views import Stage
from tests.engine.scheduler.loads import COSTS, flat

points = st.lists(st.tuples(st.integers(1, 700), st.floats(1e-5, 1.0)), min_size=1, max_size=8)


def test_a_curve_is_straight_between_points_and_goes_on_after_the_last() -> None:
    curve = Curve(((2, 1.0), (4, 3.0)))
    assert [curve(rows) for rows in (0, 1, 2, 3, 4, 5)] == [0.0, 1.0, 1.0, 2.0, 3.0, 4.0]
    assert curve(2.5) == pytest.approx(1.5)
    assert curve(10 * TABLED) == pytest.approx(3.0 + (10 * TABLED - 4))


def test_a_stepped_curve_costs_the_next_point() -> None:
    curve = Curve(((1, 1.0), (4, 2.0), (8, 5.0)), stepped=True)
    assert [curve(rows) for rows in (1, 2, 4, 5, 8)] == [1.0, 2.0, 2.0, 5.0, 5.0]


def test_one_point_is_taken_as_a_price_for_each_row() -> None:
    assert Curve(((4, 1.0),))(8) == 2.0


@given(points)
def test_measured_curves_never_fall(measured: list[tuple[int, float]]) -> None:
    curve = Curve.through(measured)
    costs = [curve(rows) for rows in (*range(1, TABLED + 3), 600, 700, 800, 10_000)]
    assert costs == sorted(costs)
    assert all(cost > 0 for cost in costs)


@given(points, st.booleans(), st.randoms())
def test_the_order_of_measurements_does_not_matter(
    measured: list[tuple[int, float]], stepped: bool, shuffled: random.Random
) -> None:
    again = list(measured)
    shuffled.shuffle(again)
    one, other = Curve.through(measured, stepped=stepped), Curve.through(again, stepped=stepped)
    for (rows, seconds), (same_rows, same_seconds) in zip(one.points, other.points, strict=True):
        assert rows == same_rows and seconds == pytest.approx(same_seconds)


@pytest.mark.parametrize(
    "points", [(), ((0, 1.0),), ((1, 0.0),), ((1, float("inf")),), ((2, 1.0), (1, 2.0)), ((1, 2.0), (2, 1.0))]
)
def test_impossible_points_are_refused(points: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(CostError):
        Curve(points)


def test_the_cost_of_context_is_found_among_points_of_equal_rows() -> None:
    def tick(rows: int, frames: int) -> tuple[int, int, float]:
        return rows, frames, 1e-3 + 1e-4 * rows + 50e-9 * frames

    flow = [tick(rows, frames) for rows in (1, 8) for frames in (0, 5_000, 20_000)]
    costs = CostModel.measured([(1, 1e-3)], flow, [(1, 1e-3)])
    assert costs.context_s == pytest.approx(50e-9)
    for rows, frames, seconds in flow:
        assert costs.tick_s(Stage.FLOW, rows, frames) == pytest.approx(seconds)
    # Context is of the flow only.
    assert costs.tick_s(Stage.LM, 1, 20_000) == pytest.approx(1e-3)


def test_noise_that_makes_context_a_gain_counts_as_free() -> None:
    costs = CostModel.measured([(1, 1e-3)], [(1, 0, 2e-3), (1, 1000, 1e-3)], [(1, 1e-3)])
    assert costs.context_s == 0.0
    assert costs.tick_s(Stage.FLOW, 1) == pytest.approx(1.5e-3)


@given(st.sampled_from(list(Stage)), st.floats(0.5, 4.0), st.integers(1, 40))
def test_the_correction_finds_what_ticks_take(stage: Stage, factor: float, rows: int) -> None:
    costs = COSTS
    for _ in range(400):
        costs = costs.observed(stage, rows, 100, factor * COSTS.tick_s(stage, rows, 100))
    assert costs.correction[stage] == pytest.approx(factor, rel=0.02)
    others = [each for each in Stage if each is not stage]
    assert all(costs.correction[each] == 1.0 for each in others)


def test_stray_ticks_hardly_move_it() -> None:
    """One tick in twenty a hundred times too long: still within a few parts in a hundred of the truth."""
    costs = COSTS
    for turn in range(1000):
        stray = 100.0 if turn % 20 == 0 else 1.0
        costs = costs.observed(Stage.LM, 8, 0, stray * COSTS.tick_s(Stage.LM, 8))
    assert costs.correction[Stage.LM] == pytest.approx(1.0, abs=0.05)


def test_noise_leaves_it_at_the_middle() -> None:
    rng, costs = random.Random(1), COSTS
    for _ in range(2000):
        costs = costs.observed(Stage.FLOW, 8, 0, rng.uniform(0.8, 1.3) * COSTS.tick_s(Stage.FLOW, 8))
    assert costs.correction[Stage.FLOW] == pytest.approx(1.05, abs=0.08)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=60))
def test_it_stays_within_bounds_whatever_is_observed(took: list[float]) -> None:
    costs = COSTS
    for seconds in took:
        costs = costs.observed(Stage.VOCODER, 2, 0, seconds)
    assert CORRECTION[0] <= costs.correction[Stage.VOCODER] <= CORRECTION[1]


def test_a_tick_of_nobody_teaches_nothing() -> None:
    assert COSTS.observed(Stage.LM, 0, 0, 1.0) is COSTS


def test_a_stored_model_comes_back_equal() -> None:
    costs = COSTS.observed(Stage.FLOW, 8, 100, 5e-3)
    assert CostModel.from_json(json.loads(json.dumps(costs.to_json()))) == costs
    stepped = CostModel(Curve(((1, 1.0), (2, 2.0)), stepped=True), costs.flow, costs.vocoder)
    assert CostModel.from_json(json.loads(json.dumps(stepped.to_json()))) == stepped


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.pop("lm"),
        lambda data: data["flow"].update(points=[[1, "x"]]),
        lambda data: data["vocoder"].update(points=[]),
        lambda data: data.update(correction=[1.0, 1.0]),
        lambda data: data.update(correction=[1.0, 1.0, 1e9]),
        lambda data: data.update(context_s=-1.0),
        lambda data: data.update(context_s=None),
    ],
)
def test_a_spoilt_one_is_refused(spoil: object) -> None:
    data = flat(1.0, 1.0, 1.0).to_json()
    assert callable(spoil)
    spoil(data)
    with pytest.raises(CostError):
        CostModel.from_json(data)
