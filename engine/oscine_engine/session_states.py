"""One session's life as a table: what each event does in each state. No I/O, no clock; `session.py` is its shell.

    state       the client                                        the engine
    ----------  ------------------------------------------------  --------------------------------------------
    OPEN        may send text; what waits is half a sentence      speaks what it was handed, waits for more
    RIPE        may send text; what waits looks finished          the same, and gets what waits when it is quiet
    ENDING      has said that no text follows                      speaks what is left
    DRAINING    has yet to take what was made                      has ended well and holds nothing
    DONE        has taken everything, Done included                holds nothing
    CANCELLED   has stopped the session, or is gone                was told to stop
    FAILED      is told the error                                  was told to stop, or ended with an error itself

The table itself is at the end of this file: a row an event, a column a state, every cell decided.

Why so:

* Whether text looks finished is asked after every append. So RIPE is left by any text that does not end a sentence,
  and the quiet timer runs in RIPE and nowhere else: an agent that pauses between sentences leaves nothing unspoken,
  one that pauses within a sentence is waited for. Speaking what waits leaves the session OPEN, however often.
* A flush is not an end. Text after it opens a new segment, and only `finish` closes the input.
* Finishing without ever having had something to say is the client's error: no audio would follow, and an empty call
  that ends well would look like a spoken one. It is told when the flushes before it have been answered, as every flush
  is. Blank pieces among others are no error.
* A listener who cancels wants silence. What was made and not yet taken is thrown away, so nothing is handed out after
  it, and the position heard is final. A listener who is gone is the same, with nobody to tell.
* An error is told after the audio made before it, in order. Only a listener who has stalled gets the error alone: what
  waits for it is memory, and is given back.
* Who is gone? Whoever gives no sign of life for too long, and a transport knows sooner where a whole host vanished. A
  listener gives one by taking and by reporting what was played, be it the same number again; a client by any verb.
  `idle`: the client owes text and is silent, everything was taken, and nothing but text could bring more. `stalled`:
  there is something to take, and the listener neither takes nor reports. `paused`: everything was taken, what is left
  to say waits for reports, and none comes. People pause for longer than machines, so that has a limit of its own.
  What waits for the engine alone ends by no timer: the client has done its part, and the engine is watched elsewhere.
* The engine is lost when its process is: its streams hold nothing, as after any error of its own, and are not stopped
  again. Done before the input was closed is a fault of the engine, so it is an error too.
* After an end, late events of the engine are dropped: they were on their way when it came. Verbs tell why it ended, or
  that it did; cancelling again changes nothing and gives the same position. Reports of what was played count as long as
  the position may still be asked for.
"""

from enum import Enum, auto
from typing import NamedTuple


class State(Enum):
    OPEN = auto()
    RIPE = auto()
    ENDING = auto()
    DRAINING = auto()
    DONE = auto()
    CANCELLED = auto()
    FAILED = auto()

    @property
    def takes_text(self) -> bool:
        return self in (State.OPEN, State.RIPE)

    @property
    def holds_engine(self) -> bool:
        """The engine has a stream for the session."""
        return self in (State.OPEN, State.RIPE, State.ENDING)


class Event(Enum):
    """What happens to a session: verbs of its client, time, and what the engine delivers."""

    HALF = auto()
    """Text was appended, or is about to be; what waits is not a finished sentence, or nothing waits."""
    SENTENCE = auto()
    """Text was appended, and what waits looks like a finished sentence."""
    FLUSH = auto()
    FINISH = auto()
    """No more text follows, and something was said."""
    NOTHING = auto()
    """No more text follows, and there never was anything to say."""
    PLAYED = auto()
    """The listener reports how far it has played."""
    CANCEL = auto()
    VANISHED = auto()
    """The listener left without a word."""
    LAST = auto()
    """The listener took the last event."""
    QUIET = auto()
    """No text came for as long as a finished sentence waits."""
    IDLE = auto()
    """The client did nothing for too long, with nothing to say and nothing to take."""
    PAUSED = auto()
    """The listener reported nothing for too long, with something to say that waits for its reports."""
    STALLED = auto()
    """The listener took and reported nothing for too long, with something to take."""
    AUDIO = auto()
    FLUSHED = auto()
    PROGRESS = auto()
    ENDED = auto()
    """The engine delivered Done."""
    ERROR = auto()
    """The engine ended the stream with an error."""
    LOST = auto()
    """The engine itself is gone, and its streams with it."""


class Act(Enum):
    """What the shell does."""

    READ = auto()
    """Hand the engine what the text settles."""
    MARK = auto()
    """Hand the engine what waits, and a mark to be answered."""
    SPEAK = auto()
    """Hand the engine what waits."""
    CLOSE = auto()
    """Hand the engine what waits, and close its input."""
    REPORT = auto()
    """Note how far the listener is, and tell the engine."""
    GIVE = auto()
    """Give the event to the listener."""
    NOTE = auto()
    """Note what the engine is doing."""
    STOP_NOTHING = auto()
    """Stop the engine's stream: InvalidInput, there is nothing to speak."""
    STOP_CANCELLED = auto()
    """Throw away what was not taken and stop the engine's stream: Cancelled, with the position heard."""
    STOP_IDLE = auto()
    """Stop the engine's stream: Idle."""
    STOP_STALLED = auto()
    """Throw away what was not taken and stop the engine's stream: Stalled."""
    FAIL = auto()
    """Give the engine's error to the listener."""
    FAIL_EARLY = auto()
    """The engine ended too early: give an InternalError to the listener."""
    REFUSE = auto()
    """Raise InvalidInput: the input has ended."""
    RAISE = auto()
    """Raise the error that the session ended with."""
    ANSWER = auto()
    """Tell the position heard; nothing else changes."""
    DROP = auto()
    """Nothing."""


class Cell(NamedTuple):
    act: Act
    then: State


def _cells(given: tuple[Act | Cell, ...]) -> dict[State, Cell]:
    """One row; an act alone leaves the state as it is."""
    columns = zip(State, given, strict=True)
    return {state: Cell(cell, state) if isinstance(cell, Act) else cell for state, cell in columns}


def _table() -> dict[Event, dict[State, Cell]]:
    read, ripe = Cell(Act.READ, State.OPEN), Cell(Act.READ, State.RIPE)
    mark, speak = Cell(Act.MARK, State.OPEN), Cell(Act.SPEAK, State.OPEN)
    close, nothing = Cell(Act.CLOSE, State.ENDING), Cell(Act.STOP_NOTHING, State.FAILED)
    cancel = Cell(Act.STOP_CANCELLED, State.CANCELLED)
    idle, stall = Cell(Act.STOP_IDLE, State.FAILED), Cell(Act.STOP_STALLED, State.FAILED)
    ended, taken = Cell(Act.GIVE, State.DRAINING), Cell(Act.DROP, State.DONE)
    fail, early = Cell(Act.FAIL, State.FAILED), Cell(Act.FAIL_EARLY, State.FAILED)
    report, give, note = Act.REPORT, Act.GIVE, Act.NOTE
    refuse, again, answer, ____ = Act.REFUSE, Act.RAISE, Act.ANSWER, Act.DROP
    rows: dict[Event, tuple[Act | Cell, ...]] = {
        # OPEN, RIPE, ENDING, DRAINING, DONE, CANCELLED, FAILED
        Event.HALF: (read, read, refuse, refuse, refuse, again, again),
        Event.SENTENCE: (ripe, ripe, refuse, refuse, refuse, again, again),
        Event.FLUSH: (mark, mark, refuse, refuse, refuse, again, again),
        Event.FINISH: (close, close, refuse, refuse, refuse, again, again),
        Event.NOTHING: (nothing, nothing, refuse, refuse, refuse, again, again),
        Event.PLAYED: (report, report, report, report, report, ____, ____),
        Event.CANCEL: (cancel, cancel, cancel, cancel, answer, answer, answer),
        Event.VANISHED: (cancel, cancel, cancel, cancel, ____, ____, ____),
        Event.LAST: (____, ____, ____, taken, ____, ____, ____),
        Event.QUIET: (____, speak, ____, ____, ____, ____, ____),
        Event.IDLE: (idle, idle, ____, ____, ____, ____, ____),
        Event.PAUSED: (stall, stall, stall, ____, ____, ____, ____),
        Event.STALLED: (stall, stall, stall, stall, ____, ____, ____),
        Event.AUDIO: (give, give, give, ____, ____, ____, ____),
        Event.FLUSHED: (give, give, give, ____, ____, ____, ____),
        Event.PROGRESS: (note, note, note, ____, ____, ____, ____),
        Event.ENDED: (early, early, ended, ____, ____, ____, ____),
        Event.ERROR: (fail, fail, fail, ____, ____, ____, ____),
        Event.LOST: (fail, fail, fail, ____, ____, ____, ____),
    }
    return {event: _cells(cells) for event, cells in rows.items()}


TABLE = _table()
