"""oscine.v1.VoiceService onto a library of voices."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from oscine_engine.errors import Idle, InvalidInput
from oscine_proto.oscine.v1 import voice_pb2 as pb
from oscine_service.conversation.calls import Calls
from oscine_service.errors import KNOWN
from oscine_service.grpc.incoming import drain
from oscine_service.grpc.refusing import abort
from oscine_service.security.principal import current
from oscine_service.voices.library import MAX_AUDIO_BYTES, Library, NewVoice, Origin, Voice, too_large

NAME = pb.DESCRIPTOR.services_by_name["VoiceService"].full_name
MAX_PIECE_BYTES = 1_000_000
PIECE_S, UPLOAD_S = 30.0, 120.0
"""That the next piece of a recording, and all of it, may take to come."""

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)
Pieces: TypeAlias = AsyncIterator["pb.CreateVoiceRequest | InvalidInput"]
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_ORIGINS = {Origin.MODEL: pb.ORIGIN_MODEL, Origin.OWN: pb.ORIGIN_OWN, Origin.SHARED: pb.ORIGIN_SHARED}


class VoiceService:
    """`handler` is what a grpc server takes. calls: by which a service that stops knows what it cuts off."""

    name = NAME

    def __init__(self, library: Library, calls: Calls) -> None:
        self._library, self._calls = library, calls

    def handler(self) -> grpc.GenericRpcHandler:
        # Parsed here, not by a generated servicer: a request that cannot be decoded is the client's fault.
        return grpc.method_handlers_generic_handler(
            NAME,
            {
                "ListVoices": self._unary(pb.ListVoicesRequest, self._list),
                "GetVoice": self._unary(pb.GetVoiceRequest, self._get),
                "DeleteVoice": self._unary(pb.DeleteVoiceRequest, self._delete),
                "CreateVoice": grpc.stream_unary_rpc_method_handler(
                    self._create, _parser(pb.CreateVoiceRequest), pb.CreateVoiceResponse.SerializeToString
                ),
            },
        )

    def _unary(
        self, kind: type[Request], act: Callable[[Request], Awaitable[Answer]]
    ) -> "grpc.RpcMethodHandler[Any, Any]":
        async def answer(request: Request | InvalidInput, context: Context) -> Answer | None:
            try:
                if isinstance(request, InvalidInput):
                    raise request
                return await self._calls.unless_stopped(act(request))
            except KNOWN as error:
                await abort(context, error)
                return None

        return grpc.unary_unary_rpc_method_handler(answer, _parser(kind), _bytes)

    async def _list(self, request: pb.ListVoicesRequest) -> pb.ListVoicesResponse:
        page = await self._library.page(current(), request.page_size, request.page_token)
        return pb.ListVoicesResponse(voices=[_voice(each) for each in page.voices], next_page_token=page.token)

    async def _get(self, request: pb.GetVoiceRequest) -> pb.GetVoiceResponse:
        return pb.GetVoiceResponse(voice=_voice(await self._library.get(current(), request.name)))

    async def _delete(self, request: pb.DeleteVoiceRequest) -> pb.DeleteVoiceResponse:
        await self._library.delete(current(), request.name)
        return pb.DeleteVoiceResponse()

    async def _create(self, pieces: Pieces, context: Context) -> pb.CreateVoiceResponse | None:
        try:
            with self._library.receiving(current()):
                return await self._calls.unless_stopped(self._made(pieces))
        except KNOWN as error:
            # A client whose write fails is told of that by grpc, and not of the reason.
            await drain(pieces)
            await abort(context, error)
            return None

    async def _made(self, pieces: Pieces) -> pb.CreateVoiceResponse:
        try:
            async with asyncio.timeout(UPLOAD_S):
                new, audio = await self._received(pieces)
        except TimeoutError as error:
            raise Idle(f"the recording did not come within {UPLOAD_S:g} s") from error
        return pb.CreateVoiceResponse(voice=_voice(await self._library.create(current(), new, audio)))

    async def _received(self, pieces: Pieces) -> tuple[NewVoice, bytes]:
        new = _new(await _next(pieces))
        await self._library.check(current(), new)
        audio = bytearray()
        while (piece := await _next(pieces)) is not None:
            if piece.WhichOneof("request") != "audio":
                raise InvalidInput("each request behind the config holds audio, the next piece of the recording")
            if len(audio) + len(piece.audio) > MAX_AUDIO_BYTES:
                raise InvalidInput(too_large(len(audio) + len(piece.audio)))
            audio += piece.audio
        return new, bytes(audio)


def _parser(kind: type[Request]) -> Callable[[bytes], Request | InvalidInput]:
    def parse(data: bytes) -> Request | InvalidInput:
        """Returns a refusal instead of raising it: grpc would turn that into INTERNAL."""
        # A piece, and what stands around it.
        if len(data) > MAX_PIECE_BYTES + 64:
            return InvalidInput(f"a request of {len(data)} bytes: send at most {MAX_PIECE_BYTES} in one, and go on")
        try:
            return kind.FromString(data)
        except DecodeError:
            return InvalidInput(f"the request is not a {kind.__name__} message, or its text is not valid UTF-8")

    return parse


def _bytes(message: Message) -> bytes:
    # Bound to the message's own class, unlike Message.SerializeToString.
    return message.SerializeToString()


async def _next(pieces: Pieces) -> pb.CreateVoiceRequest | None:
    try:
        async with asyncio.timeout(PIECE_S):
            piece = await anext(pieces, None)
    except TimeoutError as error:
        raise Idle(f"the recording did not go on for {PIECE_S:g} s: close the sending side behind it") from error
    if isinstance(piece, InvalidInput):
        raise piece
    return piece


def _new(first: pb.CreateVoiceRequest | None) -> NewVoice:
    if first is None or not first.HasField("config"):
        raise InvalidInput("the first request must be a config")
    config = first.config
    return NewVoice(config.name, config.transcript, config.language, config.description, config.replace)


def _voice(voice: Voice) -> pb.Voice:
    return pb.Voice(
        name=voice.name,
        language=voice.language,
        description=voice.description,
        origin=_ORIGINS[voice.origin],
        seconds=voice.seconds,
        created_unix_ms=round(voice.created * 1000),
        transcribed=voice.transcribed,
    )
