"""NVIDIA Riva's text to speech (gRPC) onto conversations, for clients that were written for it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, TypeAlias

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from oscine_engine.errors import InvalidInput, UnknownVoice
from oscine_engine.front import Front
from oscine_proto.nvidia_riva import riva_tts_pb2 as pb
from oscine_service.audio import SAMPLE_RATE, Encoding, Format, whole
from oscine_service.compat import riva_requests
from oscine_service.conversation import Audio, Calls, Conversation, Flush, Reply, Text, Words
from oscine_service.errors import KNOWN
from oscine_service.grpc.incoming import drain, first
from oscine_service.grpc.refusing import abort, refusal_of
from oscine_service.grpc.sender import Sender
from oscine_service.limits import Limits
from oscine_service.security.principal import current
from oscine_service.voices.library import Library

MODEL = "oscine"
MOST_S = 600
"""Of speech in one answer to `Synthesize`, which is held in memory until it is whole."""
MOST_VOICES = 10_000

Requests: TypeAlias = AsyncIterator["pb.SynthesizeSpeechRequest | InvalidInput"]
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Riva:
    """`handler` is what a grpc server takes."""

    name = pb.DESCRIPTOR.services_by_name["RivaSpeechSynthesis"].full_name

    def __init__(self, front: Front, limits: Limits, calls: Calls, library: Library) -> None:
        self._front, self._limits, self._calls, self._library = front, limits, calls, library

    def handler(self) -> grpc.GenericRpcHandler:
        answer = pb.SynthesizeSpeechResponse.SerializeToString
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Synthesize": grpc.unary_unary_rpc_method_handler(self._whole, riva_requests.parse, answer),
            "SynthesizeOnline": grpc.stream_stream_rpc_method_handler(self._online, riva_requests.parse, answer),
            "GetRivaSynthesisConfig": grpc.unary_unary_rpc_method_handler(
                self._voices, _parse_config, pb.RivaSynthesisConfigResponse.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler(self.name, methods)

    async def _voices(
        self, request: pb.RivaSynthesisConfigRequest | InvalidInput, context: Context
    ) -> pb.RivaSynthesisConfigResponse | None:
        try:
            if isinstance(request, InvalidInput):
                raise request
            if request.model_name not in ("", MODEL):
                raise UnknownVoice(f"model_name: there is no {request.model_name[:80]!r}; there is {MODEL!r}")
            voices = await self._calls.unless_stopped(self._library.all(current()))
        except KNOWN as error:
            await abort(context, error)
            return None
        configs = [
            pb.RivaSynthesisConfigResponse.Config(
                model_name=MODEL,
                parameters={
                    "language_code": riva_requests.LANGUAGES.get(voice.language, voice.language),
                    "voice_name": voice.name,
                    "subvoices": "",
                },
            )
            for voice in voices[:MOST_VOICES]
        ]
        return pb.RivaSynthesisConfigResponse(model_config=configs)

    async def _whole(
        self, request: pb.SynthesizeSpeechRequest | InvalidInput, context: Context
    ) -> pb.SynthesizeSpeechResponse | None:
        with self._calls.joined():
            spoken: list[pb.SynthesizeSpeechResponse] = []
            refusal = request if isinstance(request, InvalidInput) else await refusal_of(self._speak(request, spoken))
            if refusal is not None:
                await abort(context, refusal)
        return spoken[0] if spoken else None

    async def _speak(self, request: pb.SynthesizeSpeechRequest, spoken: list[pb.SynthesizeSpeechResponse]) -> None:
        config = riva_requests.config(request, self._known())
        said = riva_requests.text(request)
        parts, length, words = list[bytes](), 0, list[pb.WordTiming]()
        unpacked = replace(config, format=Format(Encoding.PCM_F32))
        async with Conversation.open(self._front, unpacked, self._limits, self._calls) as talk:
            await talk.put(Text(said))
            await talk.end()
            async for reply in talk:
                words += _words(reply, SAMPLE_RATE)
                if isinstance(reply, Audio):
                    parts += reply.frames
                    length += reply.samples
                    if length > MOST_S * SAMPLE_RATE:
                        raise InvalidInput(f"text: it takes over {MOST_S} s to say; use SynthesizeOnline")
        # Once it is known how long it is: some encodings say so at their start.
        audio = await asyncio.to_thread(whole, config.format, np.frombuffer(b"".join(parts), "<f4"))
        spoken.append(_response(audio, words, request))

    async def _online(self, requests: Requests, context: Context) -> None:
        sender = Sender(context)
        # Up to the last word of a refusal, not only as long as there is a conversation.
        with self._calls.joined():
            refusal = await refusal_of(self._converse(requests, sender))
            if refusal is not None:
                await sender.settle()
                await drain(requests)
                await abort(context, refusal)

    async def _converse(self, requests: Requests, sender: Sender) -> None:
        opening = await first(requests, self._limits, self._calls, "a text")
        config = riva_requests.config(opening, self._known())
        riva_requests.text(opening)
        rate, words = config.format.sample_rate, list[pb.WordTiming]()
        talking = Conversation.open(self._front, config, self._limits, self._calls)
        async with talking as talk, asyncio.TaskGroup() as tasks:
            tasks.create_task(_listen(talk, opening, requests))
            async for reply in talk:
                words += _words(reply, rate)
                if isinstance(reply, Audio):
                    response = _response(b"".join(reply.frames), words, opening)
                    words.clear()
                    await talk.deliver(sender.write(response))
            if words:
                await talk.deliver(sender.write(_response(b"", words, opening)))

    def _known(self) -> dict[str, str]:
        return {name: voice.language for name, voice in self._front.voices.items()}


async def _listen(talk: Conversation, opening: pb.SynthesizeSpeechRequest, requests: Requests) -> None:
    """Until the client closes its side; a bad request ends the input, and all before it is spoken."""
    refusal: InvalidInput | None = None
    before = await _put(talk, "", opening)
    async for request in requests:
        try:
            if isinstance(request, InvalidInput):
                raise request
            riva_requests.same(opening, request)
            before = await _put(talk, before, request)
        except InvalidInput as error:
            refusal = error
            break
    await talk.reports_end()
    await talk.end(refusal)


async def _put(talk: Conversation, before: str, request: pb.SynthesizeSpeechRequest) -> str:
    """Say the text of a request behind `before`, the last one; returns the last one then."""
    said = riva_requests.text(request)
    if not said:
        return before
    await talk.put(Text(riva_requests.joint(before, said) + said))
    if riva_requests.ends_a_sentence(said):
        await talk.put(Flush())
    return said


def _words(reply: Reply, rate: int) -> list[pb.WordTiming]:
    if not isinstance(reply, Words):
        return []
    return [
        pb.WordTiming(
            word=word.text,
            start_time=round(1000 * word.start_sample / rate),
            end_time=round(1000 * word.end_sample / rate),
        )
        for word in reply.words
    ]


def _response(
    audio: bytes, words: list[pb.WordTiming], request: pb.SynthesizeSpeechRequest
) -> pb.SynthesizeSpeechResponse:
    response = pb.SynthesizeSpeechResponse(audio=audio)
    if words:
        response.meta.words.extend(words)
    if request.HasField("id"):
        response.id.CopyFrom(request.id)
    return response


def _parse_config(data: bytes) -> pb.RivaSynthesisConfigRequest | InvalidInput:
    try:
        return pb.RivaSynthesisConfigRequest.FromString(data)
    except DecodeError:
        return InvalidInput("the request is not a RivaSynthesisConfigRequest message")
