"""The table of a session's life: complete, and true to the promises above it."""

from hypothesis import given
from hypothesis import strategies as st

from oscine_engine.session_states import TABLE, Act, Event, State

STOPS = {Act.STOP_NOTHING, Act.STOP_CANCELLED, Act.STOP_IDLE, Act.STOP_STALLED}
ENDS = {State.DONE, State.CANCELLED, State.FAILED}
TEXT = {Event.HALF, Event.SENTENCE, Event.FLUSH, Event.FINISH, Event.NOTHING}
TO_ENGINE = {Act.READ, Act.MARK, Act.SPEAK, Act.CLOSE}


def test_every_cell_is_decided() -> None:
    assert set(TABLE) == set(Event)
    for row in TABLE.values():
        assert set(row) == set(State)


def test_every_act_and_state_is_used() -> None:
    cells = [cell for row in TABLE.values() for cell in row.values()]
    assert {cell.act for cell in cells} == set(Act)
    assert {cell.then for cell in cells} == set(State)


def test_ends_are_final_and_silent() -> None:
    for event, row in TABLE.items():
        for end in ENDS:
            assert row[end].then is end
            assert row[end].act not in STOPS | TO_ENGINE | {Act.GIVE, Act.FAIL}
            if event in TEXT:
                assert row[end].act is (Act.REFUSE if end is State.DONE else Act.RAISE)


def test_an_end_and_its_error_belong_together() -> None:
    for row in TABLE.values():
        for state, (act, then) in row.items():
            if then is not state and then is State.CANCELLED:
                assert act is Act.STOP_CANCELLED
            if then is not state and then is State.FAILED:
                assert act in STOPS - {Act.STOP_CANCELLED} | {Act.FAIL, Act.FAIL_EARLY}


def test_what_may_take_text_does_and_nothing_else() -> None:
    for event in TEXT:
        for state, cell in TABLE[event].items():
            assert (cell.act in TO_ENGINE | {Act.STOP_NOTHING}) == state.takes_text


def test_every_failure_ends_a_session_that_holds_an_engine() -> None:
    for event in (Event.CANCEL, Event.VANISHED, Event.PAUSED, Event.STALLED, Event.ERROR, Event.LOST):
        for state, cell in TABLE[event].items():
            if state.holds_engine:
                assert cell.then in ENDS


def test_only_who_may_send_text_can_be_idle() -> None:
    for state, cell in TABLE[Event.IDLE].items():
        assert (cell.act is Act.STOP_IDLE) == state.takes_text


@given(st.lists(st.sampled_from(list(Event))))
def test_a_session_ends_once_and_is_never_stopped_twice(events: list[Event]) -> None:
    state, ends, stops = State.OPEN, 0, 0
    for event in events:
        act, then = TABLE[event][state]
        ends += state not in ENDS and then in ENDS
        stops += act in STOPS
        assert act is not Act.SPEAK or state is State.RIPE
        assert state.takes_text or not then.takes_text
        state = then
    assert ends == (state in ENDS)
    assert stops <= 1
