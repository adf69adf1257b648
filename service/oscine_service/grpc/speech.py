"""oscine.v1.SpeechService onto engine sessions."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

import grpc

from oscine_engine.engine import Engine
from oscine_engine.errors import InvalidInput
from oscine_engine.session import Session
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.grpc.requests import Config, Flush, Request, Text, parse
from oscine_service.grpc.responses import Responses
from oscine_service.grpc.status import KNOWN, retry_after, status

Context: TypeAlias = "grpc.aio.ServicerContext[Request | InvalidInput, pb.SynthesizeResponse]"

QUIET_S, DRAIN_S = 0.1, 2.0
"""A refused client has stopped sending after this long without a message, and is not waited for any longer."""

NAME = pb.DESCRIPTOR.services_by_name["SpeechService"].full_name


class _Sender:
    """Writes responses of one call.

    A write that has begun cannot be taken back: cancelling `send` only stops waiting for it. A call must not be aborted
    before `settle`, or grpc refuses the abort and the client waits for ever.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._write: asyncio.Future[None] | None = None

    async def send(self, response: pb.SynthesizeResponse) -> None:
        self._write = asyncio.ensure_future(self._context.write(response))
        self._write.add_done_callback(lambda write: write.cancelled() or write.exception())
        await asyncio.shield(self._write)

    async def settle(self) -> None:
        """Wait for a write that a cancelled `send` left behind, whatever comes of it."""
        if self._write is not None:
            await asyncio.wait([self._write])


class SpeechService:
    """One handler per call, one session each; `handler` is what a grpc server takes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def handler(self) -> grpc.GenericRpcHandler:
        # Parsed here, not by the generated servicer: a request that cannot be decoded is the client's fault.
        synthesize = grpc.stream_stream_rpc_method_handler(
            self._synthesize,
            request_deserializer=parse,
            response_serializer=pb.SynthesizeResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(NAME, {"Synthesize": synthesize})

    async def _synthesize(self, requests: AsyncIterator[Request | InvalidInput], context: Context) -> None:
        sender = _Sender(context)
        try:
            refusal = await self._converse(requests, sender)
        except* KNOWN as group:
            refusal = _first(group)
        if refusal is not None:
            await sender.settle()
            await _drain(requests)
            await context.abort(status(refusal), str(refusal), retry_after(refusal))

    async def _converse(self, requests: AsyncIterator[Request | InvalidInput], sender: _Sender) -> Exception | None:
        """Returns the refusal of a request that came too late to undo what was accepted before it."""
        config = await anext(requests, None)
        match config:
            case None:
                raise InvalidInput("the call has no request: send a config first")
            case InvalidInput():
                raise config
            case Text() | Flush():
                raise InvalidInput("the first request must be a config")
        responses = Responses(config.format)
        async with await self._engine.open(config.session) as session, asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(_listen(session, requests))
            async for event in session:
                for response in responses.of(event):
                    await sender.send(response)
        return listening.result()


async def _listen(session: Session, requests: AsyncIterator[Request | InvalidInput]) -> InvalidInput | None:
    """Feed the session until the client closes its side; a bad request ends the input, and all before it is spoken."""
    refusal: InvalidInput | None = None
    spoken = False
    async for request in requests:
        match request:
            case Text(text=text):
                await session.append(text)
                spoken = True
            case Flush():
                await session.flush()
            case Config():
                refusal = InvalidInput("config is only allowed as the first request")
            case InvalidInput():
                refusal = request
        if refusal is not None:
            break
    if refusal is not None and not spoken:
        raise refusal
    await session.finish()
    return refusal


async def _drain(requests: AsyncIterator[Request | InvalidInput]) -> None:
    """Let the client finish what it is sending: a write that fails hides the refusal from it (grpc says INTERNAL)."""
    try:
        async with asyncio.timeout(DRAIN_S):
            while await asyncio.wait_for(anext(requests, None), QUIET_S) is not None:
                pass
    except TimeoutError:
        return


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    """The request's own error where there is one: what else fails then is a consequence."""
    errors = list(_leaves(group))
    return next((error for error in errors if isinstance(error, InvalidInput)), errors[0])


def _leaves(group: BaseExceptionGroup[Exception]) -> "list[Exception]":
    leaves: list[Exception] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
