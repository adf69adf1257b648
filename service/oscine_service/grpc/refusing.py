"""Saying no, so that the client hears it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from oscine_service.grpc.status import retry_after, status

QUIET_S, DRAIN_S = 0.1, 2.0
"""A refused client has stopped sending after this long without a message, and is not waited for any longer."""
MAX_DETAILS = 800
"""Characters of a status message, at most nine bytes each on the wire; a client takes 8 KiB of all it is told."""


async def abort(context: "grpc.aio.ServicerContext[Any, Any]", refusal: Exception) -> None:
    """End the call with the status of a refusal that the table of errors knows."""
    details = str(refusal)[:MAX_DETAILS]
    await context.abort(status(refusal), details, retry_after(refusal, details))


async def drain(requests: AsyncIterator[Any]) -> None:
    """Let the client finish what it is sending: a write that fails hides the refusal from it (grpc says INTERNAL)."""
    try:
        async with asyncio.timeout(DRAIN_S):
            while await asyncio.wait_for(anext(requests, None), QUIET_S) is not None:
                pass
    except TimeoutError:
        return
