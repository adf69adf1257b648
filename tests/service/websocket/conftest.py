"""A real HTTP port over a small model of random weights."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest_asyncio

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_service.conversation import Calls
from oscine_service.http.app import application
from oscine_service.http.server import serving
from oscine_service.limits import Limits
from tests.service.waiting import left_as_found, until


@dataclass(frozen=True)
class Door:
    engine: Engine
    address: str
    calls: Calls

    async def idle(self) -> None:
        """Wait until the engine holds nothing but its voices."""

        async def free() -> bool:
            return self.engine.load_now == (0, 0) and not self.calls.running

        await until(free, 20)


@asynccontextmanager
async def opened(checkpoint: Checkpoint, limits: Limits | None = None, grace_s: float = 0) -> AsyncIterator[Door]:
    limits, calls = limits or Limits(), Calls()
    async with Engine(
        checkpoint, EngineSettings(max_streams=4, utilisation=math.inf, session=limits.session)
    ) as engine:
        app = application(engine, limits, calls)
        async with serving(app, "127.0.0.1", 0, limits=limits, grace_s=grace_s, calls=calls) as address:
            yield Door(engine, address, calls)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(checkpoint: Checkpoint) -> AsyncIterator[Door]:
    """One port for the tests of a module, which therefore share its event loop."""
    async with opened(checkpoint) as door:
        yield door


@pytest_asyncio.fixture(loop_scope="module")
async def door(shared: Door) -> AsyncIterator[Door]:
    async with left_as_found(shared) as found:
        yield found
