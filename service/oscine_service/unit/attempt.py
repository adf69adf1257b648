"""One engine process from its start to its end."""

import asyncio
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from oscine_engine.errors import OscineError
from oscine_engine.figures import Figures
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_proto.oscine.unit.v1.unit_pb2_grpc import EngineServiceStub
from oscine_service.unit import figures_wire
from oscine_service.unit.control import Failed, Line, Ready
from oscine_service.unit.options import CHANNEL
from oscine_service.unit.process import EngineProcess
from oscine_service.unit.states import Event
from oscine_service.unit.times import Times

if TYPE_CHECKING:
    from oscine_proto.oscine.unit.v1.unit_pb2_grpc import EngineServiceAsyncStub

log = logging.getLogger(__name__)

LONGEST_FOLDER = 80
"""Bytes of the name of a folder for temporary files: with ours in it, a socket's address holds 107."""
MISSES = 2
"""Heartbeats to miss: one may be lost to a pause of this process, or of the whole machine."""

Command = Callable[[Path], Sequence[str]]
"""The socket to make, in a folder to make -> the command line of an engine process."""


@contextmanager
def _folder() -> Iterator[Path]:
    """A free name for a folder, which is removed if it is there in the end. Raises OSError where none can be made.

    The engine makes it, once it has loaded: a service that is killed before that leaves nothing behind.
    """
    parent = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="oscine-unit-", dir=parent if len(parent) <= LONGEST_FOLDER else "/tmp"))
    folder.rmdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Attempt:
    """Starts at once, and tells READY, LATE and, last, ENDED.

    The socket lies in a folder that only this user can enter, and both are removed as soon as the one connection is
    there: an engine whose connection breaks is replaced, never connected to again.
    """

    def __init__(self, command: Command, times: Times, tell: Callable[[Event], object], name: str = "engine") -> None:
        """name: what its logs begin with."""
        self._command, self._times, self._tell, self._name = command, times, tell, name
        self._process: EngineProcess | None = None
        self._killed = self._dismissed = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stub: EngineServiceAsyncStub | None = None
        self.description = pb.DescribeResponse()
        self.failure: OscineError | None = None
        """What the process said before it ended."""
        self.trouble = ""
        """What became of it, in words."""
        self.started_at = time.monotonic()
        self.ready_at: float | None = None
        self.figures: Figures | None = None
        """What it said last that it had done."""
        self._foreign = False
        self._asked_at: float | None = None
        """When the heartbeat was asked for that has not been answered."""
        self._living = asyncio.create_task(self._live())

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def quiet_s(self) -> float:
        """Seconds that it owes an answer to a heartbeat."""
        return 0.0 if self._asked_at is None else time.monotonic() - self._asked_at

    def kill(self) -> None:
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def dismiss(self) -> None:
        """Ask it to end; LATE comes if it does not."""
        self._dismissed = True
        if self._process is not None:
            self._process.dismiss()
        asyncio.get_running_loop().call_later(self._times.end, self._tell, Event.LATE)

    async def closed(self) -> None:
        """Wait until nothing of it is left."""
        await self._living

    async def _live(self) -> None:
        """Whatever goes wrong here is an attempt that failed: who waits for ENDED would wait for ever."""
        try:
            with _folder() as folder:
                await self._run(folder)
        except OSError as error:
            self.trouble = f"cannot be started: {error.strerror}"
        except Exception as error:
            log.exception("the engine process is lost sight of; it is killed")
            self.trouble = f"was lost sight of: {error}"
            self.kill()
        finally:
            self._tell(Event.ENDED)

    async def _run(self, folder: Path) -> None:
        socket = folder / "engine"
        async with grpc.aio.insecure_channel(f"unix:{socket}", CHANNEL) as channel:
            self._process = await EngineProcess.start(self._command(socket), self._hear, self._name)
            if self._killed:
                self._process.kill()
            if self._dismissed:
                self._process.dismiss()
            watching = asyncio.create_task(self._watch(channel, folder))
            watching.add_done_callback(self._watched)
            try:
                ended = await self._process.ended()
            finally:
                watching.cancel()
            self.trouble = self.trouble or str(ended)

    def _hear(self, line: Line) -> None:
        match line:
            case Ready() if not self._ready.done():
                self._ready.set_result(None)
            case Failed(error=error):
                self.failure = error

    async def _watch(self, channel: grpc.aio.Channel, folder: Path) -> None:
        try:
            async with asyncio.timeout(self._times.load):
                await self._ready
                stub: EngineServiceAsyncStub = EngineServiceStub(channel)
                self.description = await stub.Describe(pb.DescribeRequest())
        except TimeoutError:
            self._late(f"was not ready after {self._times.load:g} s")
            return
        except grpc.aio.AioRpcError as error:
            self._late(f"did not answer: {error.details()}")
            return
        shutil.rmtree(folder, ignore_errors=True)
        self.stub, self.ready_at = stub, time.monotonic()
        self._tell(Event.READY)
        await self._listen(stub)

    async def _listen(self, stub: "EngineServiceAsyncStub") -> None:
        missed = 0
        while missed < MISSES:
            await asyncio.sleep(self._times.beat)
            patience = self._times.hang / MISSES
            asked = time.monotonic()
            self._asked_at = asked if self._asked_at is None else self._asked_at
            try:
                answer = await stub.Beat(pb.BeatRequest(), timeout=patience)
            except grpc.aio.AioRpcError:
                missed += 1
                # An error that comes at once tells of a process that is about to end, or of one without a socket.
                await asyncio.sleep(max(0.0, asked + patience - time.monotonic()))
            else:
                missed, self._asked_at = 0, None
                self._note(answer)
                if not answer.serving:
                    self._late("has met a fault in its loop")
                    return
        self._late(f"has not answered for {self._times.hang:g} s")

    def _note(self, answer: pb.BeatResponse) -> None:
        """What an engine of another release counts otherwise is not shown; that it lives is what matters here."""
        if not answer.HasField("figures"):
            return
        try:
            self.figures = figures_wire.figures(answer.figures)
        except ValueError as error:
            if not self._foreign:
                log.warning("what %s has done is not shown: it is of another release (%s)", self._name, error)
            self._foreign, self.figures = True, None

    def _watched(self, watching: asyncio.Task[None]) -> None:
        """A process that nobody watches any more is given up: should it hang, nobody would know."""
        if not watching.cancelled() and (error := watching.exception()) is not None:
            log.error("the engine process is lost sight of", exc_info=error)
            self._late(f"was lost sight of: {error}")

    def _late(self, trouble: str) -> None:
        if not self._dismissed:
            self.trouble = trouble
            self._tell(Event.LATE)
