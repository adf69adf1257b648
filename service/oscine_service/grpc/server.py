"""A gRPC server over one engine: speech, health and reflection."""

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
async def serving(engine: Engine, host: str, port: int, *, grace_s: float = 30.0) -> AsyncIterator[Serving]:
    """Serve `engine` on `host:port` (0 picks a free port) until the block is left; calls then get `grace_s` to end.

    Raises InvalidInput if the address cannot be bound.
    """
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((SpeechService(engine).handler(),))
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    services = (NAME, health.SERVICE_NAME)
    reflection.enable_server_reflection((*services, reflection.SERVICE_NAME), server)
    try:
        bound = server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError as error:
        raise InvalidInput(f"cannot listen on {host}:{port}: is the address right and the port free?") from error
    await server.start()
    for name in ("", NAME):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    try:
        yield Serving(server, f"{host}:{bound}")
    finally:
        await checks.enter_graceful_shutdown()
        await server.stop(grace_s)
