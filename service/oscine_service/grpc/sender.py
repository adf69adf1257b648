"""Writes the responses of one call."""

import asyncio
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import Message

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Sender:
    """Begins one write after another.

    A write that has begun cannot be taken back. A call must not be aborted before `settle`, or grpc refuses the abort
    and the client waits for ever.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._write: asyncio.Future[None] | None = None

    def write(self, response: Message) -> asyncio.Future[None]:
        """Done once the client's side has taken it."""
        self._write = asyncio.ensure_future(self._context.write(response))
        self._write.add_done_callback(lambda write: write.cancelled() or write.exception())
        return self._write

    async def settle(self) -> None:
        """Wait for a write that was left behind, whatever comes of it."""
        if self._write is not None:
            await asyncio.wait([self._write])
