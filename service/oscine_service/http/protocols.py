"""uvicorn's protocols, where they would wait for a peer that no longer listens.

Closing a transport sends what is buffered first, which a peer that does not read never lets happen: the connection, and
whoever waits for its end, would stay. Here such a connection is cut, and every handler finds in its scope how to do so.
"""

import asyncio
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

ABORT = "oscine.abort"
"""Key in `scope["state"]`: a function that cuts the connection at once."""
FIRST_REQUEST_S = 30.0
"""For the head of the first request of a new connection to come."""
LAST_WORDS_S = 3.0
"""For a peer that was told that a WebSocket is closed to take that and answer."""


class Http(H11Protocol):
    """HTTP/1.1."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        # Of this connection alone, and of the WebSocket that it may become.
        super().__init__(config, server_state, dict(app_state), _loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state[ABORT] = transport.abort
        self.timeout_keep_alive_task = self.loop.call_later(FIRST_REQUEST_S, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is not h11.IDLE:
            return super().data_received(data)
        # The wait for a request ends where its head has come: a piece of one, and no more, must not hold a connection.
        self.conn.receive_data(data)
        self.handle_events()

    def send_400_response(self, msg: str) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            # What comes behind the head of a request is no HTTP. Whoever answers it, and could not any more, is told
            # that its client has left.
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        super().send_400_response(msg)


class WebSocket(WebSocketsSansIOProtocol):
    """RFC 6455."""

    close_timeout = LAST_WORDS_S

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.close_timeout = LAST_WORDS_S

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # A refusal completes a handshake as well, or it would be logged as a fault.
            self.handshake_complete = True
        if self.close_timer is not None and message["type"] == "websocket.close":
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)
