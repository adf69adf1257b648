"""Many texts at a time through one engine: as soon as one has been said to its end, the next takes its place.

The engine steps all of them together, so a GPU is as full as it is with as many callers, and a CPU reads its weights
once for all. What one text costs or breaks is its own.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from oscine_engine.errors import OscineError, Overloaded
from oscine_engine.events import Audio, Done, SessionRequest, Stats
from oscine_engine.front import Front
from oscine_engine.session import Session

PATIENCE = 5
"""Refusals in a row, with nobody else in the way, after which no place is waited for any longer."""


@dataclass(frozen=True, slots=True)
class Job:
    """One text, and how to say it. name: told with what becomes of it.

    ask: called in a thread when its turn has come, so that what a request brings along is in memory only while it is
    needed. It may raise an OscineError, which is then the end of this job.
    """

    name: str
    text: str
    ask: Callable[[], SessionRequest]


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What became of a job: float32 samples, all there are if `error` is None. joins: where its packets begin but the
    first, in samples."""

    job: Job
    samples: NDArray[np.float32]
    joins: tuple[int, ...]
    wall_s: float
    stats: Stats | None
    error: OscineError | None


async def speak_all(front: Front, jobs: Iterable[Job], together: int) -> AsyncGenerator[Said, None]:
    """Say all `jobs`, `together` at a time, in the order in which they end. Errors of one are told with it."""
    waiting = iter(jobs)
    running: set[asyncio.Task[Said]] = set()
    places = _Places(front)
    try:
        while True:
            for job in islice(waiting, together - len(running)):
                running.add(asyncio.create_task(_speak(places, job)))
            if not running:
                return
            ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def speak(front: Front, job: Job) -> Said:
    """Say one job to its end, waiting for a place where the engine has none."""
    return await _speak(_Places(front), job)


class _Places:
    """Opens sessions, of which there are `open` now."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self.open = 0

    @asynccontextmanager
    async def take(self, request: SessionRequest) -> AsyncIterator[Session]:
        """A session, waiting for a place. Raises Overloaded where none comes although nobody else has any: what such a
        request needs will never be free."""
        async with await self._wait(request) as session:
            self.open += 1
            try:
                yield session
            finally:
                self.open -= 1

    async def _wait(self, request: SessionRequest) -> Session:
        alone = 0
        while True:
            try:
                return await self._front.open(request)
            except Overloaded as refused:
                # What was held a moment ago may still be on its way back.
                alone = 0 if self.open else alone + 1
                if alone == PATIENCE:
                    raise
                await asyncio.sleep(refused.retry_after_s)


async def _speak(places: _Places, job: Job) -> Said:
    began = time.monotonic()
    heard: list[NDArray[np.float32]] = []
    starts: list[int] = []
    stats: Stats | None = None
    failed: BaseException | None = None
    try:
        async with places.take(await asyncio.to_thread(job.ask)) as session, asyncio.TaskGroup() as tasks:
            tasks.create_task(_write(session, job.text))
            async for event in session:
                match event:
                    case Audio():
                        heard.append(event.samples)
                        starts.append(event.start_sample)
                    case Done():
                        stats = event.stats
    except* OscineError as group:
        failed = group
        while isinstance(failed, BaseExceptionGroup):
            failed = failed.exceptions[0]
    samples = np.concatenate(heard) if heard else np.zeros(0, np.float32)
    error = failed if isinstance(failed, OscineError) else None
    return Said(job, samples, tuple(starts[1:]), time.monotonic() - began, stats, error)


async def _write(session: Session, text: str) -> None:
    await session.append(text)
    await session.finish()
