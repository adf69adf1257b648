"""One stream's life, seen from asyncio: text in, events out.

What happens when is decided in `session_states.py`; this shell performs it. It runs no task: verbs and the listener run
in their callers' tasks, the engine's events and the timers in callbacks of the event loop, so that nothing is left
behind when they are gone.
"""

import asyncio
import math
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self

from oscine_engine.errors import Cancelled, Idle, InternalError, InvalidInput, OscineError, Stalled, Unavailable
from oscine_engine.events import Audio, Done, Event, Flushed, Marked, Started, Word, Words
from oscine_engine.marks import Marks
from oscine_engine.pace import Pace
from oscine_engine.planner import Begin, Planner, Step
from oscine_engine.port import Port, PortEvent, Progress, Sounded, StreamOptions, StreamPort
from oscine_engine.session_states import TABLE, Act, State
from oscine_engine.session_states import Event as What
from oscine_engine.word_times.times import WordTimes

SLICE = 64
"""Characters read in one go. Unknown words take milliseconds each, and other sessions live on the same event loop."""
MOST_SENTENCES = 1000
"""Sentences and flushes that may wait to be spoken, about an hour of them; more text is taken as these are."""
MOST_ANSWERS = 1000
"""Marks that may wait for sentences that are complete, and answers to marks and flushes for the listener; more is taken
from the client as these are."""
_ANSWERS = (Flushed, Marked)
PLAY_ON_S = 1.0
"""Between two reports on behalf of a listener that can make none."""


class NothingToSay(InvalidInput):
    """The session was finished without ever having had something to speak."""

    def __init__(self) -> None:
        super().__init__(
            "there is nothing to speak: send at least one letter, digit or character that this model reads"
        )


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Seconds, above 0; infinity for never. Raises InvalidInput for others.

    quiet_s: a sentence that looks finished is spoken after this long without more text.
    idle_s: a session ends with Idle when its client does nothing for this long, with nothing to say or to take.
    stall_s: a session ends with Stalled when events wait for this long and its listener neither takes nor reports.
    pause_s: likewise when what is left to say waits for reports of what was played, and none comes for this long.
    """

    quiet_s: float = 0.25
    idle_s: float = math.inf
    stall_s: float = math.inf
    pause_s: float = 3600.0

    def __post_init__(self) -> None:
        for name in ("quiet_s", "idle_s", "stall_s", "pause_s"):
            seconds = getattr(self, name)
            if math.isnan(seconds) or seconds <= 0:
                raise InvalidInput(f"{name} must be a number of seconds above 0, or infinity for never; not {seconds}")


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """What sessions wait by; an event loop is one."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Timer: ...


class Session:
    """Made by `Front.open`. Iterate it for events; leaving the `async with` block cancels what is unfinished.

    Iteration ends after `Done`, and raises the error, an OscineError, of a session that failed or was cancelled.
    """

    def __init__(self, planner: Planner, started: Started, limits: SessionLimits, clock: Clock | None = None) -> None:
        self.started = started
        self._planner = planner
        self._limits = limits
        self._home, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._clock: Clock = clock or self._home
        self._stream: StreamPort | None = None
        self._state = State.OPEN
        self._error: OscineError | None = None
        # Text is read in slices; what is asked for meanwhile waits its turn.
        self._turn = asyncio.Lock()
        self._writers = 0
        self._asked = 0
        self._progress = Progress(working=False, answered=0)
        self._marks = Marks()
        self._made = 0
        self._pace = Pace()
        self._times: WordTimes | None = None
        self._events: deque[Event | Sounded] = deque([started])
        self._answers = 0
        """Of these, those to flushes and marks; of sound there is never more than the listener's credit."""
        self._taken = 0
        self._played: int | None = None
        self._played_at = 0.0
        self._playing: Timer | None = None
        self._changed = asyncio.Event()
        self._quiet: Timer | None = None
        self._watch: Timer | None = None
        self._watch_due = math.inf
        self._active_at = self._waiting_since = self._clock.time()

    @classmethod
    async def open(
        cls,
        port: Port,
        options: StreamOptions,
        planner: Planner,
        started: Started,
        limits: SessionLimits,
        clock: Clock | None = None,
    ) -> Self:
        """A session on a new stream of `port`. Raises what the port's `open` raises."""
        session = cls(planner, started, limits, clock)
        if options.word_times:
            session._times = WordTimes()
        session._stream = await port.open(options, session._deliver)
        session._watch_on()
        return session

    @property
    def state(self) -> State:
        return self._state

    @property
    def working(self) -> bool:
        """There is something to compute for this session just now, rather than text or a listener to wait for."""
        return self._state.holds_engine and self._progress.working

    @property
    def waiting(self) -> int:
        """Sentences and flushes handed to the engine and not yet spoken to their end."""
        return self._asked - self._progress.answered if self._state.holds_engine else 0

    @property
    def heard(self) -> int:
        """Samples the listener has had: those reported as played, or those taken where nothing was reported."""
        return self._taken if self._played is None else self._played

    @property
    def first_packet_s(self) -> float | None:
        """`Stats.first_packet_s` as seen from here, known as soon as the first audio is there."""
        return self._pace.first_packet_s

    @property
    def busy_s(self) -> float | None:
        """`Stats.busy_s` as seen from here, up to the last audio so far."""
        return self._pace.busy_s

    async def append(self, text: str) -> None:
        """Append text, cut anywhere, even inside a surrogate pair.

        A sentence that looks finished is spoken once `quiet_s` passes without more. Waits while MOST_SENTENCES wait to
        be spoken, so whoever appends more must listen at the same time. Raises InvalidInput after `finish`, and the
        session's error if it ends before all of the text was taken.
        """
        if not text:
            return self._permit(What.HALF)
        async with self._writing(What.HALF):
            start = 0
            while start < len(text):
                if start:
                    await asyncio.sleep(0)
                await self._room()
                self._apply(What.HALF)
                # What a mark stands in may yet be left out, and the mark then stands before what follows.
                doubtful = self._marks.standing and not self._planner.certain
                end = start + (1 if doubtful else SLICE)
                self._speak(self._planner.push(text[start:end]))
                start = end

    async def flush(self) -> None:
        """Speak everything appended so far; answered by a `Flushed` event. Text may follow. Raises as `append` does."""
        async with self._writing(What.FLUSH):
            await self._room()
            self._apply(What.FLUSH)
            self._speak(self._planner.flush(), mark=True)

    async def mark(self, name: str) -> None:
        """Name this place in the text; answered by a `Marked` event once the sentence that it stands in, or behind, has
        been spoken to its end. It changes nothing in what is said. Waits and raises as `append` does; and TooManyMarks,
        after which the session goes on."""
        async with self._writing(What.HALF):
            await self._room()
            self._apply(What.HALF)
            self._marks.put(name, None if self._planner.waiting else self._asked)
            self._give_marks(self._progress.answered)

    async def finish(self) -> None:
        """No more text follows. Raises InvalidInput if nothing speakable was ever appended, once all flushes are
        answered, or as `append` does."""
        async with self._writing(What.FINISH):
            self._permit(What.FINISH)
            steps = self._planner.flush()
            if self._planner.segments == 0:
                while self.waiting:
                    await self._change()
                self._apply(What.NOTHING)
                self._permit(What.NOTHING)  # raises why the session has just ended
            self._apply(What.FINISH)
            self._speak(steps, end=True)

    async def cancel(self) -> int:
        """Stop at once, free everything and return `heard`. Nothing more is handed out: iteration raises Cancelled."""
        self._apply(What.CANCEL)
        return self.heard

    async def played(self, samples: int) -> None:
        """The listener has played `samples` in all. From then on it is these that count as heard, and that the engine
        runs ahead of. A report that is late, or beyond what was taken, counts as far as it can be true."""
        if samples < 0:
            raise InvalidInput(f"played: {samples} samples; it must be 0 or more")
        self._apply(What.PLAYED, samples)

    async def reports_end(self) -> None:
        """The listener can report no more: it is taken to play on without a pause from where it was last."""
        if self._playing is None:
            self._play_on()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._apply(What.VANISHED)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            # Left over from an iteration that was given up.
            if words := await self._listen():
                yield Words(words)
            while self._events:
                event = self._events.popleft()
                self._take(event)
                if not isinstance(event, Sounded):
                    yield event
                if words := await self._listen():
                    yield Words(words)
            if self._error is not None:
                raise self._error
            if self._state is State.DONE:
                return
            await self._change()

    async def _listen(self) -> tuple[Word, ...]:
        """The words whose times are known with what was taken so far."""
        if (times := self._times) is None:
            return ()
        if times.waiting:
            # Milliseconds for a second of sound, and other sessions live on the same event loop.
            await asyncio.to_thread(times.work)
        # Whoever has cancelled meanwhile is handed out nothing more.
        return () if self._state is State.CANCELLED else times.take()

    def _take(self, event: Event | Sounded) -> None:
        if isinstance(event, _ANSWERS):
            self._answers -= 1
            self._changed.set()  # for who waits for room
        self._active_at = self._waiting_since = self._clock.time()
        if isinstance(event, Audio):
            self._taken += event.samples.size
            if self._stream is not None and self._state.holds_engine:
                self._stream.taken(event.samples.size)
            if self._times is not None:
                self._times.hear(event.samples)
        elif isinstance(event, Sounded):
            if self._times is not None:
                self._times.end_segment(event.end_sample)
        elif isinstance(event, Done):
            self._apply(What.LAST)
        self._watch_on()

    @asynccontextmanager
    async def _writing(self, what: What) -> AsyncIterator[None]:
        """A turn at the planner. While anybody has one or waits for one, nothing is spoken for want of more text."""
        self._permit(what)
        self._writers += 1
        self._quiet_off()
        try:
            async with self._turn:
                yield
        finally:
            self._writers -= 1
            if not self._writers and self._state.takes_text and self._planner.finished:
                self._apply(What.SENTENCE)

    def _permit(self, what: What) -> None:
        """Raise what the table raises; changes nothing."""
        match TABLE[what][self._state].act:
            case Act.REFUSE:
                raise InvalidInput("the session's input has already ended: no text, flush or end may follow `finish`")
            case Act.RAISE:
                assert self._error is not None
                raise self._error

    def _speak(self, steps: Sequence[Step], *, mark: bool = False, end: bool = False) -> None:
        assert self._stream is not None
        if self._times is not None:
            self._times.tell(self._planner.take_words())
        before = self._asked - self._planner.segments
        self._asked += (begun := sum(isinstance(step, Begin) for step in steps))
        if self._marks.standing:
            if (ended := self._planner.first_end) is not None:
                self._marks.end(before + begun + ended)
            elif end or not self._planner.waiting:
                self._marks.end(self._asked)
        self._give_marks(self._progress.answered)
        if mark:
            self._marks.flush(self._asked)
            self._asked += 1
        if steps or mark or end:
            self._stream.speak(steps, mark=mark, end=end)

    def _deliver(self, event: PortEvent) -> None:
        """Called in any thread."""
        try:
            if threading.get_ident() == self._thread:
                self._home.call_soon(self._hear, event)  # the loop need not be woken by way of the system
            else:
                self._home.call_soon_threadsafe(self._hear, event)
        except RuntimeError:  # the event loop was closed with the session open: nobody is left to tell
            if self._stream is not None:
                self._stream.stop(Cancelled("the listener's event loop is closed"))

    def _hear(self, event: PortEvent) -> None:
        match event:
            case Audio() | Sounded():
                self._apply(What.AUDIO, event)
            case Flushed():
                self._apply(What.FLUSHED, event)
            case Progress():
                self._apply(What.PROGRESS, event)
            case Done():
                self._apply(What.ENDED, event)
            case Unavailable():
                self._apply(What.LOST, event)
            case _:
                self._apply(What.ERROR, event)

    def _apply(self, what: What, told: PortEvent | int | None = None) -> None:
        """Do what the table says of `what`. Raises what it raises."""
        self._permit(what)
        act, then = TABLE[what][self._state]
        match act:
            case Act.GIVE:
                self._give(told)
            case Act.NOTE:
                assert isinstance(told, Progress)
                self._progress = told
                self._pace.worked(told.working, self._clock.time())
                self._give_marks(told.answered)
            case Act.REPORT:
                assert isinstance(told, int)
                self._waiting_since = self._clock.time()
                self._report(told)
            case Act.SPEAK:
                self._speak(self._planner.flush())
            case Act.FAIL:
                assert isinstance(told, OscineError)
                self._error = told
            case Act.FAIL_EARLY:
                self._error = InternalError("the engine ended the session before its input had ended")
            case Act.STOP_NOTHING:
                self._stop(NothingToSay())
            case Act.STOP_IDLE:
                self._stop(Idle(f"no text was sent for {self._limits.idle_s:g} s, and nothing is left to say"))
            case Act.STOP_CANCELLED:
                self._events.clear()
                self._stop(Cancelled("the session was cancelled", self.heard))
            case Act.STOP_STALLED:
                self._events.clear()
                self._stop(Stalled(self._stalling(what)))
        if act is not Act.DROP:
            self._active_at = self._clock.time()
        self._state = then
        self._changed.set()
        if what is What.SENTENCE or then is not State.RIPE:
            self._quiet_off()
        if self._playing is not None and not then.holds_engine:
            self._playing.cancel()
            self._playing = None
        if what is What.SENTENCE and then is State.RIPE:
            self._quiet = self._later(self._limits.quiet_s, What.QUIET)
        self._watch_on()

    def _give(self, told: PortEvent | int | None) -> None:
        assert isinstance(told, Audio | Sounded | Flushed | Done)
        now = self._clock.time()
        if isinstance(told, Audio):
            self._pace.sounded(now)
            self._made += told.samples.size
        elif isinstance(told, Flushed):
            self._give_marks(self._marks.flushed())
        elif isinstance(told, Done):
            self._give_marks(self._asked)
            told = Done(replace(told.stats, unspoken_characters=self._planner.unread))
        self._append(told)

    def _give_marks(self, answered: int) -> None:
        """Those before the first `answered` sentences and flushes have ended."""
        for name in self._marks.take(answered):
            self._append(Marked(name, self._made))

    def _append(self, event: Event | Sounded) -> None:
        if not self._events:
            self._waiting_since = self._clock.time()
        self._answers += isinstance(event, _ANSWERS)
        self._events.append(event)

    def _report(self, samples: int) -> None:
        assert self._stream is not None
        self._played_at = self._clock.time()
        self._played = max(self._played or 0, min(samples, self._taken))
        if self._state.holds_engine:
            self._stream.played(self._played)

    def _play_on(self) -> None:
        """Report for a listener that cannot, every PLAY_ON_S, while that makes a difference to the engine.

        It is no sign of life: nobody gave one.
        """
        self._playing = None
        if self._played is None or not self._state.holds_engine:
            return
        went_by = self._clock.time() - self._played_at
        self._report(self._played + round(went_by * self.started.sample_rate))
        self._playing = self._clock.call_later(PLAY_ON_S, self._play_on)

    def _stop(self, error: OscineError) -> None:
        self._error = error
        if self._stream is not None and self._state.holds_engine:
            self._stream.stop(error)

    def _stalling(self, what: What) -> str:
        if what is What.STALLED:
            return f"nothing was taken, or reported as played, for {self._limits.stall_s:g} s"
        return (
            f"nothing more was reported as played for {self._limits.pause_s:g} s, and what is left to say waits for "
            "that: to pause for longer, report the same number again now and then"
        )

    async def _room(self) -> None:
        """Wait until so little is left to speak, and for the listener to take, that there may be more."""
        while self._state.holds_engine and (
            self.waiting > MOST_SENTENCES or self._answers + self._marks.placed > MOST_ANSWERS
        ):
            await self._change()

    async def _change(self) -> None:
        """Wait until something has happened."""
        self._changed.clear()
        await self._changed.wait()

    def _later(self, seconds: float, what: What) -> Timer | None:
        return None if math.isinf(seconds) else self._clock.call_later(seconds, lambda: self._apply(what))

    def _quiet_off(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None

    def _watch_on(self) -> None:
        """Look again when the client or the listener will have done nothing for too long, unless they do something."""
        due, _ = self._patience()
        if self._watch is not None and (due < self._watch_due or not self._watched):
            self._watch.cancel()
            self._watch = None
        if self._watch is None and due < math.inf:
            self._watch_due = due
            self._watch = self._clock.call_later(max(0.0, due - self._clock.time()), self._look)

    @property
    def _watched(self) -> bool:
        return self._state.holds_engine or self._state is State.DRAINING

    def _patience(self) -> tuple[float, What | None]:
        """Until when a sign of life is waited for, and what happens without one."""
        if not self._watched:
            return math.inf, None
        if self._events:
            return self._waiting_since + self._limits.stall_s, What.STALLED
        if self._progress.working:
            return math.inf, None
        if self._played is not None and self._played < self._taken and self.waiting:
            return self._active_at + self._limits.pause_s, What.PAUSED
        # Half a sentence that is being spoken waits for text; anything else that is left waits for the engine.
        if self._state.takes_text and self.waiting <= self._planner.speaking:
            return self._active_at + self._limits.idle_s, What.IDLE
        return math.inf, None

    def _look(self) -> None:
        self._watch = None
        due, what = self._patience()
        if what is None or due > self._clock.time():
            self._watch_on()
        else:
            self._apply(what)
