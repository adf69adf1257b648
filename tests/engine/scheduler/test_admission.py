"""Who is let in, and when what they hear begins."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscine_engine.scheduler.admission import (
    LONGEST_HINT_S,
    Door,
    Limits,
    Pace,
    admit,
    first_packet_s,
    utilisation,
)
from oscine_engine.scheduler.costs import CostModel, Curve
from oscine_engine.scheduler.start import release
from oscine_engine.scheduler.turns import LONGEST_QUEUE_S, SHORTEST_STAY_S, Turns
from oscine_engine.scheduler.views import Stage, StreamView
from tests.engine.scheduler.loads import COSTS, views

NOW = 100.0
LIMITS = Limits(streams=10**6)
IDLE = StreamView(NOW, None, frozenset())
WAITING = StreamView(NOW, None, frozenset({Stage.LM}), ids_left=13, euler_left=10)


def playing(dry_in: float) -> StreamView:
    return StreamView(NOW - 2, NOW + dry_in, frozenset({Stage.LM}), ids_left=20, euler_left=10, context_frames=400)


def capacity(limits: Limits, costs: CostModel = COSTS) -> int:
    """How many idle streams are let in, one after the other."""
    count = 0
    while admit([IDLE] * count, costs, NOW, limits) is None:
        count += 1
    return count


def test_streams_are_let_in_until_the_device_could_be_full() -> None:
    count = capacity(LIMITS)
    assert utilisation(count, COSTS) <= LIMITS.utilisation < utilisation(count + 1, COSTS)


def test_a_count_is_a_limit_too() -> None:
    assert capacity(Limits(streams=3)) == 3


def test_calls_that_listen_most_of_the_time_leave_room() -> None:
    alone = capacity(LIMITS)
    assert capacity(replace(LIMITS, talking=0.5)) == pytest.approx(2 * alone, abs=2)


def test_the_first_stream_is_let_in_on_any_device() -> None:
    slow = CostModel(*(Curve(((1, 9.0),)) for _ in Stage))
    assert admit([], slow, NOW, LIMITS) is None
    refusal = admit([IDLE], slow, NOW, LIMITS)
    assert refusal is not None and refusal.retry_after_s > 0


def test_a_slower_device_lets_fewer_in() -> None:
    slow = replace(COSTS, correction=(2.0, 2.0, 2.0))
    assert capacity(LIMITS, slow) < capacity(LIMITS)


def test_a_long_queue_of_first_packets_is_refused() -> None:
    tight = replace(LIMITS, first_packet_s=0.1)
    assert admit([WAITING], COSTS, NOW, tight) is None
    refusal = admit([WAITING] * 60, COSTS, NOW, tight)
    assert refusal is not None and "first sound" in refusal.reason


def test_listeners_who_run_dry_meanwhile_make_a_newcomer_wait() -> None:
    far = first_packet_s([playing(9.0)] * 40, COSTS, NOW)
    near = first_packet_s([playing(0.01)] * 40, COSTS, NOW)
    assert far == pytest.approx(first_packet_s([], COSTS, NOW))
    assert near > 2 * far


@given(views())
def test_refusals_say_when_to_come_back_and_only_the_needed_ones_are_made(streams: list[StreamView]) -> None:
    refusal = admit(streams, COSTS, NOW, LIMITS)
    needed = bool(streams) and (
        utilisation(len(streams) + 1, COSTS) > LIMITS.utilisation
        or first_packet_s(streams, COSTS, NOW) > LIMITS.first_packet_s
    )
    assert (refusal is not None) == needed
    if refusal is not None:
        assert 0.1 <= refusal.retry_after_s <= 5.0 and refusal.reason


def test_a_crowd_that_is_sent_away_is_not_told_to_come_back_together() -> None:
    door, limits = Door(), Limits(streams=4)
    calls = [StreamView(NOW - stayed, None, frozenset()) for stayed in (1.0, 2.0, 3.0, 6.0)]
    hints = []
    for place in range(40):
        refusal = door.ask(calls, COSTS, NOW + place * 0.01, limits)
        assert refusal is not None
        hints.append(place * 0.01 + refusal.retry_after_s)
    # Three seconds each so far: six in all, and so one of four leaves every 1.5 s.
    assert hints[0] == pytest.approx(1.5)
    assert np.diff(hints[:19]) == pytest.approx(1.5, abs=0.1)
    assert hints[-1] == pytest.approx(39 * 0.01 + LONGEST_QUEUE_S)
    assert door.ask(calls[:3], COSTS, NOW + 1.0, limits) is None
    later = door.ask(calls, COSTS, NOW + 100.0, limits)
    assert later is not None and later.retry_after_s <= LONGEST_HINT_S, "who has come back long ago is not waited for"


def test_streams_that_have_just_come_are_not_about_to_leave() -> None:
    turns = Turns()
    hints = [turns.next_s([0.0] * 8, NOW, 0.0) for _ in range(8)]
    assert np.diff(hints) == pytest.approx(SHORTEST_STAY_S / 8)
    assert hints[0] > 0


@given(st.integers(1, 400), st.integers(1, 400))
def test_more_speakers_never_take_less(few: int, more: int) -> None:
    few, more = sorted((few, more))
    assert utilisation(few, COSTS) <= utilisation(more, COSTS) + 1e-12


def test_drafts_and_short_context_cost_less() -> None:
    assert utilisation(50, COSTS, Pace(ids_per_s=9)) < utilisation(50, COSTS)
    assert utilisation(50, COSTS, Pace(context_frames=100)) < utilisation(50, COSTS)


HELD = StreamView(NOW - 0.05, None, frozenset({Stage.LM}), ids_left=25, euler_left=10, held_s=0.32)


def test_an_idle_device_starts_at_once() -> None:
    assert release(HELD, [], NOW, COSTS)


def test_a_busy_one_waits_for_the_next_chunk() -> None:
    busy = [playing(0.3)] * 100
    assert not release(HELD, busy, NOW, COSTS)
    assert release(replace(HELD, held_s=1.32), busy, NOW, COSTS)


def test_listeners_due_later_do_not_matter() -> None:
    assert release(HELD, [playing(0.5)] * 100, NOW, COSTS)


def test_nothing_is_held_for_want_of_text_or_at_the_end() -> None:
    assert release(replace(HELD, ready=frozenset()), [playing(0.1)] * 500, NOW, COSTS)


def test_nothing_is_held_beyond_patience() -> None:
    assert release(replace(HELD, arrived=NOW - 2.0), [playing(0.1)] * 500, NOW, COSTS)


@given(views(), st.floats(0.02, 3.0), st.floats(0.02, 3.0))
def test_with_fewer_others_a_start_is_never_later(streams: list[StreamView], one: float, other: float) -> None:
    """Taking streams away never holds a packet that would have gone out."""
    view = replace(HELD, held_s=max(one, other))
    if release(view, streams, NOW, COSTS):
        assert release(view, [], NOW, COSTS)
