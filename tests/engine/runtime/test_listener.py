"""When a listener runs dry and why: bookkeeping on plain numbers."""

import pytest

from oscine_engine.runtime.listener import Listener

RATE = 1000
"""So that a sample is a millisecond."""


def listener(now: float = 10.0) -> Listener:
    made = Listener(RATE, arrived=now)
    made.note_text(now)
    return made


def test_packets_sent_in_time_put_the_deadline_off() -> None:
    ear = listener()
    assert ear.deadline is None
    ear.note_sent(1000, 10.0)
    ear.note_sent(1000, 10.5)
    assert ear.deadline == 12.0
    assert (ear.packets, ear.sent, ear.first_at, ear.last_at) == (2, 2000, 10.0, 10.5)
    assert (ear.underruns, ear.starved) == (0, 0)


def test_a_late_packet_is_an_underrun_and_plays_on_from_when_it_came() -> None:
    ear = listener()
    ear.note_sent(1000, 10.0)
    ear.note_sent(1000, 11.25)
    assert (ear.underruns, ear.underrun_s) == (1, 0.25)
    assert ear.deadline == 12.25


def test_text_that_came_too_late_is_starvation_and_starts_afresh() -> None:
    ear = listener()
    ear.note_sent(1000, 10.0)
    ear.note_wake(11.5, 0.1, paused=False)
    assert ear.deadline is None and ear.arrived == 11.5
    ear.note_sent(1000, 12.0)
    assert (ear.underruns, ear.starved, ear.starved_s) == (0, 1, 1.0)
    assert ear.deadline == 13.0


def test_text_that_came_too_late_to_be_spoken_in_time_is_starvation_too() -> None:
    ear = listener()
    ear.note_sent(1000, 10.0)
    ear.note_wake(10.95, 0.1, paused=False)
    assert ear.deadline is None
    ear.note_sent(1000, 11.05)
    assert (ear.underruns, ear.starved) == (0, 1)
    assert ear.starved_s == pytest.approx(0.05)


def test_text_that_looked_too_late_but_was_in_time_costs_nothing() -> None:
    ear = listener()
    ear.note_sent(1000, 10.0)
    ear.note_wake(10.95, 0.1, paused=False)
    ear.note_sent(1000, 10.97)
    assert (ear.underruns, ear.starved, ear.starved_s) == (0, 0, 0.0)
    assert ear.deadline == 12.0, "what was sent before is still being played"


def test_text_in_good_time_leaves_the_deadline_alone() -> None:
    ear = listener()
    ear.note_sent(1000, 10.0)
    ear.note_wake(10.2, 0.1, paused=False)
    assert ear.deadline == 11.0
    ear.note_sent(1000, 11.5)
    assert (ear.underruns, ear.starved) == (1, 0)


def test_a_pause_that_the_agent_asked_for_is_neither() -> None:
    ear = listener()
    ear.note_sent(1000, 10.0)
    ear.note_wake(60.0, 0.1, paused=True)
    ear.note_sent(1000, 60.2)
    assert (ear.underruns, ear.starved) == (0, 0)
    assert ear.deadline == 61.2


def test_what_the_listener_reports_replaces_the_guess() -> None:
    ear = listener()
    ear.note_sent(4000, 10.0)
    assert ear.ahead == 4000
    ear.note_taken(4000)
    assert ear.ahead == 0
    ear.note_played(1000, 12.0)
    assert ear.ahead == 3000 and ear.deadline == 15.0
    ear.note_played(500, 12.5)
    assert ear.ahead == 3000, "a report that comes late takes nothing back"
    ear.note_played(9000, 13.0)
    assert ear.ahead == 0 and ear.played == 4000


def test_a_report_of_the_end_does_not_say_since_when() -> None:
    ear = listener()
    ear.note_sent(1000, 10.0)
    ear.note_played(1000, 12.0)
    assert ear.deadline == 11.0


def test_seconds_of_work_leave_waiting_out() -> None:
    ear = Listener(RATE, arrived=5.0)
    ear.note_work(True, 6.0)
    assert ear.busy_since is None, "before the first text nothing counts"
    ear.note_text(7.0)
    ear.note_work(True, 7.0)
    ear.note_sent(100, 7.5)
    assert (ear.first_packet_s, ear.busy_s) == (0.5, 0.5)
    ear.note_work(False, 8.0)
    ear.note_work(True, 20.0)
    ear.note_sent(100, 20.25)
    assert ear.busy_s == 1.25
