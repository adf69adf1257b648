"""An ASGI application on a port of its own, until it is told to stop."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from oscine_engine.errors import InvalidInput
from oscine_service.conversation import Calls
from oscine_service.http.protocols import LAST_WORDS_S, Http, WebSocket
from oscine_service.limits import Limits

MAX_MESSAGE_BYTES = 12 << 20
"""Of one WebSocket message; a recording of 8 MiB fits, in base64."""
LONGEST_PING_S = 5.0
"""Between two questions to a silent WebSocket: some clients abandon theirs without a word, and hold a place until that
is noticed."""
SEND_BUFFER = 1 << 17
"""Bytes that the system takes of what a client does not read: seconds of sound, not minutes."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the command's own."""
        yield


@asynccontextmanager
async def serving(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    limits: Limits | None = None,
    grace_s: float = 30.0,
    calls: Calls | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """Serve `app` on `host:port` (0 picks a free port) until the block is left; gives the address, "HOST:PORT".

    calls: those that `app` takes. Once the block is left no new ones are taken, those that run get `grace_s` to end,
    and what is left is told that the service stops. tls: None for connections without. Raises InvalidInput if the
    address cannot be bound.
    """
    limits, calls = limits or Limits(), calls or Calls()
    listener = _bound(host.strip("[]"), port)
    config = uvicorn.Config(
        app,
        loop="none",
        http=Http,
        ws=WebSocket,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_ping_interval=min(limits.ping_after_s, LONGEST_PING_S),
        ws_ping_timeout=limits.ping_timeout_s,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(LAST_WORDS_S),
    )
    config.load()
    config.ssl = tls
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not running.done():
            await asyncio.sleep(0.01)
        if running.done():
            running.result()
        name = f"[{host.strip('[]')}]" if ":" in host else host
        yield f"{name}:{listener.getsockname()[1]}"
    finally:
        calls.close()
        try:
            await calls.ended(grace_s)
        finally:
            calls.stop()
            await calls.ended(LAST_WORDS_S)
            server.should_exit = True
            await running


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _unbindable(host, port, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Both are passed on to every connection.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _unbindable(host, port, error) from error
    return listener


def _unbindable(host: str, port: int, error: OSError) -> InvalidInput:
    return InvalidInput(
        f"cannot listen on {host}:{port} for HTTP: {error.strerror or error}; choose others with --host and "
        "--http-port, or turn it off with --http-port none"
    )
