"""A gRPC server over one engine: speech, health and reflection."""

import asyncio
import math
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from oscine_engine.errors import InvalidInput
from oscine_engine.front import Front
from oscine_proto.oscine.v1 import speech_pb2  # noqa: F401  (reflection finds services of imported files only)
from oscine_service.conversation import Calls
from oscine_service.grpc.requests import MAX_MESSAGE_BYTES
from oscine_service.grpc.speech import SpeechService
from oscine_service.limits import Limits

LIVENESS, READINESS = "liveness", "readiness"
"""What probes may ask health for, besides services: whether the process lives, and whether it takes calls."""
POLL_S = 0.1
"""Between two looks at the engine's health."""
LAST_WORDS_S = 3.0
"""For calls that are cut off to be told so: a bit longer than a client that goes on sending is listened to."""
TOLD_S = 0.2
"""For those who watch its health to read that it has ended, before they are cut off, too."""
LONGEST_MS, LONGEST_S = 2**31 - 1, 1e9


def _options(limits: Limits) -> tuple[tuple[str, int], ...]:
    return (
        ("grpc.keepalive_time_ms", _ms(limits.ping_after_s)),
        # Both: part of grpc's releases wait for an answer as the first says, the others as the second does, a minute.
        ("grpc.keepalive_timeout_ms", _ms(limits.ping_timeout_s)),
        ("grpc.http2.ping_timeout_ms", _ms(limits.ping_timeout_s)),
        ("grpc.keepalive_permit_without_calls", 1),
        # A call may be quiet for long in both directions; nobody is to stop asking after two times.
        ("grpc.http2.max_pings_without_data", 0),
        # Clients may ask as often as this; grpc closes connections that ask more than twice in five minutes.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    )


def _ms(seconds: float) -> int:
    return LONGEST_MS if math.isinf(seconds) else min(LONGEST_MS, max(1, round(seconds * 1000)))


@dataclass(frozen=True, slots=True)
class Serving:
    """A running server and the address it listens on."""

    server: grpc.aio.Server
    address: str


class Service(Protocol):
    """Another service of the same server. `name`: in full, as its .proto file has it."""

    name: str

    def handler(self) -> grpc.GenericRpcHandler: ...


def check_address(host: str, port: int, option: str = "--port") -> None:
    """Whether a server will be able to bind, known before an engine has been loaded for it. Raises InvalidInput, which
    names the `option` that says where."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise _unbindable(host, port, error.strerror or str(error), option) from error


def _unbindable(host: str, port: int, reason: str, option: str = "--port") -> InvalidInput:
    where = "--audiosocket-host" if option == "--audiosocket-port" else "--host"
    return InvalidInput(f"cannot listen on {host}:{port}: {reason}; choose others with {where} and {option}")


@asynccontextmanager
async def serving(
    front: Front,
    host: str,
    port: int,
    *,
    limits: Limits | None = None,
    grace_s: float = 30.0,
    calls: Calls | None = None,
    services: Sequence[Service] = (),
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[Serving]:
    """Serve `front` on `host:port` (0 picks a free port) until the block is left.

    Calls then get `grace_s` to end (0 or more, infinity for as long as they take); those that are left end with
    Unavailable, and so they do when waiting for them is cancelled. Health says NOT_SERVING whenever no session can be
    opened. Raises InvalidInput if the address cannot be bound.

    calls: shared with other front doors. Once they are closed no call is taken any more, nor a connection: whoever
    balances, be it a proxy, a kernel or the client's own channel, finds another unit at once. services: others beside
    speech.
    credentials: None for connections without TLS.
    """
    host = f"[{host.strip('[]')}]" if ":" in host else host
    limits = limits or Limits()
    server = grpc.aio.server(options=_options(limits), interceptors=list(interceptors))
    calls = calls or Calls()
    served = (SpeechService(front, limits, calls), *services)
    server.add_generic_rpc_handlers(tuple(service.handler() for service in served))
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    names = [service.name for service in served]
    reflection.enable_server_reflection((*names, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    try:
        address = f"{host}:{port}"
        if credentials is None:
            bound = server.add_insecure_port(address)
        else:
            bound = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        check_address(host, port)  # grpc does not say why, the system does
        raise _unbindable(host, port, str(error)) from error

    def well() -> bool:
        return front.serving and not calls.closing

    await _tell(checks, names, well=well())
    await checks.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)
    await server.start()
    watching = asyncio.create_task(_watch(well, checks, names))
    leaving = asyncio.create_task(_leave(server, checks, calls))
    try:
        yield Serving(server, f"{host}:{bound}")
    finally:
        calls.close()
        watching.cancel()
        # Before anything ends, also where nobody is waited for.
        await checks.enter_graceful_shutdown()
        await _stop(server, calls, min(grace_s, LONGEST_S), leaving)


async def _leave(server: grpc.aio.Server, checks: health.aio.HealthServicer, calls: Calls) -> None:
    """Once no new call is taken: say so, stop listening, and ask those who are connected to go elsewhere."""
    await calls.closed()
    await checks.enter_graceful_shutdown()
    await server.stop(LONGEST_S)


async def _stop(server: grpc.aio.Server, calls: Calls, grace_s: float, stopping: asyncio.Task[None]) -> None:
    """Only speech is waited for: whoever watches the health of a service would watch for ever."""
    try:
        await calls.ended(grace_s)
    finally:
        # Also where the wait was cut short. Calls that are left, and any that slipped in, are told.
        calls.stop()
        await calls.ended(LAST_WORDS_S)
        await server.stop(TOLD_S)
        await stopping


async def _watch(well: Callable[[], bool], checks: health.aio.HealthServicer, names: Sequence[str]) -> None:
    told = well()
    while True:
        await asyncio.sleep(POLL_S)
        if well() != told:
            told = not told
            await _tell(checks, names, well=told)


async def _tell(checks: health.aio.HealthServicer, names: Sequence[str], *, well: bool) -> None:
    status = health_pb2.HealthCheckResponse.SERVING if well else health_pb2.HealthCheckResponse.NOT_SERVING
    for name in ("", READINESS, *names):
        await checks.set(name, status)
