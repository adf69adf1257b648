"""The door of HTTP and WebSocket: an ASGI application around another one.

In this order: what anybody may ask (probes, and what a browser asks before it asks), pages that may not call, keys,
sizes. What is let in runs on behalf of its principal, with a visit around it.
"""

from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oscine_engine.errors import OscineError
from oscine_service.errors import code, row
from oscine_service.http.body import TooLarge
from oscine_service.http.errors import envelope
from oscine_service.observe.metrics import Metrics
from oscine_service.security import origins
from oscine_service.security.credentials import IN_QUERY, in_headers, in_query, in_subprotocols
from oscine_service.security.guard import Guard
from oscine_service.security.principal import Principal, acting_for
from oscine_service.visits import Desk, Visit, visiting

OPEN = frozenset({"/livez", "/readyz"})
"""For probes, which have no key."""
MOST_BODY = 1 << 20
"""Bytes of a request's body, a mebibyte; `larger` says where it may be more."""
REASON = 120
"""Bytes of the reason of a close, which has at most 123."""
TRACE = ("traceparent", "tracestate")
ALLOWED_METHODS, CACHED_S = "GET, POST, DELETE, OPTIONS", "600"


class HttpDoor:
    """pages: origins that may call. larger: bytes that bodies may have under paths that begin so. dialects: what the
    protocol at such paths is called, where it is neither "http" nor "websocket". public: `/` and what begins so is
    files, the same for everybody. vouching: whom a request stands for by its path, headers and query, where it is to be
    signed rather than to bring a key; raises Unauthenticated."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        guard: Guard,
        desk: Desk,
        metrics: Metrics | None = None,
        pages: Sequence[str] = (),
        larger: Sequence[tuple[str, int]] = (),
        dialects: Sequence[tuple[str, str]] = (),
        public: Sequence[str] = (),
        vouching: Callable[[str, Headers, str], Principal | None] = lambda path, headers, query: None,
    ) -> None:
        self._app, self._guard, self._desk, self._metrics = app, guard, desk, metrics
        self._pages, self._larger, self._dialects, self._public = pages, larger, dialects, tuple(public)
        self._vouching = vouching

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        try:
            origins.check(origin, headers.get("host", ""), self._pages)
            if origin is not None and scope["type"] == "http":
                send = _for_page(origin, send)
                if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                    await _permission(headers)(scope, receive, send)
                    return
            if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and self._is_public(scope["path"]):
                await self._app(scope, receive, send)
                return
            scope, principal = self._enter(scope, headers)
        except OscineError as refusal:
            await self._refuse(refusal, scope, receive, send, page=origin is not None)
            return
        if scope["type"] == "http":
            receive = self._measured(receive, scope, headers)
        trace = {name: headers[name] for name in TRACE if name in headers}
        visit = Visit(self._protocol(scope), _peer(scope), trace, self._desk)
        with acting_for(principal), visiting(visit):
            try:
                await self._app(scope, receive, send)
            except TooLarge as error:
                await envelope(error)(scope, receive, send)

    def _is_public(self, path: str) -> bool:
        return bool(self._public) and (path == "/" or path.startswith(self._public))

    def _enter(self, scope: Scope, headers: Headers) -> tuple[Scope, Principal]:
        """The principal, and the scope without what it was known by. Raises Unauthenticated."""
        told = scope.get("query_string", b"").decode("latin-1")
        if (signed := self._vouching(scope["path"], headers, told)) is not None:
            return scope, signed
        offered = scope.get("subprotocols", [])
        presented, left = in_subprotocols(offered)
        query = parse_qsl(told, keep_blank_values=True)
        credential = None
        if not self._guard.open:
            credential = in_headers(headers) or presented or in_query(dict(query))
        principal = self._guard.principal(credential)
        kept = [(name, value) for name, value in query if name not in IN_QUERY]
        known: dict[str, object] = {"subprotocols": left} if left != offered else {}
        if kept != query:
            known["query_string"] = urlencode(kept).encode()
        return {**scope, **known}, principal

    async def _refuse(self, refusal: OscineError, scope: Scope, receive: Receive, send: Send, *, page: bool) -> None:
        if self._metrics is not None:
            self._metrics.turned_away(self._protocol(scope), code(refusal))
        if scope["type"] == "http":
            await envelope(refusal)(scope, receive, send)
        elif page or "websocket.http.response" not in scope.get("extensions", {}):
            # A browser tells its page nothing of a response to a handshake, but the reason of a close.
            await receive()
            offered = in_subprotocols(scope.get("subprotocols", []))[1]
            await send({"type": "websocket.accept", "subprotocol": offered[0] if offered else None})
            reason = str(refusal).encode()[:REASON].decode(errors="ignore")
            await send({"type": "websocket.close", "code": row(refusal).close, "reason": reason})
        else:
            await receive()
            await _denial(envelope(refusal), scope, receive, send)

    def _protocol(self, scope: Scope) -> str:
        path: str = scope["path"]
        kind: str = scope["type"]
        return next((name for beginning, name in self._dialects if path.startswith(beginning)), kind)

    def _measured(self, receive: Receive, scope: Scope, headers: Headers) -> Receive:
        """Raises TooLarge into whoever reads a body that is too large."""
        most = next((size for path, size in self._larger if scope["path"].startswith(path)), MOST_BODY)
        told = headers.get("content-length", "")
        got = 0

        async def measured() -> Message:
            nonlocal got
            if told.isdecimal() and int(told) > most:
                raise TooLarge(most)
            message = await receive()
            got += len(message.get("body", b""))
            if got > most:
                raise TooLarge(most)
            return message

        return measured


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return "" if client is None else f"{client[0]}:{client[1]}"


def _for_page(origin: str, send: Send) -> Send:
    """Let the page read what comes back."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = "*, Retry-After"
            headers.add_vary_header("Origin")
        await send(message)

    return sending


def _permission(headers: Headers) -> Response:
    asked = headers.get("access-control-request-headers", "*")
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Methods": ALLOWED_METHODS,
            "Access-Control-Allow-Headers": asked,
            "Access-Control-Max-Age": CACHED_S,
        },
    )


async def _denial(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """A response instead of a WebSocket."""

    async def sending(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    await response({**scope, "type": "http", "method": "GET"}, receive, sending)
