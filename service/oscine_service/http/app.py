"""The application behind the HTTP port: what is served at which path."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from oscine_engine.front import Front
from oscine_service.compat import routes as dialects
from oscine_service.conversation import Calls
from oscine_service.http.errors import EVERYTHING, HANDLERS, nowhere
from oscine_service.limits import Limits
from oscine_service.telephony import jambonz
from oscine_service.telephony.carriers import routes as carriers
from oscine_service.voices.library import Library
from oscine_service.websocket import native


def application(
    front: Front,
    limits: Limits,
    calls: Calls,
    voices: Library | None = None,
    *,
    routes: Sequence[BaseRoute] = (),
    middleware: Sequence[Middleware] = (),
) -> Starlette:
    """WebSocket, in our own protocol and in those of others, in front of `front`.

    voices: all there are, for protocols that refuse others at once. routes: what else is served.
    """

    async def alive(request: Request) -> JSONResponse:
        return JSONResponse({"status": "alive"})

    async def ready(request: Request) -> JSONResponse:
        if calls.closing:
            return JSONResponse({"status": "stopping"}, 503)
        return JSONResponse({"status": "ready"}) if front.serving else JSONResponse({"status": "not serving"}, 503)

    async def speech(websocket: WebSocket) -> None:
        await native.serve(websocket, front, limits, calls)

    async def lost(websocket: WebSocket) -> None:
        await websocket.send_denial_response(nowhere(websocket))

    here: list[BaseRoute] = [
        Route("/livez", alive),
        Route("/readyz", ready),
        WebSocketRoute(native.PATH, speech),
        *dialects.routes(front, limits, calls, voices),
        *carriers.routes(calls),
        *jambonz.routes(front, limits, calls),
    ]
    return Starlette(
        routes=[*here, *routes, WebSocketRoute(EVERYTHING, lost)],
        middleware=list(middleware),
        exception_handlers=HANDLERS,
    )
