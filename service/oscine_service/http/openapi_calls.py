"""`/v1/calls` in the description of the HTTP port."""

from typing import Any

from oscine_service.telephony.sink import MAX_NAME

Schema = dict[str, Any]

_CALL_REF = {"$ref": "#/components/schemas/Call"}
SCHEMAS: Schema = {
    "Call": {
        "type": "object",
        "required": ["id", "object", "names", "kind", "created_at", "format", "heard_samples", "conversations"],
        "properties": {
            "id": {"type": "string", "description": "What a conversation names as its sink."},
            "object": {"const": "call"},
            "names": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "All that it may be called by, the id first.",
            },
            "kind": {"type": "string", "description": "Of its carrier, such as twilio, audiosocket or rtp."},
            "created_at": {"type": "integer", "description": "Unix time in seconds."},
            "format": {
                "type": "object",
                "required": ["encoding", "sample_rate"],
                "properties": {"encoding": {"type": "string"}, "sample_rate": {"type": "integer"}},
            },
            "heard_samples": {"type": "integer", "description": "Of all that was spoken into it."},
            "conversations": {"type": "integer", "description": "That speak into it, or wait for their turn."},
            "received_bytes": {"type": "integer", "description": "Of the caller's sound, where that is counted."},
        },
    },
}


def paths(refusals: Schema, missing: Schema, refused: Schema) -> Schema:
    """refusals: responses that any of them may have. missing: those about a call that is not up. refused: those of an
    offer."""
    name = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "description": "Any of its names.",
    }
    return {
        "/v1/calls": {
            "post": {
                "operationId": "createCall",
                "summary": "Take a call over RTP: an SDP offer in, the answer out.",
                "parameters": [
                    {
                        "name": "id",
                        "in": "query",
                        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
                        "description": "What the call is to be called, for an offer as SDP.",
                    }
                ],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/sdp": {"schema": {"type": "string"}},
                        "application/json": {"schema": _OFFER},
                    },
                },
                "responses": {
                    "201": {
                        "description": "It is up, and answered as it was asked.",
                        "headers": {"Location": {"schema": {"type": "string"}}},
                        "content": {
                            "application/sdp": {"schema": {"type": "string"}},
                            "application/json": {"schema": _ANSWER},
                        },
                    }
                }
                | refusals
                | refused,
            },
            "get": {
                "operationId": "listCalls",
                "summary": "The telephone calls that are up and that the caller may speak into.",
                "responses": {"200": _json("Oldest first.", _LIST)} | refusals,
            },
        },
        "/v1/calls/{name}": {
            "get": {
                "operationId": "retrieveCall",
                "summary": "One call.",
                "parameters": [name],
                "responses": {"200": _json("It is up.", _CALL_REF)} | refusals | missing,
            },
            "delete": {
                "operationId": "endCall",
                "summary": "Hang up. What was not heard is lost.",
                "parameters": [name],
                "responses": {"200": _json("It is being ended.", _DELETED)} | refusals | missing,
            },
        },
    }


_LIST: Schema = {
    "type": "object",
    "required": ["object", "data"],
    "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": _CALL_REF}},
}
_OFFER: Schema = {
    "type": "object",
    "required": ["offer"],
    "properties": {
        "offer": {"type": "string", "description": "SDP."},
        "id": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_NAME},
    },
    "additionalProperties": False,
}
_ANSWER: Schema = {
    "type": "object",
    "required": ["id", "object", "answer"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "call"},
        "answer": {"type": "string", "description": "SDP."},
    },
}
_DELETED: Schema = {
    "type": "object",
    "required": ["id", "object", "deleted"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "call.deleted"},
        "deleted": {"const": True},
    },
}


def _json(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
