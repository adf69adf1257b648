"""Writes the responses of one call."""

import asyncio
from typing import TypeAlias

import grpc

from oscine_engine.errors import InvalidInput, Stalled
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.grpc.requests import Request

Context: TypeAlias = "grpc.aio.ServicerContext[Request | InvalidInput, pb.SynthesizeResponse]"


class Sender:
    """Sends one response after another, each to be taken within `timeout_s` of the listener's last sign of life.

    samples: of speech, in the responses that were handed to the transport.

    A write that has begun cannot be taken back: cancelling `send` only stops waiting for it. A call must not be aborted
    before `settle`, or grpc refuses the abort and the client waits for ever.
    """

    def __init__(self, context: Context, timeout_s: float) -> None:
        self._context = context
        self._timeout = timeout_s
        self._write: asyncio.Future[None] | None = None
        self.samples = 0
        self._now = asyncio.get_running_loop().time
        self._alive_at = self._now()

    def alive(self) -> None:
        """The listener has given a sign of life other than taking a response."""
        self._alive_at = self._now()

    async def send(self, response: pb.SynthesizeResponse) -> None:
        """Raises Stalled if the client's side does not take it in time."""
        self._write = asyncio.ensure_future(self._context.write(response))
        self._write.add_done_callback(lambda write: write.cancelled() or write.exception())
        self.samples += response.audio.samples
        self.alive()
        while not self._write.done():
            left = self._alive_at + self._timeout - self._now()
            if left <= 0:
                raise Stalled(f"no response was taken for {self._timeout:g} s: read them as they come")
            await asyncio.wait([self._write], timeout=left)
        await self._write

    async def settle(self) -> None:
        """Wait for a write that a `send` left behind, whatever comes of it."""
        if self._write is not None:
            await asyncio.wait([self._write])
