"""Where dialects of a WebSocket are served."""

from collections.abc import Awaitable, Callable
from functools import partial

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from oscine_engine.front import Front
from oscine_service.compat import cartesia, dashscope, deepgram, elevenlabs
from oscine_service.conversation import Calls
from oscine_service.limits import Limits
from oscine_service.voices.library import Library

Serve = Callable[[WebSocket, Front, Limits, Calls], Awaitable[None]]

DIALECTS: tuple[tuple[str, Serve], ...] = (
    (cartesia.PATH, cartesia.serve),
    (elevenlabs.MULTI, elevenlabs.serve_multi),
    (elevenlabs.SINGLE, elevenlabs.serve_single),
    *((path, dashscope.serve) for path in dashscope.PATHS),
)


def routes(front: Front, limits: Limits, calls: Calls, voices: Library | None = None) -> list[BaseRoute]:
    """voices: all there are, for a dialect that refuses others before its socket is taken."""

    def at(path: str, serve: Serve) -> BaseRoute:
        async def endpoint(websocket: WebSocket) -> None:
            await serve(websocket, front, limits, calls)

        return WebSocketRoute(path, endpoint)

    return [*(at(path, serve) for path, serve in DIALECTS), at(deepgram.PATH, partial(deepgram.serve, voices=voices))]
