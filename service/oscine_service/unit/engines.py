"""Several engine processes behind one port: each call goes to the least loaded of those that serve."""

import asyncio
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Self

from oscine_engine.errors import Overloaded, Unavailable
from oscine_engine.port import Deliver, StreamOptions, StreamPort
from oscine_engine.scheduler.turns import Turns
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_service.unit.attempt import Command
from oscine_service.unit.remote import RemotePort, refused
from oscine_service.unit.states import State
from oscine_service.unit.supervisor import Supervisor
from oscine_service.unit.times import Times


class Engines:
    """A `Port`. `async with Engines(commands) as engines:` keeps one engine process running for each of `commands`.

    Entering waits until one of them is ready, and raises what the first to fail before that failed with: an engine that
    cannot start is told at once. Whoever is not ready by then is waited for no more, and started again for as long as
    it takes: calls need not wait for the slowest, nor end with one that is lost. Enter it in the main thread.
    """

    def __init__(self, commands: Sequence[Command], times: Times | None = None) -> None:
        several = len(commands) > 1
        self.supervisors = [
            Supervisor(command, times, number if several else None, partial(self._other_serves, number))
            for number, command in enumerate(commands)
        ]
        self._turns = Turns()

    @property
    def description(self) -> pb.DescribeResponse:
        """What the engines have loaded, of the first that is ready: all have the same."""
        return next(each for each in self.supervisors if each.port.serving).description

    @property
    def ready(self) -> int:
        """How many of them serve now."""
        return sum(port.serving for port in self._ports)

    @property
    def serving(self) -> bool:
        return any(port.serving for port in self._ports)

    @property
    def admitted(self) -> int:
        return sum(port.admitted for port in self._ports)

    def close(self) -> None:
        """From now on no process follows one that ends."""
        for supervisor in self.supervisors:
            supervisor.close()

    async def open(self, options: StreamOptions, deliver: Deliver) -> StreamPort:
        """As `Port.open`. An engine that refuses by its load, or is lost meanwhile, is followed by the next one.

        Raises Overloaded with the smallest of the hints when all that serve refuse.
        """
        refusals: list[Overloaded] = []
        losses: list[Unavailable] = []
        asked: set[RemotePort] = set()
        while port := self._next(asked):
            asked.add(port)
            try:
                return await port.open(options, deliver)
            except Overloaded as refusal:
                refusals.append(refusal)
            except Unavailable as loss:
                losses.append(loss)
        if refusals:
            raise min(refusals, key=lambda refusal: refusal.retry_after_s)
        if full := [port for port in self._ports if port.serving and port not in asked]:
            raise refused(full, self._turns)
        # One that was lost while it was asked may not have been missed yet, and then counts as serving.
        gone = [port.refusal for port in self._ports if not port.serving]
        raise min((*losses, *gone), key=_promise)

    def _next(self, asked: set[RemotePort]) -> RemotePort | None:
        """The least loaded that serves, has room and was not asked yet; the first of those that are alike.

        One that has not answered for a while comes last, since whoever asks it waits until it does or is given up.
        """
        free = [
            each for each in self.supervisors if each.port.serving and not each.port.full and each.port not in asked
        ]
        chosen = min(free, key=lambda each: (each.quiet, each.port.load), default=None)
        return chosen.port if chosen is not None else None

    def _other_serves(self, number: int) -> bool:
        return any(port.serving for place, port in enumerate(self._ports) if place != number)

    @property
    def _ports(self) -> list[RemotePort]:
        return [supervisor.port for supervisor in self.supervisors]

    async def __aenter__(self) -> Self:
        for supervisor in self.supervisors:
            supervisor.start()
        settling = [asyncio.create_task(supervisor.settled()) for supervisor in self.supervisors]
        try:
            done, _ = await asyncio.wait(settling, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            for supervisor in self.supervisors:
                if supervisor.state in (State.STOPPING, State.STOPPED):  # has failed, and is being cleared away
                    await supervisor.settled()
        except BaseException:
            await self._stop(hurried=False)
            raise
        finally:
            for task in settling:
                task.cancel()
        for supervisor in self.supervisors:
            supervisor.excuse()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask the processes to end and wait for that; if the block was cancelled, kill them."""
        await self._stop(hurried=kind is not None and issubclass(kind, asyncio.CancelledError))

    async def _stop(self, *, hurried: bool) -> None:
        """Whoever cancels this cancels the wait for each, which kills what has not ended."""
        await asyncio.gather(*(supervisor.stop(hurried=hurried) for supervisor in self.supervisors))


def _promise(refusal: Unavailable) -> float:
    """Seconds until it may be tried again; infinity for what promises nothing."""
    return float("inf") if refusal.retry_after_s is None else refusal.retry_after_s
