"""oscine.v1.SpeechService onto conversations."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc

from oscine_engine.errors import InvalidInput
from oscine_engine.front import Front
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.conversation import Calls, Cancel, Cancelled, Config, Conversation, Text, Verb, talking
from oscine_service.grpc.incoming import drain, first
from oscine_service.grpc.refusing import abort, refusal_of
from oscine_service.grpc.requests import parse, parse_text
from oscine_service.grpc.responses import response
from oscine_service.grpc.sender import Context, Sender
from oscine_service.limits import Limits

Request: TypeAlias = Config | Verb | InvalidInput
Requests: TypeAlias = AsyncIterator[Request]

NAME = pb.DESCRIPTOR.services_by_name["SpeechService"].full_name


class SpeechService:
    """One handler per call, one conversation each; `handler` is what a grpc server takes."""

    name = NAME

    def __init__(self, front: Front, limits: Limits, calls: Calls) -> None:
        self._front = front
        self._limits = limits
        self._calls = calls

    def handler(self) -> grpc.GenericRpcHandler:
        # Parsed here, not by the generated servicer: a request that cannot be decoded is the client's fault.
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Synthesize": grpc.stream_stream_rpc_method_handler(
                self._synthesize,
                request_deserializer=parse,
                response_serializer=pb.SynthesizeResponse.SerializeToString,
            ),
            "SynthesizeText": grpc.unary_stream_rpc_method_handler(
                self._synthesize_text,
                request_deserializer=parse_text,
                response_serializer=pb.SynthesizeResponse.SerializeToString,
            ),
        }
        return grpc.method_handlers_generic_handler(NAME, methods)

    async def _synthesize(self, requests: Requests, context: Context) -> None:
        sender = Sender(context)
        # Up to the last word of a refusal, not only as long as there is a conversation.
        with self._calls.joined():
            refusal = await refusal_of(self._converse(requests, sender))
            if refusal is not None:
                await sender.settle()
                await drain(requests)
                await abort(context, refusal)

    async def _synthesize_text(self, request: tuple[Config, Text] | InvalidInput, context: Context) -> None:
        sender = Sender(context)
        with self._calls.joined():
            refusal = request if isinstance(request, InvalidInput) else await refusal_of(self._speak(*request, sender))
            if refusal is not None:
                await sender.settle()
                await abort(context, refusal)

    async def _converse(self, requests: Requests, sender: Sender) -> None:
        opening = talking(self._front, await self._config(requests), self._limits, self._calls)
        async with opening as talk, asyncio.TaskGroup() as tasks:
            tasks.create_task(_listen(talk, requests))
            interrupted = await _answer(talk, sender)
        if interrupted:
            # What it still sends must not meet a call that has ended: the client would be told of a fault of grpc's.
            await drain(requests)

    async def _speak(self, config: Config, text: Text, sender: Sender) -> None:
        async with talking(self._front, config, self._limits, self._calls) as talk:
            await talk.put(text)
            await talk.end()
            await _answer(talk, sender)

    async def _config(self, requests: Requests) -> Config:
        request = await first(requests, self._limits, self._calls, "a config first")
        if not isinstance(request, Config):
            raise InvalidInput("the first request must be a config")
        return request


async def _answer(talk: Conversation, sender: Sender) -> bool:
    """Write all replies; whether the client interrupted."""
    reply = None
    async for reply in talk:
        await talk.deliver(sender.write(response(reply)))
    return isinstance(reply, Cancelled)


async def _listen(talk: Conversation, requests: Requests) -> None:
    """Until the client closes its side; a bad request ends the input, and all before it is spoken."""
    refusal: InvalidInput | None = None
    async for request in requests:
        match request:
            case Config():
                refusal = InvalidInput("config is only allowed as the first request")
            case InvalidInput():
                refusal = request
            case _:
                await talk.put(request)
        if refusal is not None:
            break
        if isinstance(request, Cancel):
            return
    await talk.reports_end()
    await talk.end(refusal)
