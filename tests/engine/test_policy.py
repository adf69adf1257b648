"""The scheduler's choice, on plain data."""

from oscine_engine.scheduler.policy import Stage, StreamView, pick

NOW = 100.0


def view(*ready: Stage, arrived: float = NOW, dry_in: float | None = None) -> StreamView:
    return StreamView(arrived, None if dry_in is None else NOW + dry_in, frozenset(ready))


def test_nothing_ready_is_no_stage() -> None:
    assert pick([], NOW) is None
    assert pick([view(), view(dry_in=0.0)], NOW) is None


def test_the_most_downstream_stage_of_a_stream_goes_first() -> None:
    assert pick([view(Stage.LM, Stage.VOCODER, Stage.FLOW)], NOW) is Stage.VOCODER


def test_a_listener_about_to_run_dry_goes_before_a_first_packet() -> None:
    assert pick([view(Stage.LM, arrived=NOW - 9), view(Stage.FLOW, dry_in=0.1)], NOW) is Stage.FLOW


def test_a_first_packet_goes_before_a_listener_with_time() -> None:
    assert pick([view(Stage.FLOW, dry_in=3.0), view(Stage.LM)], NOW) is Stage.LM


def test_first_packets_go_in_order_of_arrival() -> None:
    streams = [view(Stage.FLOW, arrived=NOW - 1), view(Stage.LM, arrived=NOW - 2)]
    assert pick(streams, NOW) is Stage.LM
    assert pick(reversed(streams), NOW) is Stage.LM


def test_listeners_with_time_go_by_deadline() -> None:
    assert pick([view(Stage.FLOW, dry_in=5.0), view(Stage.VOCODER, dry_in=4.0)], NOW) is Stage.VOCODER


def test_a_stream_that_waits_for_text_holds_nobody_up() -> None:
    assert pick([view(dry_in=-1.0), view(Stage.LM, dry_in=2.0)], NOW) is Stage.LM
