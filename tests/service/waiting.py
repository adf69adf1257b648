"""Waiting for what only looking again shows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar


class Shared(Protocol):
    """What several tests use one after the other."""

    async def idle(self) -> None:
        """Wait until nothing of a test is left in it."""


S = TypeVar("S", bound=Shared)


@asynccontextmanager
async def left_as_found(shared: S) -> AsyncIterator[S]:
    """`shared`, with nothing of the test before left in it, and nothing of this one after."""
    await shared.idle()
    yield shared
    await shared.idle()


async def until(true: Callable[[], Awaitable[bool]], patience_s: float = 60.0) -> None:
    """Raises TimeoutError if it does not become true."""
    async with asyncio.timeout(patience_s):
        while not await true():
            await asyncio.sleep(0.02)
