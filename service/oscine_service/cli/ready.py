"""`oscine ready`: whether the service of these settings, on this machine, takes calls. For containers' health checks.

It reads what `oscine serve` reads, so that where that finds its ports, its address and its certificate, so does this.
"""

import argparse
import asyncio
import http.client
import json

from oscine_engine.errors import InvalidInput, OscineError
from oscine_service import asking
from oscine_service.config import arguments
from oscine_service.config.model import Settings

HELP = "ask the service of these settings on this machine whether it takes calls; status 1 if not"
PATIENCE_S = 5.0


class NotReady(OscineError):
    """It takes no calls, or nobody answers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.Arguments(parser, arguments.ALL)


async def ready(settings: Settings) -> None:
    """Print that it is ready. Raises NotReady, and InvalidInput for a service that cannot be asked."""
    server, security = settings.server, settings.security
    if server.http_port is not None:
        if server.http_port == 0:
            raise InvalidInput("--http-port 0 is any port: name the one that the service has")
        await asyncio.to_thread(_over_http, asking.here(server, server.http_port), settings)
    elif security.tls_cert is None:
        await _over_grpc(asking.here(server, server.port))
    else:
        raise InvalidInput("with TLS it is asked at its HTTP port, which is turned off: leave out --http-port none")
    print("ready")


def _over_http(address: str, settings: Settings) -> None:
    tls = asking.own_tls(settings.security)
    try:
        answer = asking.get(address, "/readyz", tls=tls, patience_s=PATIENCE_S, most=1024)
    except (OSError, http.client.HTTPException) as error:
        raise NotReady(f"nobody answers at {address}: {error or type(error).__name__}") from error
    # Whoever else listens there may answer anything with 200.
    if answer.status != 200 or _status(answer.body) != "ready":
        raise NotReady(f"the service at {address} takes no calls: {_status(answer.body)}")


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
