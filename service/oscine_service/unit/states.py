"""What the supervisor does about its engine process: a table, without clocks, processes or sockets.

    FIRST      the first process loads; somebody waits for it and can be told that it does not come
    SERVING    a process answers; streams can be opened
    CLOSING    a process answers and finishes what it runs; no other follows it
    LOST       a process was given up and killed, and has not ended yet
    WAITING    there is no process; the next one starts when the wait is over
    AGAIN      a later process loads; nobody waits, so it may take as many attempts as it needs
    STOPPING   the process was asked to end
    STOPPED    nothing runs, and nothing will

One process at a time: a new one starts only from WAITING, which is entered only when the old one has ended, so two
never share a device. A process that ends by itself, is killed by somebody else or hangs takes the same way: what
differs is only who kills it. FIRST differs from AGAIN in what follows a process that does not come up: an engine that
cannot start at all (no such model) ends the service at once, with its message, while one that has run before is
expected to run again. Where several engines stand behind one port, nobody waits any longer once one of them serves
(EXCUSED): the others may then take as many attempts as they need.

LATE is meant for the process that runs now. In WAITING, where none does, it came from the one before and counts no
more; nor do READY and ENDED anywhere but where a process can be ready or end.

Once the service closes, a process that is lost is the last one: what it ran ends with an error that promises nothing.
"""

from enum import Enum, auto


class State(Enum):
    FIRST = auto()
    SERVING = auto()
    CLOSING = auto()
    LOST = auto()
    WAITING = auto()
    AGAIN = auto()
    STOPPING = auto()
    STOPPED = auto()


class Event(Enum):
    READY = auto()
    """The process has loaded and answers."""
    LATE = auto()
    """It has not answered, or not loaded, in the time it had."""
    ENDED = auto()
    """The process is no more."""
    EXCUSED = auto()
    """Another engine serves, so nobody waits for this one."""
    DUE = auto()
    """The wait before the next start is over."""
    CLOSE = auto()
    """The service takes no more calls, and lets those that run come to their end."""
    STOP = auto()
    """The service ends."""


class Action(Enum):
    CONNECT = auto()
    """Let streams be opened."""
    DISCONNECT = auto()
    """End all streams with an error that can be retried if another process follows, and refuse new ones so."""
    RESIGN = auto()
    """Refuse streams from now on without a promise that another process follows."""
    KILL = auto()
    """End the process, whatever state it is in."""
    DISMISS = auto()
    """Ask the process to end."""
    WAIT = auto()
    """Ask for DUE, the later the more often processes have died of late."""
    START = auto()
    """Start the next process."""


_NOTHING: tuple[Action, ...] = ()

_TABLE: dict[State, dict[Event, tuple[State, tuple[Action, ...]]]] = {
    State.FIRST: {
        Event.READY: (State.SERVING, (Action.CONNECT,)),
        Event.LATE: (State.STOPPING, (Action.KILL,)),
        Event.ENDED: (State.STOPPED, _NOTHING),
        Event.EXCUSED: (State.AGAIN, _NOTHING),
        Event.DUE: (State.FIRST, _NOTHING),
        Event.CLOSE: (State.STOPPING, (Action.DISMISS,)),
        Event.STOP: (State.STOPPING, (Action.DISMISS,)),
    },
    State.SERVING: {
        Event.READY: (State.SERVING, _NOTHING),
        Event.LATE: (State.LOST, (Action.DISCONNECT, Action.KILL)),
        Event.ENDED: (State.WAITING, (Action.DISCONNECT, Action.WAIT)),
        Event.EXCUSED: (State.SERVING, _NOTHING),
        Event.DUE: (State.SERVING, _NOTHING),
        Event.CLOSE: (State.CLOSING, _NOTHING),
        Event.STOP: (State.STOPPING, (Action.DISCONNECT, Action.DISMISS)),
    },
    State.CLOSING: {
        Event.READY: (State.CLOSING, _NOTHING),
        Event.LATE: (State.STOPPING, (Action.DISCONNECT, Action.KILL)),
        Event.ENDED: (State.STOPPED, (Action.DISCONNECT,)),
        Event.EXCUSED: (State.CLOSING, _NOTHING),
        Event.DUE: (State.CLOSING, _NOTHING),
        Event.CLOSE: (State.CLOSING, _NOTHING),
        Event.STOP: (State.STOPPING, (Action.DISCONNECT, Action.DISMISS)),
    },
    State.LOST: {
        Event.READY: (State.LOST, _NOTHING),
        Event.LATE: (State.LOST, _NOTHING),
        Event.ENDED: (State.WAITING, (Action.WAIT,)),
        Event.EXCUSED: (State.LOST, _NOTHING),
        Event.DUE: (State.LOST, _NOTHING),
        Event.CLOSE: (State.STOPPING, (Action.RESIGN,)),
        Event.STOP: (State.STOPPING, (Action.RESIGN,)),
    },
    State.WAITING: {
        Event.READY: (State.WAITING, _NOTHING),
        Event.LATE: (State.WAITING, _NOTHING),
        Event.ENDED: (State.WAITING, _NOTHING),
        Event.EXCUSED: (State.WAITING, _NOTHING),
        Event.DUE: (State.AGAIN, (Action.START,)),
        Event.CLOSE: (State.STOPPED, (Action.RESIGN,)),
        Event.STOP: (State.STOPPED, (Action.RESIGN,)),
    },
    State.AGAIN: {
        Event.READY: (State.SERVING, (Action.CONNECT,)),
        Event.LATE: (State.LOST, (Action.KILL,)),
        Event.ENDED: (State.WAITING, (Action.WAIT,)),
        Event.EXCUSED: (State.AGAIN, _NOTHING),
        Event.DUE: (State.AGAIN, _NOTHING),
        Event.CLOSE: (State.STOPPING, (Action.RESIGN, Action.DISMISS)),
        Event.STOP: (State.STOPPING, (Action.RESIGN, Action.DISMISS)),
    },
    State.STOPPING: {
        Event.READY: (State.STOPPING, _NOTHING),
        Event.LATE: (State.STOPPING, (Action.KILL,)),
        Event.ENDED: (State.STOPPED, _NOTHING),
        Event.EXCUSED: (State.STOPPING, _NOTHING),
        Event.DUE: (State.STOPPING, _NOTHING),
        Event.CLOSE: (State.STOPPING, _NOTHING),
        Event.STOP: (State.STOPPING, _NOTHING),
    },
    State.STOPPED: {event: (State.STOPPED, _NOTHING) for event in Event},
}


def after(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """The next state, and what to do on the way there, in order."""
    return _TABLE[state][event]


FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0


def wait_s(deaths: int) -> float:
    """Seconds before the next start after so many `deaths` in a row, from 1: none after the first, then 1, 2, 4 ... 30.

    The first one is likely a fault that a fresh process does not have, and listeners wait. One that comes back again
    and again is not worth a core.
    """
    return 0.0 if deaths <= 1 else min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(deaths - 2, 16))
