"""Figures of the load benchmark."""

from bench.load import Cost, Silence, cancelled, passed
from oscine_engine.runtime.trace import Left, Ticked
from oscine_engine.scheduler.views import Stage


def test_a_cancel_may_wait_for_one_tick_and_a_little_more() -> None:
    assert not Silence(0.0, 0.0).late
    assert not Silence(0.069, 0.05).late
    assert Silence(0.071, 0.05).late
    figures = cancelled([Silence(0.01, 0.02), Silence(0.05, 0.02)], [0.02, 0.03])
    assert figures["silence_ms"] == {"p50": 10.0, "p95": 50.0, "max": 50.0}
    assert figures["tick_ms"]["max"] == 30.0
    assert (figures["count"], figures["late"]) == (2, 1)


def test_the_last_tick_of_each_stream_is_known() -> None:
    cost = Cost()
    cost(Ticked(Stage.LM, (1, 2), 10.0, 0.5, 0.4))
    cost(Ticked(Stage.FLOW, (2,), 11.0, 0.25, 0.2))
    cost(Left(1, 12.0))
    assert cost.ends == {1: (10.5, 0.5), 2: (11.25, 0.25)}
    assert (cost.busy_s, cost.ticks, cost.left) == (0.75, [0.5, 0.25], {1})


def test_a_load_passes_when_nobody_ran_dry_and_somebody_was_refused() -> None:
    good = {"underruns": {"count": 0}, "refusals": {"count": 1}, "cancels": {"late": 0}, "failed": []}
    assert passed(good)
    for bad in (
        {"underruns": {"count": 1}},
        {"refusals": {"count": 0}},
        {"cancels": {"late": 1}},
        {"failed": ["internal: no"]},
    ):
        assert not passed({**good, **bad})
