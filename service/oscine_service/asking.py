"""A service asked one thing over HTTP, by a command that ends soon."""

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oscine_service.config.model import Security, Server

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1"}
"""Addresses to listen on, and where those who do so are reached from the machine itself."""
MOST = 8 << 20
"""Bytes of an answer: a page of metrics has far fewer."""
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    reason: str
    body: bytes


def get(
    address: str,
    path: str,
    *,
    tls: ssl.SSLContext | None = None,
    patience_s: float,
    most: int = MOST,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """address: host:port. tls: None for plain HTTP. most: bytes that are read of what is answered. patience_s: for a
    connection, and for all that is answered.

    Raises OSError and HTTPException where nobody answers, or not in HTTP, and ValueError for headers that cannot be.
    """
    connection = (
        http.client.HTTPConnection(address, timeout=patience_s)
        if tls is None
        else http.client.HTTPSConnection(address, timeout=patience_s, context=tls)
    )
    with contextlib.closing(connection):
        connection.connect()
        with _hung_up_after(patience_s, connection.sock):
            connection.request("GET", path, headers=dict(headers or {}))
            response = connection.getresponse()
            body = bytearray()
            while len(body) < most and (piece := response.read1(min(_PIECE, most - len(body)))):
                body += piece
        return Answer(response.status, response.reason, bytes(body))


@contextlib.contextmanager
def _hung_up_after(patience_s: float, connection: socket.socket) -> Iterator[None]:
    """Who sends a byte now and then, of headers, too, would never run into the time-out of a socket."""
    ran_out = threading.Event()

    def hang_up() -> None:
        ran_out.set()
        with contextlib.suppress(OSError):
            # Under TLS, too, the plain connection: another thread reads from it now.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    late = threading.Timer(patience_s, hang_up)
    late.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if not ran_out.is_set():
            raise
    finally:
        late.cancel()
    if ran_out.is_set():
        raise TimeoutError("the answer does not end")


def here(server: Server, port: int) -> str:
    """Where this machine reaches what listens at `port` for these settings."""
    host = _EVERYWHERE.get(server.host, server.host).strip("[]")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_tls(security: Security) -> ssl.SSLContext | None:
    """For the service of these settings; None where it speaks plain HTTP. It need not prove who it is: it is this
    machine that is asked, under another name than its certificate's. Raises OSError for a certificate that cannot be
    read."""
    if security.tls_cert is None:
        return None
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if security.tls_client_ca is not None:
        # Clients must have a certificate: the service's own is the one at hand.
        context.load_cert_chain(security.tls_cert, security.tls_key)
    return context
