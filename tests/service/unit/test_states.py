"""The supervisor's table, without a process."""

from hypothesis import given
from hypothesis import strategies as st

from oscine_service.unit.states import LONGEST_WAIT_S, Action, Event, State, after, wait_s

EVENTS = st.lists(st.sampled_from(Event), max_size=40)


def walk(*events: Event, state: State = State.FIRST) -> tuple[State, list[Action]]:
    done: list[Action] = []
    for event in events:
        state, actions = after(state, event)
        done += actions
    return state, done


def test_every_cell_is_decided() -> None:
    for state in State:
        for event in Event:
            assert after(state, event)[0] in State


def test_a_process_that_is_killed_is_replaced() -> None:
    state, done = walk(Event.READY, Event.ENDED, Event.DUE, Event.READY)
    assert state is State.SERVING
    assert done == [Action.CONNECT, Action.DISCONNECT, Action.WAIT, Action.START, Action.CONNECT]


def test_a_process_that_hangs_is_killed_before_the_next_one_starts() -> None:
    state, done = walk(Event.READY, Event.LATE)
    assert (state, done[1:]) == (State.LOST, [Action.DISCONNECT, Action.KILL])
    assert walk(Event.DUE, Event.READY, Event.LATE, state=state) == (State.LOST, [])
    assert walk(Event.ENDED, Event.DUE, state=state) == (State.AGAIN, [Action.WAIT, Action.START])


def test_an_engine_that_never_started_is_not_tried_again() -> None:
    assert walk(Event.ENDED) == (State.STOPPED, [])
    assert walk(Event.LATE, Event.ENDED) == (State.STOPPED, [Action.KILL])


def test_one_that_has_run_is_tried_again_and_again() -> None:
    state, done = walk(Event.READY, *[Event.ENDED, Event.DUE] * 50)
    assert state is State.AGAIN
    assert done.count(Action.START) == 50


def test_one_that_nobody_waits_for_is_tried_again_from_the_first() -> None:
    state, done = walk(Event.EXCUSED, Event.ENDED, Event.DUE, Event.READY)
    assert (state, done) == (State.SERVING, [Action.WAIT, Action.START, Action.CONNECT])
    assert walk(Event.EXCUSED, Event.LATE, Event.ENDED) == (State.WAITING, [Action.KILL, Action.WAIT])


def test_stopping_waits_for_the_process_and_kills_one_that_stays() -> None:
    assert walk(Event.READY, Event.STOP, Event.LATE, Event.ENDED) == (
        State.STOPPED,
        [Action.CONNECT, Action.DISCONNECT, Action.DISMISS, Action.KILL],
    )
    assert walk(Event.READY, Event.ENDED, Event.STOP)[0] is State.STOPPED
    assert walk(Event.READY, Event.LATE, Event.STOP, Event.ENDED)[0] is State.STOPPED


def test_a_service_that_closes_has_had_its_last_process() -> None:
    assert walk(Event.READY, Event.CLOSE) == (State.CLOSING, [Action.CONNECT])
    assert walk(Event.READY, Event.CLOSE, Event.ENDED) == (State.STOPPED, [Action.CONNECT, Action.DISCONNECT])
    assert walk(Event.LATE, Event.ENDED, state=State.CLOSING) == (State.STOPPED, [Action.DISCONNECT, Action.KILL])
    assert walk(Event.CLOSE, Event.ENDED, state=State.LOST) == (State.STOPPED, [Action.RESIGN])
    assert walk(Event.CLOSE, Event.DUE, state=State.WAITING) == (State.STOPPED, [Action.RESIGN])
    assert walk(Event.CLOSE, Event.ENDED, state=State.AGAIN) == (State.STOPPED, [Action.RESIGN, Action.DISMISS])


@given(EVENTS, EVENTS)
def test_nothing_starts_once_the_service_closes(before: list[Event], after_it: list[Event]) -> None:
    state, _ = walk(*before, Event.CLOSE)
    _, done = walk(*after_it, state=state)
    assert not {Action.START, Action.CONNECT, Action.WAIT} & set(done)


@given(EVENTS)
def test_there_is_never_more_than_one_process_and_streams_are_open_only_while_it_serves(events: list[Event]) -> None:
    state, alive, connected = State.FIRST, True, False
    for event in events:
        if event in (Event.ENDED, Event.READY, Event.LATE) and not alive:
            continue  # only a process makes these
        if event is Event.ENDED:
            alive = False
        state, actions = after(state, event)
        for action in actions:
            match action:
                case Action.START:
                    assert not alive
                    alive = True
                case Action.CONNECT:
                    assert alive and not connected
                    connected = True
                case Action.DISCONNECT:
                    assert connected
                    connected = False
                case Action.KILL | Action.DISMISS:
                    assert alive
        assert connected == (state in (State.SERVING, State.CLOSING))
        if state is State.STOPPED:
            assert not alive


@given(EVENTS)
def test_a_stop_always_ends_it(events: list[Event]) -> None:
    state, _ = walk(*events, Event.STOP)
    assert state in (State.STOPPING, State.STOPPED)
    assert walk(Event.LATE, Event.ENDED, state=state)[0] is State.STOPPED


def test_waits_grow_and_are_bounded() -> None:
    waits = [wait_s(deaths) for deaths in range(1, 2000)]
    assert waits[:4] == [0.0, 1.0, 2.0, 4.0]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT_S
