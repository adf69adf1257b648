"""Where dialects of a WebSocket are served."""

from collections.abc import Awaitable, Callable

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from oscine_engine.front import Front
from oscine_service.compat import cartesia, dashscope, deepgram, elevenlabs
from oscine_service.conversation import Calls
from oscine_service.limits import Limits

Serve = Callable[[WebSocket, Front, Limits, Calls], Awaitable[None]]

DIALECTS: tuple[tuple[str, Serve], ...] = (
    (cartesia.PATH, cartesia.serve),
    (elevenlabs.MULTI, elevenlabs.serve_multi),
    (elevenlabs.SINGLE, elevenlabs.serve_single),
    (deepgram.PATH, deepgram.serve),
    *((path, dashscope.serve) for path in dashscope.PATHS),
)


def routes(front: Front, limits: Limits, calls: Calls) -> list[BaseRoute]:
    def at(path: str, serve: Serve) -> BaseRoute:
        async def endpoint(websocket: WebSocket) -> None:
            await serve(websocket, front, limits, calls)

        return WebSocketRoute(path, endpoint)

    return [at(path, serve) for path, serve in DIALECTS]
