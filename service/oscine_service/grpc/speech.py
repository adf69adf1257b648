"""oscine.v1.SpeechService onto engine sessions."""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import TypeAlias

import grpc

from oscine_engine.engine import Engine
from oscine_engine.errors import InvalidInput
from oscine_engine.session import Session
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.errors import Idle
from oscine_service.grpc.requests import Config, Flush, Request, Text, parse
from oscine_service.grpc.responses import Responses
from oscine_service.grpc.sender import Context, Sender
from oscine_service.grpc.status import KNOWN, retry_after, status
from oscine_service.limits import Limits

Requests: TypeAlias = AsyncIterator[Request | InvalidInput]

QUIET_S, DRAIN_S = 0.1, 2.0
"""A refused client has stopped sending after this long without a message, and is not waited for any longer."""

NAME = pb.DESCRIPTOR.services_by_name["SpeechService"].full_name


class SpeechService:
    """One handler per call, one session each; `handler` is what a grpc server takes."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self._engine = engine
        self._limits = limits

    def handler(self) -> grpc.GenericRpcHandler:
        # Parsed here, not by the generated servicer: a request that cannot be decoded is the client's fault.
        synthesize = grpc.stream_stream_rpc_method_handler(
            self._synthesize,
            request_deserializer=parse,
            response_serializer=pb.SynthesizeResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(NAME, {"Synthesize": synthesize})

    async def _synthesize(self, requests: Requests, context: Context) -> None:
        sender = Sender(context, self._limits.write_timeout_s)
        try:
            refusal = await self._converse(requests, sender)
        except* KNOWN as group:
            refusal = _first(group)
        if refusal is not None:
            await sender.settle()
            await _drain(requests)
            await context.abort(status(refusal), str(refusal), retry_after(refusal))

    async def _converse(self, requests: Requests, sender: Sender) -> Exception | None:
        """Returns the refusal of a request that came too late to undo what was accepted before it."""
        reader = _Reader(requests, sender, self._limits.idle_timeout_s)
        config = await reader.next()
        match config:
            case None:
                raise InvalidInput("the call has no request: send a config first")
            case InvalidInput():
                raise config
            case Text() | Flush():
                raise InvalidInput("the first request must be a config")
        responses = Responses(config.format)
        async with await self._engine.open(config.session) as session, asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(_listen(session, reader))
            async for event in session:
                # Opus takes some 10 ms for a packet of this size, and other calls live on this event loop.
                for response in await asyncio.to_thread(list, responses.of(event)):
                    await sender.send(response)
        return listening.result()


class _Reader:
    """Requests of one call, each waited for as long as the client may be idle."""

    def __init__(self, requests: Requests, sender: Sender, timeout_s: float) -> None:
        self._requests = requests
        self._sender = sender
        self._timeout = timeout_s

    async def next(self, session: Session | None = None) -> Request | InvalidInput | None:
        """The next request, None after the last. Raises Idle if none comes while `session` has nothing to say."""
        clock = asyncio.get_running_loop().time
        read = asyncio.ensure_future(anext(self._requests, None))
        try:
            quiet_since = clock()
            while not read.done():
                left = max(quiet_since, self._sender.sent_at) + self._timeout - clock()
                if (session is not None and session.working) or self._sender.writing:
                    quiet_since, left = clock(), self._timeout
                if left <= 0:
                    raise Idle(f"nothing was sent for {self._timeout:g} s: close the sending side to end a call")
                await asyncio.wait([read], timeout=None if math.isinf(left) else left)
            return read.result()
        finally:
            read.cancel()


async def _listen(session: Session, reader: _Reader) -> InvalidInput | None:
    """Feed the session until the client closes its side; a bad request ends the input, and all before it is spoken."""
    refusal: InvalidInput | None = None
    spoken = False
    while (request := await reader.next(session)) is not None:
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


async def _drain(requests: Requests) -> None:
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
