"""`/v1/tokens` and `/metrics` in the description of the HTTP port."""

from typing import Any

from oscine_service.security.tokens import DEFAULT_S, LONGEST_S, SHORTEST_S

Schema = dict[str, Any]

SCHEMAS: Schema = {
    "Token": {
        "type": "object",
        "required": ["token", "expires_at", "token_type"],
        "properties": {
            "token": {"type": "string"},
            "expires_at": {"type": "integer", "description": "Unix time in seconds."},
            "token_type": {"const": "Bearer"},
        },
    },
}
_WISH: Schema = {
    "type": "object",
    "properties": {
        "expires_in": {"type": "integer", "minimum": SHORTEST_S, "maximum": LONGEST_S, "default": DEFAULT_S},
    },
    "additionalProperties": False,
}


def paths(refusals: Schema, forbidden: Schema) -> Schema:
    """refusals: responses that any of them may have. forbidden: for a key that is not granted it."""
    made = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Token"}}}}
    text = {"description": "In its text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {
        "/v1/tokens": {
            "post": {
                "operationId": "makeToken",
                "summary": "A token for a web page, in exchange for a key. It can only speak.",
                "requestBody": {"required": False, "content": {"application/json": {"schema": _WISH}}},
                "responses": {"201": {"description": "The token.", **made}, **refusals, **forbidden},
            }
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "Metrics for Prometheus.",
                "responses": {"200": text, "401": refusals["401"], **forbidden},
            }
        },
    }
