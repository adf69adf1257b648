"""`GET /openapi.json`: what the HTTP port serves, for people and for tools that make clients (OpenAPI 3.1)."""

from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from oscine_engine.front import MAX_SEED
from oscine_engine.options import FASTEST, LANGUAGES, MAX_TRANSCRIPT, SLOWEST
from oscine_service.audio.formats import RATES
from oscine_service.conversation.verbs import MAX_VOICE
from oscine_service.http import openapi_calls, openapi_door, openapi_voices
from oscine_service.http.openai_names import MODELS, STOCK_VOICES
from oscine_service.http.openai_request import (
    DEFAULT_FORMAT,
    FIELDS,
    FORMATS,
    MAX_INPUT,
    MAX_INSTRUCTIONS,
    STREAM_FORMATS,
)

Schema = dict[str, Any]


def routes() -> list[Route]:
    page = document()

    async def show(request: Request) -> JSONResponse:
        return JSONResponse(page)

    return [Route("/openapi.json", show, methods=["GET"])]


def document() -> Schema:
    """All of it; the WebSocket protocols have a page of their own, since OpenAPI cannot describe them."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Oscine",
            "version": version("oscine"),
            "description": "Text in, speech out. Beside these paths there are gRPC and WebSocket, over which text may "
            "come as it is written.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This service."}],
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": {
            "/v1/audio/speech": {"post": _SPEECH},
            "/v1/models": {"get": _MODELS},
            "/v1/models/{model}": {"get": _MODEL},
            **openapi_voices.paths(_refusals(400, 401, 408, 413, 429, 500, 501, 503), _refusals(403, 404, 409)),
            **openapi_calls.paths(_refusals(401, 403), _refusals(404), _refusals(400, 408, 409, 413, 429, 501, 503)),
            **openapi_door.paths(_refusals(400, 401, 413), _refusals(403)),
            "/livez": {"get": _probe("The process runs.", 200)},
            "/readyz": {"get": _probe("Calls can be taken.", 200, 503)},
        },
        "components": {
            "schemas": {
                "SpeechRequest": _REQUEST,
                "SpeechEvent": _EVENT,
                "Model": _MODEL_SCHEMA,
                "Error": _ERROR,
                **openapi_voices.SCHEMAS,
                **openapi_calls.SCHEMAS,
                **openapi_door.SCHEMAS,
            },
            "responses": {"Error": _json("What is wrong, and what to do.", "Error")},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(description: str, schema: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": _ref(schema)}}}


def _refusals(*statuses: int) -> dict[str, Schema]:
    return {str(status): {"$ref": "#/components/responses/Error"} for status in statuses}


def _probe(summary: str, *statuses: int) -> Schema:
    told = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}
    answer = {"description": summary, "content": {"application/json": {"schema": told}}}
    return {
        "operationId": "alive" if len(statuses) == 1 else "ready",
        "summary": summary,
        "security": [{}],
        "responses": {str(status): {**answer, "description": _PROBES[status]} for status in statuses},
    }


_PROBES = {200: "It is so.", 503: "Not now."}
_OF: dict[str, Schema] = {
    "model": {"type": "string", "enum": list(MODELS)},
    "input": {"type": "string", "minLength": 1, "maxLength": MAX_INPUT},
    "voice": {
        "oneOf": [
            {"type": "string", "minLength": 1, "maxLength": MAX_VOICE, "examples": [STOCK_VOICES[0]]},
            {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string", "minLength": 1, "maxLength": MAX_VOICE}},
                "additionalProperties": False,
            },
            {"type": "null"},
        ]
    },
    "instructions": {"type": ["string", "null"], "maxLength": MAX_INSTRUCTIONS},
    "response_format": {"type": ["string", "null"], "enum": [*FORMATS, None], "default": DEFAULT_FORMAT},
    "speed": {"type": ["number", "null"], "minimum": SLOWEST, "maximum": FASTEST, "default": 1},
    "stream_format": {"type": ["string", "null"], "enum": [*STREAM_FORMATS, None], "default": STREAM_FORMATS[0]},
    "stream": {"type": ["boolean", "null"], "default": True},
    "sample_rate": {"type": ["integer", "null"], "enum": [*RATES, None], "default": 24000},
    "language": {"type": ["string", "null"], "enum": [*LANGUAGES, None]},
    "ref_audio": {"type": ["string", "null"], "minLength": 1},
    "ref_text": {"type": ["string", "null"], "maxLength": MAX_TRANSCRIPT},
    "seed": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_SEED},
}
_REQUEST: Schema = {
    "type": "object",
    "required": ["model", "input"],
    "properties": {name: {"description": FIELDS[name], **_OF[name]} for name in FIELDS},
    "additionalProperties": False,
}
_EVENT: Schema = {
    "description": "One of the events of a stream. With an `error` in it, the connection ends behind it.",
    "oneOf": [
        {
            "type": "object",
            "required": ["type", "audio"],
            "properties": {
                "type": {"const": "speech.audio.delta"},
                "audio": {"type": "string", "contentEncoding": "base64"},
            },
        },
        {
            "type": "object",
            "required": ["type", "usage"],
            "properties": {
                "type": {"const": "speech.audio.done"},
                "usage": {
                    "type": "object",
                    "required": ["input_tokens", "output_tokens", "total_tokens"],
                    "properties": {
                        "input_tokens": {"type": "integer", "description": "Characters of the input."},
                        "output_tokens": {"type": "integer", "description": "Speech tokens, 25 a second."},
                        "total_tokens": {"type": "integer", "description": "Both."},
                    },
                },
            },
        },
        _ref("Error"),
    ],
}
_MODEL_SCHEMA: Schema = {
    "type": "object",
    "required": ["id", "object", "created", "owned_by"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "model"},
        "created": {"type": "integer"},
        "owned_by": {"type": "string"},
    },
}
_ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"enum": ["invalid_request_error", "rate_limit_error", "server_error"]},
                "param": {"type": ["string", "null"], "description": "The field that it is about."},
                "code": {"type": "string", "description": "Stable, the same in every protocol."},
            },
        }
    },
}
_MEDIA = ("audio/mpeg", "audio/ogg", "audio/aac", "audio/flac", "audio/wav", "audio/pcm")
_SPEECH: Schema = {
    "operationId": "createSpeech",
    "summary": "Speak a text, as OpenAI's API does.",
    "description": "The response begins with the first sound. Until then an error has a status of its own; one that "
    "comes later ends the connection before the response is complete.",
    "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("SpeechRequest")}}},
    "responses": {
        "200": {
            "description": "The sound, as it is spoken.",
            "content": {
                **{media: {} for media in _MEDIA},
                "text/event-stream": {"schema": {"type": "string", "contentSchema": _ref("SpeechEvent")}},
            },
        },
        **_refusals(400, 401, 403, 404, 408, 413, 429, 500, 501, 503),
    },
}
_MODELS: Schema = {
    "operationId": "listModels",
    "summary": "The names that a request may give as its model.",
    "responses": {
        "200": {
            "description": "All of them the one model that this service speaks with.",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["object", "data"],
                        "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": _ref("Model")}},
                    }
                }
            },
        },
        **_refusals(401),
    },
}
_MODEL: Schema = {
    "operationId": "retrieveModel",
    "summary": "One of these names.",
    "parameters": [{"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}],
    "responses": {"200": _json("There is one.", "Model"), **_refusals(401, 404)},
}
