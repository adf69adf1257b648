"""The requests of a call: the first one, and those that nobody reads any more."""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from oscine_engine.errors import Idle, InvalidInput
from oscine_service.conversation import Calls
from oscine_service.limits import Limits

T = TypeVar("T")
QUIET_S, DRAIN_S = 0.1, 2.0
"""A refused client has stopped sending after this long without a message, and is not waited for any longer."""


async def first(requests: AsyncIterator[T | InvalidInput], limits: Limits, calls: Calls, wanted: str) -> T:
    """The first request. wanted: what the client is told to send where it sends nothing.

    Raises the refusal that came in its place, InvalidInput where the client closes its side without one, Idle where it
    sends nothing for too long, and Unavailable if the service stops.
    """
    seconds = limits.idle_timeout_s
    try:
        async with asyncio.timeout(None if math.isinf(seconds) else seconds):
            request = await calls.unless_stopped(anext(requests, None))
    except TimeoutError as error:
        raise Idle(f"nothing was sent for {seconds:g} s: send {wanted}") from error
    if request is None:
        raise InvalidInput(f"the call has no request: send {wanted}")
    if isinstance(request, InvalidInput):
        raise request
    return request


async def drain(requests: AsyncIterator[Any]) -> None:
    """Let the client finish what it is sending: a write that fails hides the refusal from it (grpc says INTERNAL)."""
    try:
        async with asyncio.timeout(DRAIN_S):
            while await asyncio.wait_for(anext(requests, None), QUIET_S) is not None:
                pass
    except TimeoutError:
        return
