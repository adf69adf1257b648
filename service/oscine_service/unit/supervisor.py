"""Keeps one engine process running, and a port to it. What it decides is in `states`, what it watches in `attempt`."""

import asyncio
import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from oscine_engine.errors import OscineError, Unavailable
from oscine_engine.figures import Figures
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_service.unit.attempt import Attempt, Command
from oscine_service.unit.remote import Connection, RemotePort
from oscine_service.unit.states import Action, Event, State, after, wait_s
from oscine_service.unit.times import Times

log = logging.getLogger(__name__)

SHORTEST_HINT_S = 1.0
ELSEWHERE_HINT_S = 0.1
"""Where another engine takes calls, listeners need not wait for this one."""
QUIET_S = 1.0
"""Far longer than a tick, and than what a machine in use takes a process's turn away for."""
STOPPING = "the service is stopping"


class Supervisor:
    """`async with Supervisor(command) as unit:` starts a process, waits until it is ready, and ends the last one.

    Entering raises what the first process failed with, or Unavailable if it said nothing. Enter it in the main thread:
    on Linux an engine process ends with the thread that started it.

    number: among several engines of one service; None for the only one. elsewhere: whether another one takes calls now.
    """

    def __init__(
        self,
        command: Command,
        times: Times | None = None,
        number: int | None = None,
        elsewhere: Callable[[], bool] = lambda: False,
    ) -> None:
        self.state = State.FIRST
        self._name = "the engine" if number is None else f"engine {number}"
        self._elsewhere = elsewhere
        self.port = RemotePort()
        self._command = command
        self._times = times or Times()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._attempt: Attempt | None = None
        self._deaths = 0
        self._starts = 0
        self._load_s = 0.0
        self._hurried = False
        self._settled = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def description(self) -> pb.DescribeResponse:
        """What the engine has loaded."""
        return self._current.description

    @property
    def pid(self) -> int | None:
        """Of the engine process there is now."""
        return self._current.pid

    @property
    def figures(self) -> Figures | None:
        """What the engine process said last that it had done since it started, at most a heartbeat ago; None before."""
        return self._current.figures

    @property
    def starts(self) -> int:
        """Processes that were started after the first one."""
        return self._starts - 1

    @property
    def quiet(self) -> bool:
        """It has not answered for a while: it may come back, but others are the better choice."""
        return self._current.quiet_s > QUIET_S

    async def beat(self) -> pb.BeatResponse:
        """What the engine holds now. Raises Unavailable if there is none, grpc's error if it does not answer."""
        if self._current.stub is None or not self.port.serving:
            raise self.port.refusal
        return await self._current.stub.Beat(pb.BeatRequest(), timeout=self._times.hang)

    def close(self) -> None:
        """From now on no process follows the one there is, and whoever loses it is promised nothing."""
        self._events.put_nowait(Event.CLOSE)

    async def __aenter__(self) -> Self:
        self.start()
        try:
            await self.settled()
        except BaseException:
            await self.stop()
            raise
        return self

    def start(self) -> None:
        """Start the first process; `stop` must follow."""
        self._attempt = self._attempted()
        self._running = asyncio.create_task(self._run())

    async def settled(self) -> None:
        """Wait until the first process is ready. Raises what it failed with, or Unavailable if it said nothing."""
        await self._settled.wait()
        if self.state is State.STOPPED:
            raise self._current.failure or Unavailable(f"the engine process {self._current.trouble}; see its log above")

    def excuse(self) -> None:
        """Nobody waits any longer for the first process: one that fails from now on is followed by another."""
        # At once, not in turn behind an end that is on its way.
        self._apply(Event.EXCUSED)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask the process to end and wait for that; if the block was cancelled, kill it."""
        await self.stop(hurried=kind is not None and issubclass(kind, asyncio.CancelledError))

    @property
    def _current(self) -> Attempt:
        assert self._attempt is not None, "enter the supervisor first"
        return self._attempt

    def _attempted(self) -> Attempt:
        self._starts += 1
        return Attempt(self._command, self._times, self._events.put_nowait, self._name.removeprefix("the "))

    async def stop(self, *, hurried: bool = False) -> None:
        """Ask the process to end, or kill it if `hurried`, and wait for that.

        Whoever cancels this, as a second signal does, gets a killed process, never one that is left behind.
        """
        assert self._running is not None
        self._hurried = self._hurried or hurried
        self._events.put_nowait(Event.STOP)
        cancelled: asyncio.CancelledError | None = None
        while not self._running.done():
            try:
                await asyncio.shield(self._running)
            except asyncio.CancelledError as error:
                cancelled = error
                self._current.kill()
        if cancelled is not None:
            raise cancelled

    async def _run(self) -> None:
        while self.state is not State.STOPPED:
            self._apply(await self._events.get())
        await self._current.closed()
        self._settled.set()

    def _apply(self, event: Event) -> None:
        was = self.state
        self.state, actions = after(was, event)
        log.debug("%s: %s, %s -> %s", self._name, event.name, was.name, self.state.name)
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        attempt = self._current
        match action:
            case Action.CONNECT:
                self._connect(attempt)
            case Action.DISCONNECT:
                self.port.disconnect(self._lost(attempt))
            case Action.KILL:
                log.error("%s's process %s; it is killed", self._name, attempt.trouble or "did not end")
                attempt.kill()
            case Action.RESIGN:
                self.port.explain(Unavailable(STOPPING))
            case Action.DISMISS:
                attempt.dismiss()
                if self._hurried:
                    attempt.kill()
            case Action.WAIT:
                self._wait(attempt)
            case Action.START:
                self._attempt = self._attempted()

    def _connect(self, attempt: Attempt) -> None:
        assert attempt.stub is not None and attempt.ready_at is not None
        self._load_s = attempt.ready_at - attempt.started_at
        self.port.connect(Connection(attempt.stub, attempt.description.max_streams, self._broken))
        log.log(
            logging.WARNING if self._deaths else logging.INFO,
            "%s is ready after %.1f s (process %s)",
            self._name,
            self._load_s,
            attempt.pid,
        )
        self._settled.set()

    def _wait(self, attempt: Attempt) -> None:
        if attempt.ready_at is not None and time.monotonic() - attempt.ready_at >= self._times.steady:
            self._deaths = 0
        self._deaths += 1
        wait = wait_s(self._deaths)
        log.error(
            "%s's process %s (death %d in a row); the next one starts %s",
            self._name,
            self._trouble(attempt),
            self._deaths,
            f"in {wait:g} s" if wait else "now",
        )
        self.port.explain(
            Unavailable(
                f"the engine is being started again (attempt {self._deaths} in a row): its process "
                f"{self._trouble(attempt)}",
                self._hint(wait),
            )
        )
        asyncio.get_running_loop().call_later(wait, self._events.put_nowait, Event.DUE)

    def _broken(self) -> Unavailable:
        """What a stream ends with whose connection breaks before more is known."""
        if self.state in (State.CLOSING, State.STOPPING, State.STOPPED):
            return Unavailable(f"{STOPPING}, and its engine was lost")
        if self._elsewhere():
            return Unavailable("the engine of this call was lost; others take calls", ELSEWHERE_HINT_S)
        return Unavailable("the engine was lost; it is being started again", self._hint(0.0))

    def _lost(self, attempt: Attempt) -> Unavailable:
        if self.state in (State.STOPPING, State.STOPPED):
            why = f", and its engine was lost: its process {attempt.trouble}" if attempt.trouble else ""
            return Unavailable(STOPPING + why)
        if self._elsewhere():
            return Unavailable(
                f"the engine of this call was lost; others take calls: its process {attempt.trouble}", ELSEWHERE_HINT_S
            )
        return Unavailable(
            f"the engine was lost, and is being started again: its process {attempt.trouble}", self._hint(0.0)
        )

    def _trouble(self, attempt: Attempt) -> str:
        failure: OscineError | None = attempt.failure
        return f"failed: {failure}" if failure is not None else attempt.trouble

    def _hint(self, wait: float) -> float:
        return max(SHORTEST_HINT_S, wait + self._load_s)
