"""`/v1/audio/voices` in the description of the HTTP port."""

from typing import Any

from oscine_engine.voices.catalogue import NAME
from oscine_service.voices.library import LANGUAGES, MAX_DESCRIPTION, MAX_PAGE, MAX_TRANSCRIPT, Origin

Schema = dict[str, Any]

_VOICE_REF = {"$ref": "#/components/schemas/Voice"}
SCHEMAS: Schema = {
    "Voice": {
        "type": "object",
        "required": ["id", "object", "name", "type", "created_at", "language", "description", "origin"],
        "properties": {
            "id": {"type": "string", "description": "What a request gives as its voice; the same as the name."},
            "object": {"const": "audio.voice"},
            "name": {"type": "string"},
            "type": {"const": "audio_sample"},
            "created_at": {"type": "integer", "description": "Unix time in seconds; 0 for the model's."},
            "language": {"enum": list(LANGUAGES), "description": "Of its reference. Every voice reads both."},
            "description": {"type": "string"},
            "origin": {
                "enum": [origin.value for origin in Origin],
                "description": "model: it came with the model. own: the caller may delete it. shared: everybody's.",
            },
            "seconds": {"type": "number", "description": "Of its reference; not told of the model's."},
            "transcribed": {"type": "boolean", "description": "The words of its reference are known."},
        },
    },
    "NewVoice": {
        "type": "object",
        "required": ["name", "audio_sample"],
        "properties": {
            "name": {"type": "string", "pattern": f"^{NAME.pattern}$"},
            "audio_sample": {
                "type": "string",
                "contentMediaType": "application/octet-stream",
                "description": "A WAV, FLAC, MP3, Ogg or AIFF file (with FFmpeg also M4A, AAC, WebM) of 3 to 10 s of "
                "clear speech, of somebody who agreed to it; at most 16 MiB. `file` is the same.",
            },
            "transcript": {
                "type": "string",
                "maxLength": MAX_TRANSCRIPT,
                "description": "Exactly what is said in it: a better likeness. `ref_text` is the same.",
            },
            "language": {"enum": ["", *LANGUAGES], "description": "Empty goes by the transcript."},
            "description": {"type": "string", "maxLength": MAX_DESCRIPTION},
            "replace": {"type": "boolean", "description": "Take the place of your voice of this name."},
            "consent": {"type": "string", "description": "As OpenAI's clients send it; not looked at."},
            "type": {"const": "audio_sample"},
        },
    },
}


def paths(refusals: Schema, forbidden: Schema) -> Schema:
    """refusals: responses that any of them may have. forbidden: those about a name that is not there, or not theirs."""
    one = {"content": {"application/json": {"schema": _VOICE_REF}}}
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "/v1/audio/voices": {
            "get": {
                "operationId": "listVoices",
                "summary": "The voices that the caller may name.",
                "description": "All of them without a parameter, pages with one.",
                "parameters": [
                    {"name": "page_size", "in": "query", "schema": {"type": "integer", "maximum": MAX_PAGE}},
                    {"name": "page_token", "in": "query", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"description": "The model's first, its default before the others.", **_LIST}}
                | refusals,
            },
            "post": {
                "operationId": "createVoice",
                "summary": "Make a voice from a recording.",
                "requestBody": {
                    "required": True,
                    "content": {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/NewVoice"}}},
                },
                "responses": {"201": {"description": "It is kept, and may be named.", **one}} | refusals | forbidden,
            },
        },
        "/v1/audio/voices/{name}": {
            "get": {
                "operationId": "retrieveVoice",
                "summary": "One voice.",
                "parameters": [name],
                "responses": {"200": {"description": "There is one.", **one}} | refusals | forbidden,
            },
            "delete": {
                "operationId": "deleteVoice",
                "summary": "Delete a voice that was made.",
                "parameters": [name],
                "responses": {"200": {"description": "It is gone.", **_DELETED}} | refusals | forbidden,
            },
        },
    }


_LIST: Schema = {
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["voices"],
                "properties": {
                    "voices": {"type": "array", "items": _VOICE_REF},
                    "next_page_token": {"type": "string", "description": "Empty on the last page."},
                },
            }
        }
    }
}
_DELETED: Schema = {
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["id", "object", "deleted"],
                "properties": {
                    "id": {"type": "string"},
                    "object": {"const": "audio.voice.deleted"},
                    "deleted": {"const": True},
                },
            }
        }
    }
}
