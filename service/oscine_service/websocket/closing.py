"""How a WebSocket is closed."""

import asyncio

from starlette.websockets import WebSocket, WebSocketDisconnect

from oscine_service.http.protocols import ABORT, LAST_WORDS_S

NORMAL = 1000
RESTART = 1012
"""Close code where conversations were cut off."""
MOST_REASON = 123
"""Bytes of the reason of a close, which is cut there."""


async def close(websocket: WebSocket, code: int, reason: str) -> None:
    """Close it, and cut off a peer that does not take that. Nothing where it is closed already."""
    try:
        async with asyncio.timeout(LAST_WORDS_S):
            await websocket.close(code, reason.encode()[:MOST_REASON].decode(errors="ignore"))
    except TimeoutError:
        abort(websocket)
    except (WebSocketDisconnect, RuntimeError):
        return


def abort(websocket: WebSocket) -> None:
    """Cut the connection."""
    websocket.scope["state"][ABORT]()
