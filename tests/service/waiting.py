"""Waiting for what only looking again shows."""

import asyncio
from collections.abc import Awaitable, Callable


async def until(true: Callable[[], Awaitable[bool]], patience_s: float = 60.0) -> None:
    """Raises TimeoutError if it does not become true."""
    async with asyncio.timeout(patience_s):
        while not await true():
            await asyncio.sleep(0.02)
