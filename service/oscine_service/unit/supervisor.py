"""Keeps one engine process running, and a port to it. What it decides is in `states`, what it watches in `attempt`."""

import asyncio
import logging
import time
from types import TracebackType
from typing import Self

from oscine_engine.errors import OscineError, Unavailable
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_service.unit.attempt import Attempt, Command
from oscine_service.unit.remote import Connection, RemotePort
from oscine_service.unit.states import Action, Event, State, after, wait_s
from oscine_service.unit.times import Times

log = logging.getLogger(__name__)

SHORTEST_HINT_S = 1.0
STOPPING = "the service is stopping"


class Supervisor:
    """`async with Supervisor(command) as unit:` starts a process, waits until it is ready, and ends the last one.

    Entering raises what the first process failed with, or Unavailable if it said nothing. Enter it in the main thread:
    on Linux an engine process ends with the thread that started it.
    """

    def __init__(self, command: Command, times: Times | None = None) -> None:
        self.state = State.FIRST
        self.port = RemotePort()
        self._command = command
        self._times = times or Times()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._attempt: Attempt | None = None
        self._deaths = 0
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

    async def beat(self) -> pb.BeatResponse:
        """What the engine holds now. Raises Unavailable if there is none, grpc's error if it does not answer."""
        if self._current.stub is None or not self.port.serving:
            raise self.port.refusal
        return await self._current.stub.Beat(pb.BeatRequest(), timeout=self._times.hang)

    def close(self) -> None:
        """From now on no process follows the one there is, and whoever loses it is promised nothing."""
        self._events.put_nowait(Event.CLOSE)

    async def __aenter__(self) -> Self:
        self._attempt = Attempt(self._command, self._times, self._events.put_nowait)
        self._running = asyncio.create_task(self._run())
        try:
            await self._settled.wait()
        except asyncio.CancelledError:
            await self._stop()
            raise
        if self.state is State.STOPPED:
            await self._stop()
            raise self._current.failure or Unavailable(f"the engine process {self._current.trouble}; see its log above")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask the process to end and wait for that; if the block was cancelled, kill it."""
        self._hurried = kind is not None and issubclass(kind, asyncio.CancelledError)
        await self._stop()

    @property
    def _current(self) -> Attempt:
        assert self._attempt is not None, "enter the supervisor first"
        return self._attempt

    async def _stop(self) -> None:
        """Whoever cancels this, as a second signal does, gets a killed process, never one that is left behind."""
        assert self._running is not None
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
            event = await self._events.get()
            was = self.state
            self.state, actions = after(was, event)
            log.debug("engine process: %s, %s -> %s", event.name, was.name, self.state.name)
            for action in actions:
                self._do(action)
        await self._current.closed()
        self._settled.set()

    def _do(self, action: Action) -> None:
        attempt = self._current
        match action:
            case Action.CONNECT:
                self._connect(attempt)
            case Action.DISCONNECT:
                self.port.disconnect(self._lost(attempt))
            case Action.KILL:
                log.error("the engine process %s; it is killed", attempt.trouble or "did not end")
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
                self._attempt = Attempt(self._command, self._times, self._events.put_nowait)

    def _connect(self, attempt: Attempt) -> None:
        assert attempt.stub is not None and attempt.ready_at is not None
        self._load_s = attempt.ready_at - attempt.started_at
        self.port.connect(Connection(attempt.stub, attempt.description.max_streams, self._broken))
        log.log(
            logging.WARNING if self._deaths else logging.INFO,
            "the engine is ready after %.1f s (process %s)",
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
            "the engine process %s (death %d in a row); the next one starts %s",
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
        return Unavailable("the engine was lost; it is being started again", self._hint(0.0))

    def _lost(self, attempt: Attempt) -> Unavailable:
        if self.state in (State.STOPPING, State.STOPPED):
            why = f", and its engine was lost: its process {attempt.trouble}" if attempt.trouble else ""
            return Unavailable(STOPPING + why)
        return Unavailable(
            f"the engine was lost, and is being started again: its process {attempt.trouble}", self._hint(0.0)
        )

    def _trouble(self, attempt: Attempt) -> str:
        failure: OscineError | None = attempt.failure
        return f"failed: {failure}" if failure is not None else attempt.trouble

    def _hint(self, wait: float) -> float:
        return max(SHORTEST_HINT_S, wait + self._load_s)
