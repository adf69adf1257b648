"""`oscine ready`: whether the service of these settings, on this machine, takes calls. For containers' health checks.

It reads what `oscine serve` reads, so that where that finds its ports, its address and its certificate, so does this.
"""

import argparse
import asyncio
import http.client
import json
import ssl

from oscine_engine.errors import InvalidInput, OscineError
from oscine_service.config import arguments
from oscine_service.config.model import Security, Settings

HELP = "ask the service of these settings on this machine whether it takes calls; status 1 if not"
PATIENCE_S = 5.0
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1"}
"""Addresses to listen on, and where those who do so are reached from the machine itself."""


class NotReady(OscineError):
    """It takes no calls, or nobody answers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.Arguments(parser, arguments.ALL)


async def ready(settings: Settings) -> None:
    """Print that it is ready. Raises NotReady, and InvalidInput for a service that cannot be asked."""
    server, security = settings.server, settings.security
    host = EVERYWHERE.get(server.host, server.host).strip("[]")
    if server.http_port is not None:
        if server.http_port == 0:
            raise InvalidInput("--http-port 0 is any port: name the one that the service has")
        await asyncio.to_thread(_over_http, host, server.http_port, security)
    elif security.tls_cert is None:
        await _over_grpc(f"[{host}]:{server.port}" if ":" in host else f"{host}:{server.port}")
    else:
        raise InvalidInput("with TLS it is asked at its HTTP port, which is turned off: leave out --http-port none")
    print("ready")


def _over_http(host: str, port: int, security: Security) -> None:
    connection = (
        http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        if security.tls_cert is None
        else http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=context(security))
    )
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        told = answer.read(1024)
    except (OSError, http.client.HTTPException) as error:
        raise NotReady(f"nobody answers at {host}:{port}: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise NotReady(f"the service at {host}:{port} takes no calls: {_status(told)}")


def context(security: Security) -> ssl.SSLContext:
    """It need not prove who it is: it is this machine that is asked, under another name than its certificate's."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if security.tls_client_ca is not None and security.tls_cert is not None:
        # Clients must have a certificate: the service's own is the one at hand.
        context.load_cert_chain(security.tls_cert, security.tls_key)
    return context


def _status(told: bytes) -> str:
    try:
        return str(json.loads(told)["status"])
    except (ValueError, KeyError, TypeError):
        return repr(told[:80])


async def _over_grpc(address: str) -> None:
    import grpc
    from grpc_health.v1 import health_pb2
    from grpc_health.v1.health_pb2_grpc import HealthStub

    async with grpc.aio.insecure_channel(address, (("grpc.enable_http_proxy", 0),)) as channel:
        try:
            check = HealthStub(channel).Check  # type: ignore[attr-defined]
            answer = await check(health_pb2.HealthCheckRequest(service="readiness"), timeout=PATIENCE_S)
        except grpc.aio.AioRpcError as error:
            raise NotReady(f"nobody answers at {address}: {error.details()}") from error
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise NotReady(f"the service at {address} takes no calls")
