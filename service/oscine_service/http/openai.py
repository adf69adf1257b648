"""OpenAI's speech API: `POST /v1/audio/speech` and `GET /v1/models`."""

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from oscine_codecs import pcm
from oscine_engine.errors import InvalidInput
from oscine_engine.front import Front
from oscine_service.audio import Encoding, Format, has_head, whole
from oscine_service.conversation import Audio, Calls, Config, Conversation, Done, Text
from oscine_service.errors import KNOWN
from oscine_service.http import body, openai_names
from oscine_service.http.errors import envelope
from oscine_service.http.openai_names import MODELS, UnknownModel
from oscine_service.http.openai_request import BadField, parse
from oscine_service.http.streaming import Spoken
from oscine_service.limits import Limits
from oscine_service.security.principal import current
from oscine_service.voices.library import Library

MAX_BODY_BYTES = 12 << 20
"""A recording of the size that is taken fits, in base64."""
LONG_BODY = 1 << 16
"""Bytes from which on reading a body takes milliseconds, for which an event loop should not be held up."""
SAMPLES = Format(Encoding.PCM_F32)
"""What a file is made of that cannot be begun before its end."""
FIELD_OF = {
    "seed": "seed",
    "speed": "speed",
    "language": "language",
    "instruction": "instructions",
    "reference": "ref_audio",
    "reference.audio": "ref_audio",
    "reference.transcript": "ref_text",
}
"""What the engine calls a wish, by which its refusals begin -> the field that carries it."""
CREATED = 1767225600
"""When the models were, for clients that want to know: the first day of 2026."""


def routes(
    front: Front, limits: Limits, calls: Calls, voices: Mapping[str, str], library: Library | None = None
) -> list[Route]:
    """voices: which of the front's a name in a request stands for, where that is set. library: what callers have
    stored, which comes before that."""
    voice_of = openai_names.voices(front.voices, voices)
    models = {name: _model(name) for name in MODELS}

    async def speech(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise BadField("send the request as JSON, with the header Content-Type: application/json")
        sent = await body.read(request, MAX_BODY_BYTES)
        asked = await asyncio.to_thread(parse, sent) if len(sent) > LONG_BODY else parse(sent)
        session = asked.session
        if session.voice is not None and (meant := voice_of(session.voice)) != session.voice:
            kept = library is not None and await library.keeps(current(), session.voice)
            session = session if kept else replace(session, voice=meant)
        text, format, stream, events = asked.text, asked.format, asked.stream, asked.events
        entire = not stream and has_head(format)
        opening = _opening(front, Config(session, SAMPLES if entire else format), limits, calls)
        # What is sent below holds what it names, and a recording is large.
        del asked, session
        # Some clients warn where there is none.
        headers = {"x-request-id": f"req_{secrets.token_hex(16)}"}
        if events:
            return Spoken(opening, lambda talk: _events(talk, text), "text/event-stream", headers)
        if stream:
            return Spoken(opening, lambda talk: _bytes(talk, text), format.media_type, headers)
        response: Spoken

        async def file(talk: Conversation) -> AsyncIterator[bytes]:
            data = b"".join([data async for data in _bytes(talk, text)])
            if entire:
                data = await asyncio.to_thread(whole, format, pcm.decode_f32(data))
            response.headers["content-length"] = str(len(data))
            yield data

        response = Spoken(opening, file, format.media_type, headers)
        return response

    async def listed(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": list(models.values())})

    async def one(request: Request) -> Response:
        if (name := request.path_params["name"]) not in models:
            raise UnknownModel(f"there is no model {name!r}; there are {', '.join(MODELS)}")
        return JSONResponse(models[name])

    return [
        Route("/v1/audio/speech", speech, methods=["POST"]),
        Route("/v1/models", listed, methods=["GET"]),
        Route("/v1/models/{name}", one, methods=["GET"]),
    ]


@asynccontextmanager
async def _opening(front: Front, config: Config, limits: Limits, calls: Calls) -> AsyncIterator[Conversation]:
    """A conversation; what is refused of it is refused for the field of the request that it came from."""
    opened = Conversation.open(front, config, limits, calls)
    del config
    try:
        async with opened as talk:
            yield talk
    except InvalidInput as error:
        wish, colon, why = error.message.partition(":")
        field = FIELD_OF.get(wish)
        if field is None:
            raise
        raise BadField(field + colon + why, field) from error


async def _replies(talk: Conversation, text: str) -> AsyncIterator[Audio | Done]:
    await talk.put(Text(text))
    await talk.end()
    async for reply in talk:
        if isinstance(reply, Audio | Done):
            yield reply


async def _bytes(talk: Conversation, text: str) -> AsyncIterator[bytes]:
    async for reply in _replies(talk, text):
        if isinstance(reply, Audio):
            yield b"".join(reply.frames)


async def _events(talk: Conversation, text: str) -> AsyncIterator[bytes]:
    begun = False
    try:
        async for reply in _replies(talk, text):
            if isinstance(reply, Audio) and (data := b"".join(reply.frames)):
                begun = True
                yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})
            elif isinstance(reply, Done):
                yield _event({"type": "speech.audio.done", "usage": _usage(len(text), reply.stats.speech_tokens)})
    except KNOWN as error:
        # Told in words where no status can tell it any more; and the connection is cut behind it, for who does not read
        # them.
        if begun:
            yield b"data: " + bytes(envelope(error).body) + b"\n\n"
        raise


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def _usage(characters: int, speech_tokens: int) -> dict[str, int]:
    return {
        "input_tokens": characters,
        "output_tokens": speech_tokens,
        "total_tokens": characters + speech_tokens,
    }


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "oscine"}
