"""The clock itself: the grid, what becomes of what is late, and what it leaves."""

import sys
import threading
import time
from collections.abc import Callable

import pytest

from oscine_service.telephony.rtp import clock
from oscine_service.telephony.rtp.clock import PERIOD_NS, Clock


class Counting:
    """A member that notes its ticks."""

    def __init__(self, told_at: int = -1, act: Callable[[], None] = lambda: None) -> None:
        self.numbers: list[int] = []
        self.moments: list[int] = []
        self._told_at = told_at
        self._act = act

    def tick(self, number: int) -> bool:
        self.moments.append(time.monotonic_ns())
        self.numbers.append(number)
        self._act()
        return number == self._told_at


def wait(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_no_tick_comes_before_its_time_and_each_has_its_number() -> None:
    made, member = Clock(lambda members: None), Counting()
    began = made.add(member)
    wait(lambda: len(member.numbers) >= 10)
    made.remove(member)
    for number, moment in zip(member.numbers, member.moments, strict=True):
        assert moment >= began + number * PERIOD_NS
    # None twice; one that is not there was left out, and counted.
    assert member.numbers == sorted(set(member.numbers))
    assert made.skipped or member.numbers == list(range(len(member.numbers)))


def test_none_comes_after_a_member_has_left_and_the_thread_ends_with_the_last() -> None:
    wait(lambda: clock.NAME not in [each.name for each in threading.enumerate()])
    before = sys.getswitchinterval()
    made, first, second = Clock(lambda members: None), Counting(), Counting()
    for each in (first, second):
        made.add(each)
    wait(lambda: bool(first.numbers and second.numbers))
    assert sys.getswitchinterval() <= clock.SWITCH_S < before
    made.remove(first)
    count = len(first.numbers)
    seen = len(second.numbers)
    wait(lambda: len(second.numbers) > seen + 3)
    assert len(first.numbers) == count
    made.remove(second)
    wait(lambda: clock.NAME not in [each.name for each in threading.enumerate()])
    assert sys.getswitchinterval() == before
    # And begins again with the next.
    made.add(first)
    wait(lambda: len(first.numbers) > count)
    made.remove(first)


def test_members_are_spread_over_the_period() -> None:
    made, members = Clock(lambda members: None), [Counting() for _ in range(40)]
    phases = sorted(made.add(each) % PERIOD_NS for each in members)
    for each in members:
        made.remove(each)
    assert {phases.count(each) for each in phases} == {2} and len(set(phases)) == 20


def test_who_has_something_new_is_told() -> None:
    told: list[clock.Member] = []
    made, member, other = Clock(told.extend), Counting(told_at=2), Counting()
    made.add(member)
    made.add(other)
    wait(lambda: bool(told))
    wait(lambda: len(member.numbers) > 4)
    made.remove(member)
    made.remove(other)
    assert told == [member]


def test_what_was_late_for_too_long_is_left_out_and_the_grid_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "LATE_NS", 60_000_000)
    stall = iter([0.3])
    made = Clock(lambda members: None)
    member = Counting(act=lambda: time.sleep(next(stall, 0.0)))
    began = made.add(member)
    wait(lambda: len(member.numbers) >= 5)
    made.remove(member)
    assert made.skipped >= 200
    # 300 ms are fifteen ticks, of which the last ones were not too late.
    assert member.numbers[1] - member.numbers[0] >= 10
    for number, moment in zip(member.numbers, member.moments, strict=True):
        assert moment >= began + number * PERIOD_NS


def test_what_was_late_for_a_while_is_made_up_for() -> None:
    stall = iter([0.1])
    made = Clock(lambda members: None)
    member = Counting(act=lambda: time.sleep(next(stall, 0.0)))
    made.add(member)
    wait(lambda: len(member.numbers) >= 8)
    made.remove(member)
    if not made.skipped:
        assert member.numbers[:8] == list(range(8))
        assert member.moments[4] - member.moments[1] < 4 * PERIOD_NS


def test_a_member_that_fails_is_let_go_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    made = Clock(lambda members: None)
    good, bad = Counting(), Counting(act=lambda: [][0])
    for each in (bad, good):
        made.add(each)
    wait(lambda: len(bad.numbers) == 1 and len(good.numbers) > 3)
    assert bad not in made and good in made and len(bad.numbers) == 1
    assert "IndexError" in caplog.text
    made.remove(bad)
    made.remove(good)
