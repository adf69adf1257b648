"""Errors as HTTP tells them, in the envelope that OpenAI's clients read."""

import math

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from oscine_codecs.errors import CodecError
from oscine_engine.errors import OscineError, UnknownVoice
from oscine_service.errors import code, retry_after_s, row

LEFT = 499
"""What nobody is told who has left; no status of HTTP's."""


def envelope(error: Exception, param: str | None = None) -> JSONResponse:
    """A response for an error of ours that came before the response began. param: the field that it is about."""
    status = getattr(error, "http", row(error).http)
    headers = {}
    if (hint := retry_after_s(error)) is not None and status in (429, 503):
        headers["Retry-After"] = str(math.ceil(hint))
        headers["retry-after-ms"] = str(round(1000 * hint))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _body(status, str(error), code(error), param, headers)


def _body(status: int, message: str, name: str, param: str | None, headers: dict[str, str]) -> JSONResponse:
    kind = "invalid_request_error" if status < 500 and status != 429 else "server_error"
    told = {"message": message, "type": "rate_limit_error" if status == 429 else kind, "param": param, "code": name}
    return JSONResponse({"error": told}, status, headers)


async def ours(request: Request, error: Exception) -> JSONResponse:
    """An error may know which field of a request it is about (`param`)."""
    return envelope(error, "voice" if isinstance(error, UnknownVoice) else getattr(error, "param", None))


async def starlettes(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    return _body(error.status_code, error.detail, error.detail.lower().replace(" ", "_"), None, headers)


async def gone(request: Request, error: Exception) -> Response:
    """The client has left before it had sent all of its request: no fault, and nobody to answer."""
    return Response(status_code=LEFT)


async def unforeseen(request: Request, error: Exception) -> JSONResponse:
    """A bug; the server logs it."""
    return _body(500, "a fault that the service did not foresee", "internal", None, {})


HANDLERS = {
    OscineError: ours,
    CodecError: ours,
    ClientDisconnect: gone,
    HTTPException: starlettes,
    Exception: unforeseen,
}
