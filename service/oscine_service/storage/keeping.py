"""A copy of shared voices beside a service: a process keeps it up to date, and is started again if it ends."""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from oscine_engine.errors import StoreError
from oscine_service.observe import logs
from oscine_service.storage import reports
from oscine_service.storage.address import Address
from oscine_service.storage.copy import Copy
from oscine_service.storage.reports import Report

log = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""A service that starts waits so long for a source that does not answer, or fails."""
LATE_S = 30.0
"""Whoever has not told for so long that all is well hangs, as those do who wait for a file system that is gone."""
_END_S = 5.0
_AGAIN_S, _AGAIN_MOST_S = 1.0, 30.0


@dataclass(frozen=True, slots=True)
class CopyState:
    """up: the last look at the source succeeded, and lately. age_s: since the last one that did; None before the first.
    failing: voices that could not be copied."""

    up: bool
    age_s: float | None
    voices: int
    failing: int


class Keeper:
    """Keeps a copy up to date while `run` runs."""

    def __init__(self, source: Address, folder: Path, complete: bool) -> None:
        """complete: the copy has had all that its source had once."""
        self._source, self._folder, self._complete = source, folder, complete
        self._last = Report(0, "")
        self._good_at: float | None = None
        self._told, self._good = asyncio.Event(), asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def state(self) -> CopyState:
        age = None if self._good_at is None else time.monotonic() - self._good_at
        up = age is not None and age < LATE_S and not self._last.error
        return CopyState(up, age, self._last.voices, self._last.failing)

    async def ready(self) -> None:
        """Wait until the copy is as the source is.

        Only a little where it was so once: an old copy is better than no service. Otherwise as long as copying takes;
        then this raises StoreError for a source that cannot be read, not even with the next attempts.
        """
        if not self._complete:
            await self._told.wait()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._good.wait()
        except TimeoutError:
            if not self._complete:
                raise StoreError(self._last.error) from None
            log.warning("%s has not answered yet; voices are served as they were last known", self._source)

    async def run(self) -> None:
        """Until cancelled."""
        again_s = _AGAIN_S
        while True:
            began = time.monotonic()
            try:
                status = await self._one()
                end = "" if status == reports.TOLD_WHY else f"ended with status {status}"
            except OSError as error:
                end = f"cannot be started: {error.strerror}"
            except (ValueError, TypeError) as error:
                end = f"says what is no report: {error}"
            if end:
                self._hear(replace(self._last, error=f"the process that copies {self._source} {end}"))
            again_s = _AGAIN_S if time.monotonic() - began > _AGAIN_MOST_S else min(2 * again_s, _AGAIN_MOST_S)
            await asyncio.sleep(again_s)

    async def _one(self) -> int:
        """A process from its start to its end."""
        pipe = asyncio.subprocess.PIPE
        level = logging.getLevelName(logging.getLogger().getEffectiveLevel())
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "oscine_service.storage"),
            *("--source", str(self._source), "--copy", str(self._folder)),
            *("--log-level", level, "--log-format", logs.format_now()),
            stdin=pipe,
            stdout=pipe,
        )
        try:
            assert self._process.stdout is not None
            async for line in self._process.stdout:
                self._hear(reports.read(line))
            return await self._process.wait()
        finally:
            await _ended(self._process)
            self._process = None

    def _hear(self, report: Report) -> None:
        if report.error and (report.error != self._last.error):
            log.warning("shared voices are not kept up to date: %s", report.error)
        elif self._last.error and not report.error:
            log.warning("shared voices are up to date again")
        if not report.error:
            self._good_at = time.monotonic()
            self._good.set()
        self._last = report
        self._told.set()


@asynccontextmanager
async def keeping(source: Address, folder: Path) -> AsyncIterator[Keeper]:
    """Keep `folder` a copy of `source` until the block is left; the copy may still be old when it is entered.

    Raises StoreError for a folder that cannot be used for that.
    """
    keeper = Keeper(source, folder, await asyncio.to_thread(_complete, folder, source))
    running = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def _complete(folder: Path, source: Address) -> bool:
    """Make a copy, or look at the one that is there."""
    copy = Copy(folder, str(source))
    try:
        return copy.complete
    finally:
        copy.close()


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Dismiss it, or else kill it."""
    if process.returncode is not None:
        return
    assert process.stdin is not None
    process.stdin.close()
    # Not asyncio.timeout, which says nothing in a task that is cancelled already before Python 3.11.3.
    ending = asyncio.create_task(process.wait())
    if not (await asyncio.wait([ending], timeout=_END_S))[0]:
        process.kill()
        # Not even that ends one that waits for a file system, and the service is not to wait with it.
        await asyncio.wait([ending], timeout=_END_S)
    ending.cancel()
