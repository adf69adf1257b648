"""The process that reads recordings: started when there is one, ended when there has been none for a while."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from oscine_engine.errors import InternalError, OscineError, Overloaded, Unavailable
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_service.storage.address import Address
from oscine_service.unit import wire
from oscine_service.voices import frames

log = logging.getLogger(__name__)

STOPPING = "the service is stopping; no voice is made or deleted any more"
WAITING = 8
"""Recordings that may wait for the one that is read."""
HINT_S = 2.0
"""About what a recording takes when the process is cold."""
END_S = 5.0
"""That a service which stops waits for what is being read."""


class Worker:
    """Asks one process, one thing at a time. `close` must follow.

    source: what the store is a copy of, and voices are kept in. longest_s: for one recording; a process that takes
    longer is killed, and the next recording has a new one. idle_s: a process that is asked nothing for so long ends.
    """

    def __init__(
        self,
        store: Path,
        model: Path | None,
        source: Address | None = None,
        *,
        longest_s: float = 60.0,
        idle_s: float = 300.0,
    ) -> None:
        self._command: Sequence[str] = (
            *(sys.executable, "-P", "-m", "oscine_service.voices", "--store", str(store)),
            *(() if source is None else ("--source", str(source))),
            *(() if model is None else ("--model", str(model))),
        )
        self._longest_s, self._idle_s = longest_s, idle_s
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._asking: set[asyncio.Task[frames.Fields]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def ask(self, verb: str, asked: frames.Fields, audio: bytes = b"") -> frames.Fields:
        """What the process answers. Raises its refusal, Overloaded when too many wait, Unavailable once closed.

        Cancelling this stops only the wait for it.
        """
        if self._closed:
            raise Unavailable(STOPPING)
        if len(self._asking) > WAITING:
            raise Overloaded(f"{WAITING} recordings are waiting already; try again", HINT_S * WAITING)
        asking = asyncio.create_task(self._in_turn(frames.pack({"verb": verb, **asked}, audio)))
        self._asking.add(asking)
        asking.add_done_callback(self._done)
        try:
            answer = await asyncio.shield(asking)
        except asyncio.CancelledError:
            if not asking.cancelled():
                raise
            raise Unavailable(STOPPING) from None
        if (error := answer.get("error")) is not None:
            code, message = error
            raise wire.error(pb.Error(code=code, message=message))
        return answer

    async def close(self) -> None:
        """Wait a little for what has begun, then end the process, and with it what is left."""
        self._closed = True
        if self._idle is not None:
            self._idle.cancel()
        try:
            if self._asking:
                await asyncio.wait(self._asking, timeout=END_S)
        finally:
            # Nothing is half done in a store, whenever it ends.
            left = bool(self._asking)
            for asking in self._asking:
                asking.cancel()
            process = self._process
            self._dismiss()
            if process is not None:
                if left:
                    _kill(process)
                await process.wait()

    def _done(self, asking: "asyncio.Task[frames.Fields]") -> None:
        self._asking.discard(asking)
        if not asking.cancelled() and (error := asking.exception()) is not None and not isinstance(error, OscineError):
            log.error("a recording was lost", exc_info=error)

    async def _in_turn(self, frame: bytes) -> frames.Fields:
        async with self._lock:
            if self._idle is not None:
                self._idle.cancel()
            process = await self._started()
            try:
                async with asyncio.timeout(self._longest_s):
                    answer = await _exchange(process, frame)
            except TimeoutError as error:
                await self._replace(process)
                raise InternalError(f"the recording took longer than {self._longest_s:g} s to read") from error
            except (OSError, asyncio.IncompleteReadError) as error:
                await self._replace(process)
                raise InternalError(
                    "the process that read the recording ended; send another recording, or this one once more"
                ) from error
            self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._dismiss)
            return answer

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            pipe = asyncio.subprocess.PIPE
            try:
                self._process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
            except OSError as error:
                raise InternalError(f"no process for recordings can be started: {error.strerror}") from error
        return self._process

    async def _replace(self, process: asyncio.subprocess.Process) -> None:
        """The next recording has a new one."""
        _kill(process)
        await process.wait()
        self._process = None

    def _dismiss(self) -> None:
        """Nothing is being asked: the timer is cancelled by whoever asks."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


async def _exchange(process: asyncio.subprocess.Process, frame: bytes) -> frames.Fields:
    assert process.stdin is not None and process.stdout is not None
    if process.stdin.is_closing():
        # It has ended, and nobody was told yet; not every event loop raises an OSError for who writes then.
        raise BrokenPipeError
    process.stdin.write(frame)
    await process.stdin.drain()
    text, _ = frames.lengths(await process.stdout.readexactly(frames.HEAD.size))
    return frames.fields(await process.stdout.readexactly(text))
