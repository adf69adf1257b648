"""Whether a WebSocket is taken."""

from collections.abc import Sequence

from starlette.websockets import WebSocket

from oscine_service.conversation import Calls
from oscine_service.conversation.calls import closing
from oscine_service.http.errors import envelope


async def accepted(websocket: WebSocket, calls: Calls, subprotocols: Sequence[str] = ()) -> bool:
    """Take it, with the first of `subprotocols` that the client offers; or refuse it, while the service stops."""
    if calls.closing:
        await websocket.send_denial_response(envelope(closing()))
        return False
    offered = websocket.scope.get("subprotocols", [])
    await websocket.accept(next((name for name in subprotocols if name in offered), None))
    return True
