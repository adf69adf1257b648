"""Who goes next, and with whom, on plain data."""

import pytest
from hypothesis import given

from oscine_engine.scheduler.costs import CostModel, Curve
from oscine_engine.scheduler.demand import Demand, tightest
from oscine_engine.scheduler.policy import Rules, pick
from oscine_engine.scheduler.views import Stage, StreamView, Tick
from tests.engine.scheduler.loads import COSTS, flat, views

NOW = 100.0
LM, FLOW, VOCODER = Stage


def view(
    *ready: Stage, arrived: float = NOW, dry_in: float | None = None, ids: int = 0, euler: int = 10, rows: int = 1
) -> StreamView:
    dry_at = None if dry_in is None else NOW + dry_in
    return StreamView(arrived, dry_at, frozenset(ready), ids_left=ids, euler_left=euler, lm_rows=rows)


def stage(*streams: StreamView, costs: CostModel = COSTS, rules: Rules | None = None) -> Stage | None:
    tick = pick(streams, NOW, costs, rules or Rules())
    return tick and tick.stage


def leads(*streams: StreamView, costs: CostModel = COSTS) -> int:
    tick = pick(streams, NOW, costs)
    assert tick is not None
    return tick.members[0]


def test_nothing_ready_is_no_tick() -> None:
    assert pick([], NOW, COSTS) is None
    assert pick([view(), view(dry_in=0.0)], NOW, COSTS) is None


def test_the_most_downstream_stage_of_a_stream_goes_first() -> None:
    assert stage(view(LM, VOCODER, FLOW)) is VOCODER


def test_a_listener_about_to_run_dry_goes_before_a_first_packet() -> None:
    assert pick([view(LM, arrived=NOW - 0.9, ids=13), view(FLOW, dry_in=0.02)], NOW, COSTS) == Tick(FLOW, (1,))


def test_a_first_packet_goes_before_a_listener_with_time() -> None:
    assert stage(view(FLOW, dry_in=3.0), view(LM, ids=13)) is LM


def test_what_is_due_is_told_by_the_work_and_not_by_a_fixed_reserve() -> None:
    """60 ms are plenty for the vocoder's 4, and not enough for 28 steps of the language model and a chunk."""
    first = view(LM, arrived=NOW - 0.5, ids=13)
    assert leads(first, view(VOCODER, dry_in=0.06)) == 0
    assert stage(view(FLOW, arrived=NOW - 0.5), view(LM, dry_in=0.06, ids=28)) is LM


def test_many_near_deadlines_are_due_where_each_alone_would_not_be() -> None:
    def crowd(count: int) -> list[StreamView]:
        return [view(LM, arrived=NOW - 0.5, ids=13), *(view(FLOW, dry_in=0.1) for _ in range(count))]

    assert stage(*crowd(1)) is LM
    assert stage(*crowd(30)) is FLOW


def test_slower_ticks_make_the_same_stream_due_earlier() -> None:
    streams = [view(LM, arrived=NOW - 0.5, ids=13), view(FLOW, dry_in=0.08)]
    slow = CostModel(COSTS.lm, COSTS.flow, COSTS.vocoder, COSTS.context_s, (1.0, 5.0, 1.0))
    assert stage(*streams) is LM
    assert stage(*streams, costs=slow) is FLOW


def test_first_packets_go_in_order_of_arrival() -> None:
    streams = [view(VOCODER, arrived=NOW - 0.1), view(FLOW, arrived=NOW - 0.2, euler=1)]
    assert stage(*streams) is FLOW
    assert stage(*reversed(streams)) is FLOW


def test_listeners_with_time_go_by_deadline() -> None:
    assert stage(view(FLOW, dry_in=5.0), view(VOCODER, dry_in=4.0)) is VOCODER


def test_a_stream_that_waits_for_text_holds_nobody_up() -> None:
    assert stage(view(dry_in=-1.0), view(LM, dry_in=2.0, ids=5)) is LM


def test_a_first_waits_for_one_that_is_almost_there() -> None:
    """Two steps of the language model cost less waiting than ten of the flow."""
    early, late = view(FLOW, arrived=NOW - 0.2), view(LM, arrived=NOW - 0.1, ids=2)
    assert pick([early, late], NOW, COSTS) == Tick(LM, (1,))
    assert pick([early, late], NOW, COSTS, Rules(gather=False)) == Tick(FLOW, (0,))


def test_a_first_does_not_wait_for_one_far_behind() -> None:
    assert stage(view(FLOW, arrived=NOW - 0.2), view(LM, arrived=NOW, ids=30)) is FLOW


def test_reading_a_long_prompt_counts_as_waiting() -> None:
    """One more step is cheap; one that reads 20,000 positions is not."""
    early = view(FLOW, arrived=NOW - 0.2)
    assert stage(early, view(LM, ids=1)) is LM
    assert stage(early, view(LM, ids=1, rows=20_000)) is FLOW


def test_listeners_fill_up_the_tick_of_a_first() -> None:
    streams = [view(FLOW, arrived=NOW - 0.1), *(view(FLOW, dry_in=3.0 + place) for place in range(100))]
    tick = pick(streams, NOW, COSTS, Rules(first_stretch=2.0))
    assert tick is not None
    # The nearest deadlines ride, as many as the stretch allows and one more would break it.
    assert tick.members == tuple(range(len(tick.members)))
    allowed = 2.0 * COSTS.tick_s(FLOW, 1)
    assert COSTS.tick_s(FLOW, len(tick.members)) <= allowed < COSTS.tick_s(FLOW, len(tick.members) + 1)


def test_a_first_that_would_cost_as_much_as_alone_does_not_ride() -> None:
    proportional = CostModel(*(Curve(((1, 0.01),)) for _ in Stage))
    streams = [view(FLOW, arrived=NOW - 0.2), view(FLOW, arrived=NOW - 0.1)]
    assert pick(streams, NOW, proportional) == Tick(FLOW, (0,))
    assert pick(streams, NOW, COSTS) == Tick(FLOW, (0, 1))


def test_ticks_ahead_of_need_stay_short() -> None:
    streams = [view(VOCODER, dry_in=5.0 + place) for place in range(64)]
    tick = pick(streams, NOW, COSTS, Rules(longest_tick_s=0.01))
    assert tick is not None and len(tick.members) > 1
    assert COSTS.tick_s(VOCODER, len(tick.members)) <= 0.01


def test_all_that_share_the_tightest_deadline_ride_together() -> None:
    pressed = [view(FLOW, dry_in=0.08 + 0.0001 * place) for place in range(20)]
    others = [view(FLOW, dry_in=8.0) for _ in range(200)]
    tick = pick([*others, *pressed], NOW, COSTS)
    assert tick is not None
    assert set(range(200, 220)) <= set(tick.members)
    assert COSTS.tick_s(FLOW, len(tick.members)) <= 1.25 * COSTS.tick_s(FLOW, 20)


def test_a_first_out_of_patience_is_due() -> None:
    """Listeners that are late for good cannot keep a first packet waiting for ever."""
    late = [view(LM, dry_in=-0.5, ids=28) for _ in range(5)]
    fresh, old = view(FLOW, arrived=NOW - 0.2), view(FLOW, arrived=NOW - 2.7)
    rules = Rules(gather=False, due_stretch=1.0)
    assert stage(*late, fresh, rules=rules) is LM
    assert stage(*late, old, rules=rules) is FLOW


def test_one_that_starved_is_a_first_again() -> None:
    """Its listener is silent: it waits for a first packet, from when its text came back."""
    assert leads(view(FLOW, arrived=NOW - 0.1, dry_in=None), view(VOCODER, dry_in=2.0)) == 0


@given(views())
def test_members_are_ready_and_named_once(streams: list[StreamView]) -> None:
    tick = pick(streams, NOW, COSTS)
    if not any(each.ready for each in streams):
        assert tick is None
        return
    # Work conserving: whoever could run, something does.
    assert tick is not None and tick.members
    assert len(set(tick.members)) == len(tick.members)
    assert all(tick.stage in streams[place].ready for place in tick.members)


@given(views())
def test_a_stream_with_nothing_ready_changes_nothing(streams: list[StreamView]) -> None:
    idle = [view(dry_in=-3.0), view()]
    assert pick([*streams, *idle], NOW, COSTS) == pick(streams, NOW, COSTS)


@given(views())
def test_the_opened_up_demand_is_the_demand(streams: list[StreamView]) -> None:
    listening = sorted((each for each in streams if each.dry_at is not None), key=lambda each: each.dry_at or 0.0)
    demand, expected = Demand(COSTS), [(float("inf"), 0)]
    for count, each in enumerate(listening, 1):
        demand.add(each)
        assert each.dry_at is not None
        expected.append((each.dry_at - NOW - 2.0 * demand.seconds, count))
    slack, pressed = tightest(listening, NOW, COSTS, 2.0)
    assert slack == pytest.approx(min(expected)[0], abs=1e-9)
    assert expected[pressed][0] == pytest.approx(slack, abs=1e-9)


def test_demand_of_one_stream_is_its_ticks() -> None:
    demand = Demand(flat(lm=1.0, flow=10.0, vocoder=100.0))
    demand.add(view(LM, ids=3, euler=10))
    assert demand.seconds == pytest.approx(3 + 100 + 100)


def test_demand_shares_ticks_and_adds_context() -> None:
    costs = CostModel(Curve(((1, 1.0),)), Curve(((1, 1.0), (2, 1.0))), Curve(((1, 1.0), (2, 1.0))), context_s=0.01)
    demand = Demand(costs)
    for euler in (4, 8):
        demand.add(StreamView(NOW, NOW, frozenset({FLOW}), euler_left=euler, context_frames=100))
    # Eight Euler ticks, one of the vocoder, and every frame of every step.
    assert demand.seconds == pytest.approx(8 + 1 + 0.01 * 100 * 12)
