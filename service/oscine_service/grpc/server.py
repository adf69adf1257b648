"""A gRPC server over one engine: speech, health and reflection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from oscine_engine.engine import Engine
from oscine_engine.errors import InvalidInput
from oscine_proto.oscine.v1 import speech_pb2  # noqa: F401  (reflection finds services of imported files only)
from oscine_service.grpc.speech import NAME, SpeechService
from oscine_service.limits import Limits

POLL_S = 0.5
"""Between two looks at the engine's health."""

_OPTIONS = (
    # A client that vanished without a FIN is found within half a minute.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
)


@dataclass(frozen=True, slots=True)
class Serving:
    """A running server and the address it listens on."""

    server: grpc.aio.Server
    address: str


@asynccontextmanager
async def serving(
    engine: Engine, host: str, port: int, *, limits: Limits | None = None, grace_s: float = 30.0
) -> AsyncIterator[Serving]:
    """Serve `engine` on `host:port` (0 picks a free port) until the block is left; calls then get `grace_s` to end.

    Health turns to NOT_SERVING when the engine fails. Raises InvalidInput if the address cannot be bound.
    """
    host = f"[{host.strip('[]')}]" if ":" in host else host
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((SpeechService(engine, limits or Limits()).handler(),))
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    services = (NAME, health.SERVICE_NAME)
    reflection.enable_server_reflection((*services, reflection.SERVICE_NAME), server)
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise InvalidInput(f"cannot listen on {host}:{port}: is the address right and the port free?") from error
    await server.start()
    await _tell(checks, well=True)
    watching = asyncio.create_task(_watch(engine, checks))
    try:
        yield Serving(server, f"{host}:{bound}")
    finally:
        watching.cancel()
        await checks.enter_graceful_shutdown()
        await server.stop(grace_s)


async def _watch(engine: Engine, checks: health.aio.HealthServicer) -> None:
    while not engine.failed:
        await asyncio.sleep(POLL_S)
    await _tell(checks, well=False)


async def _tell(checks: health.aio.HealthServicer, *, well: bool) -> None:
    status = health_pb2.HealthCheckResponse.SERVING if well else health_pb2.HealthCheckResponse.NOT_SERVING
    for name in ("", NAME):
        await checks.set(name, status)
