"""Errors as HTTP tells them, in the envelope that OpenAI's clients read."""

import math

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute

from oscine_codecs.errors import CodecError
from oscine_engine.errors import OscineError, UnknownVoice
from oscine_service.errors import code, retry_after_s, row

MAX_SHOWN = 80
"""Characters of a path, in a message."""
EVERYTHING = "/{path:path}"
"""What a route is at that stands for all that no other does."""
FILES = ("/page/", "/player/")
"""What belongs to a page, and is not told of."""
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
    if error.status_code == 404:
        return nowhere(request)
    if error.status_code == 405:
        methods = ", ".join(sorted(_methods(request)))
        told = f"{request.method[:20]!r} is not taken at {_shown(request)}; use {methods}"
        return _body(405, told, "method_not_allowed", None, {**headers, "Allow": methods})
    return _body(error.status_code, error.detail, error.detail.lower().replace(" ", "_"), None, headers)


def nowhere(connection: HTTPConnection) -> JSONResponse:
    """There is nothing of its kind, HTTP or WebSocket, at the path of a request."""
    socket = connection.scope["type"] == "websocket"
    kind, other = ("WebSocket", "HTTP") if socket else ("HTTP", "WebSocket")
    routes = [each for each in connection.app.routes if getattr(each, "path", "") not in ("", EVERYTHING)]
    here = [each.path for each in routes if isinstance(each, WebSocketRoute if socket else Route)]
    elsewhere = [each for each in routes if isinstance(each, Route if socket else WebSocketRoute)]
    there = any(each.path_regex.match(connection.url.path) for each in elsewhere)
    why = (
        f"there is {other} at {_shown(connection)}, not {kind}"
        if there
        else f"there is nothing at {_shown(connection)}"
    )
    told = ", ".join(dict.fromkeys(path for path in here if not path.startswith(FILES)))
    return _body(404, f"{why}; over {kind} there are {told}", "not_found", None, {})


def _methods(request: Request) -> set[str]:
    """That are taken at the path of a request."""
    found = [each for each in request.app.routes if isinstance(each, Route) and each.methods]
    return {method for each in found if each.path_regex.match(request.url.path) for method in each.methods or ()}


def _shown(connection: HTTPConnection) -> str:
    return repr(connection.url.path[:MAX_SHOWN])


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
