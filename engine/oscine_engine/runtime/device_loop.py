"""The thread that owns the models: takes commands between ticks, and ticks while there is something to do.

Everything a stream holds lives in this thread. Other threads only put commands into a queue, so no state is locked, and
a cancelled stream is gone before the next tick.

    state      opening a stream        commands       leaves for
    ---------  ----------------------  -------------  ---------------------------------------
    new        Cancelled               dropped        serving, by `start`
    serving    admission decides       obeyed         closed, by `close`; failed, by a fault
    closed     Cancelled               dropped
    failed     Unavailable             dropped

A fault of one stream ends that stream only (see `core`); what fails the loop is a fault in its own bookkeeping.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import TypeAlias

from oscine_engine.errors import Cancelled, InternalError, OscineError, Unavailable
from oscine_engine.figures import Figures
from oscine_engine.planner import Step
from oscine_engine.port import Deliver, StreamOptions
from oscine_engine.runtime.book import ReadyVoice, VoiceBook
from oscine_engine.runtime.core import Core
from oscine_engine.runtime.memory import give_back
from oscine_engine.runtime.stream import Stream

log = logging.getLogger(__name__)

REST_S = 2.0
"""Without a stream for so long, the loop is thought to be at rest."""
Command: TypeAlias = Callable[[], object]
"""Run in the loop's thread between two ticks."""


class State(Enum):
    NEW = "new"
    SERVING = "serving"
    CLOSED = "closed"
    FAILED = "failed"


class LoopStream:
    """The `StreamPort` of one stream in this process."""

    __slots__ = ("_core", "_post", "_stream")

    def __init__(self, post: Callable[[Command], bool], core: Core, stream: Stream) -> None:
        self._post, self._core, self._stream = post, core, stream

    def speak(self, steps: Sequence[Step], *, mark: bool = False, end: bool = False) -> None:
        if steps or mark or end:
            self._post(lambda: self._core.speak(self._stream, steps, mark=mark, end=end))

    def taken(self, samples: int) -> None:
        self._post(lambda: self._core.taken(self._stream, samples))

    def played(self, samples: int) -> None:
        self._post(lambda: self._core.played(self._stream, samples))

    def stop(self, error: OscineError) -> None:
        self._post(lambda: self._core.end(self._stream, error))


class DeviceLoop:
    """The `Port` in this process. Start with `start`, stop with `close`; all else may be called from any thread.

    make_core: called in the loop's thread before the first command; it may take its time, and what it raises `start`
    raises. book: asked for voices outside that thread.
    """

    def __init__(self, make_core: Callable[[], Core], book: VoiceBook) -> None:
        self._make_core = make_core
        self._book = book
        self._core: Core | None = None
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._gate = threading.Lock()
        """Held for putting a command, so that none comes after the last one was obeyed."""
        self._state = State.NEW
        self._thread = threading.Thread(target=self._run, name="oscine-device", daemon=True)
        self._ready: Future[None] = Future()
        self._registering = asyncio.Lock()
        """Held while a recording that came with a stream is made a voice."""

    @property
    def serving(self) -> bool:
        return self._state is State.SERVING

    @property
    def failed(self) -> bool:
        """The loop has met a fault it cannot go on from: every stream has ended and none will open."""
        return self._state is State.FAILED

    @property
    def admitted(self) -> int:
        return len(self._core.streams) if self._core is not None else 0

    def start(self) -> None:
        """Returns once streams can be opened."""
        self._thread.start()
        self._ready.result()

    def close(self) -> None:
        """End every stream with Cancelled and join the thread. Does nothing before `start`."""
        self._post(self._shut)
        if self._thread.ident is not None:
            self._thread.join()

    async def open(self, options: StreamOptions, deliver: Deliver) -> LoopStream:
        """Admit a stream, between two ticks.

        Raises Overloaded with a hint, UnknownVoice, InvalidInput for a voice that can never fit and for what this model
        cannot do, Unavailable once the loop has failed, Cancelled before `start` and after `close`.
        """
        answer: Future[Stream] = Future()
        core = self._core
        if core is None or not self.serving:
            raise self._refusal()
        voice = await self._voice(options)
        if not self._post(lambda: self._admit(core, options, deliver, voice, answer)):
            raise self._refusal()
        try:
            stream = await asyncio.wrap_future(answer)
        except asyncio.CancelledError:
            answer.add_done_callback(lambda done: self._abandon(core, done))
            raise
        return LoopStream(self._post, core, stream)

    async def _voice(self, options: StreamOptions) -> ReadyVoice:
        """What the book has for it, asked where it may take its time."""
        book, heard = self._book, options.reference
        if not book.waits(options):
            return book.speaking(options)
        if heard is None or await asyncio.to_thread(book.knows, heard):
            return await asyncio.to_thread(book.speaking, options)
        # One thread at a time: whoever asks for a voice of the store needs one, too.
        async with self._registering:
            return await asyncio.to_thread(book.speaking, options)

    def _refusal(self) -> OscineError:
        if self.failed:
            return Unavailable("the engine has failed; restart it")
        return Cancelled("the engine is not running: open sessions inside its `async with` block")

    def ping(self, answer: Callable[[], object]) -> bool:
        """Run `answer` in the loop's thread between two ticks: a sign of life. False, and nothing, if it has ended."""
        return self._post(answer)

    async def figures(self) -> Figures | None:
        """What was done so far, told between two ticks: a sign of life as well. None if the loop has ended."""
        answer: Future[Figures] = Future()
        core = self._core

        def tell() -> None:
            if core is not None and answer.set_running_or_notify_cancel():
                answer.set_result(core.figures())

        if core is None or not self._post(tell):
            return None
        return await asyncio.wrap_future(answer)

    def _post(self, command: Command) -> bool:
        with self._gate:
            if self._state is not State.SERVING:
                return False
            self._commands.put(command)
            return True

    def _admit(
        self, core: Core, options: StreamOptions, deliver: Deliver, voice: ReadyVoice, answer: Future[Stream]
    ) -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            answer.set_result(core.admit(options, deliver, voice))
        except OscineError as error:
            answer.set_exception(error)
        except Exception as error:
            log.exception("a stream could not be opened")
            answer.set_exception(InternalError(f"the stream could not be opened: {error}"))

    def _abandon(self, core: Core, answer: Future[Stream]) -> None:
        """Whoever opened the stream has gone before it was told."""
        if not answer.cancelled() and answer.exception() is None:
            stream = answer.result()
            self._post(lambda: core.end(stream, Cancelled("the stream was cancelled")))

    def _run(self) -> None:
        try:
            core = self._core = self._make_core()
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._state = State.SERVING
        self._ready.set_result(None)
        try:
            while self._state is State.SERVING:
                self._obey(wait=not core.turn())
        except Exception:
            log.critical("the device loop failed: its streams end, and the engine takes no more", exc_info=True)
            self._stop(State.FAILED)
            for stream in list(core.streams):
                try:
                    core.end(stream, InternalError("the engine has failed; restart it"))
                except Exception:
                    log.exception("a stream of the failed loop could not be freed")

    def _obey(self, *, wait: bool) -> None:
        """Run the commands that are there; with `wait`, at least one."""
        try:
            if wait:
                self._next()()
            while True:
                self._commands.get_nowait()()
        except queue.Empty:
            return

    def _next(self) -> Command:
        """Wait for a command. Who has no stream for a while gives back memory, once, and goes on waiting."""
        if not self.admitted:
            try:
                return self._commands.get(timeout=REST_S)
            except queue.Empty:
                give_back()
        return self._commands.get()

    def _shut(self) -> None:
        self._stop(State.CLOSED)
        assert self._core is not None
        for stream in list(self._core.streams):
            self._core.end(stream, Cancelled("the engine is closing"))

    def _stop(self, state: State) -> None:
        """Take no more commands, and obey those that are there: a stream just opened may be among them."""
        with self._gate:
            self._state = state
        self._obey(wait=False)
