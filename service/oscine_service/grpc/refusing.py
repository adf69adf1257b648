"""Saying no, so that the client hears it."""

from collections.abc import Awaitable
from typing import Any

import grpc

from oscine_service.errors import KNOWN, leaf
from oscine_service.grpc.status import status, trailing

MAX_DETAILS = 800
"""Characters of a status message, at most nine bytes each on the wire; a client takes 8 KiB of all it is told."""


async def abort(context: "grpc.aio.ServicerContext[Any, Any]", refusal: Exception) -> None:
    """End the call with the status of a refusal that the table of errors knows."""
    details = str(refusal)[:MAX_DETAILS]
    await context.abort(status(refusal), details, trailing(refusal, details))


async def refusal_of(call: Awaitable[None]) -> Exception | None:
    """What a call is refused with, if anything."""
    refusal: Exception | None = None
    try:
        await call
    except* KNOWN as group:
        refusal = leaf(group)
    return refusal
