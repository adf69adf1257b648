"""All that stands before and around a service's protocols, made from its settings: door, limits, metrics, traces."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import grpc
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from oscine_engine.front import Front
from oscine_service import browser
from oscine_service.config.model import Settings
from oscine_service.http.openai import MAX_BODY_BYTES
from oscine_service.http.voices import MAX_FORM_BYTES
from oscine_service.observe import page, tracing
from oscine_service.observe.call_log import CallLog
from oscine_service.observe.desks import Desks
from oscine_service.observe.engine_metrics import EngineCollector, EngineState
from oscine_service.observe.lateness import Lateness
from oscine_service.observe.machine_metrics import MachineCollector
from oscine_service.observe.metrics import Metrics
from oscine_service.security import minting, tls
from oscine_service.security.grpc_door import GrpcDoor
from oscine_service.security.guard import Guard
from oscine_service.security.http_door import HttpDoor
from oscine_service.security.keys import KeyBook
from oscine_service.security.quotas import Quotas
from oscine_service.security.tls import Tls
from oscine_service.security.tokens import Mint
from oscine_service.storage import places
from oscine_service.telephony.vouching import Voucher
from oscine_service.visits import Desk

LARGER = (("/v1/audio/voices", MAX_FORM_BYTES), ("/v1/audio/speech", MAX_BODY_BYTES))
"""Where a body may hold a recording: what is taken there."""
DIALECTS = (
    ("/v1/audio/speech", "openai"),
    ("/tts/websocket", "cartesia"),
    ("/v1/text-to-speech", "elevenlabs"),
    ("/v1/speak", "deepgram"),
    ("/api-ws/v1/inference", "dashscope"),
    ("/v1/telephony", "telephony"),
)


class Entrance:
    """Raises InvalidInput for keys, secrets and certificates that cannot be used."""

    def __init__(self, settings: Settings) -> None:
        security = settings.security
        files = tls.files(security)
        self.tls = Tls(files) if files is not None else None
        self.metrics = Metrics()
        self._shown = settings.observe.metrics
        self._pages = security.origins
        self._wants_certificates = security.tls_client_ca is not None
        keys = KeyBook(security.keys) if security.keys is not None else None
        self.metrics.registry.register(MachineCollector(store=places.folder(settings.engine), tls=self.tls, keys=keys))
        self._lateness = Lateness(self.metrics.registry)
        self._guard = Guard(keys, Mint.of(security.token_secret))
        self._voucher = Voucher(settings.telephony, keys)
        self._traces = tracing.desk() if settings.observe.traces else None
        self._desk = Desks()

    @property
    def open(self) -> bool:
        """Anybody may call: without a key, and without a certificate."""
        return self._guard.open and not self._wants_certificates

    @property
    def carriers_owner(self) -> str:
        """Whose calls those are that bring no key of their own. Raises InvalidInput where that key is gone."""
        return self._voucher.principal().owner

    @asynccontextmanager
    async def before(self, front: Front, engines: Callable[[], Sequence[EngineState]]) -> AsyncIterator[None]:
        """Attend the calls that open at `front`, until the block is left."""
        watching: list[Desk] = [self.metrics, CallLog(), *([self._traces] if self._traces is not None else [])]
        self._desk.sit(*watching, Quotas(lambda: next(iter(front.voices), None)))
        self.metrics.registry.register(EngineCollector(engines))
        tasks = [asyncio.create_task(self._lateness.watching())]
        if self.tls is not None:
            tasks.append(asyncio.create_task(self.tls.renewing()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            if self._traces is not None:
                await asyncio.to_thread(self._traces.close)

    def interceptors(self) -> "Sequence[grpc.aio.ServerInterceptor]":  # type: ignore[type-arg,unused-ignore]
        """For a gRPC server."""
        return [GrpcDoor(guard=self._guard, desk=self._desk, metrics=self.metrics)]

    def credentials(self) -> grpc.ServerCredentials | None:
        """For a gRPC server; None without TLS."""
        return self.tls.credentials() if self.tls is not None else None

    def routes(self) -> list[BaseRoute]:
        """What it answers itself, over HTTP."""
        shown = page.routes(self.metrics) if self._shown else ()
        return [*minting.routes(self._guard.mint), *shown]

    def around(self, app: ASGIApp) -> ASGIApp:
        """`app` behind the door of HTTP."""
        return HttpDoor(
            app,
            guard=self._guard,
            desk=self._desk,
            metrics=self.metrics,
            pages=self._pages,
            larger=LARGER,
            dialects=DIALECTS,
            public=browser.PUBLIC,
            vouching=self._voucher.caller,
        )


def is_local(host: str) -> bool:
    """Whether only this machine reaches a service that listens there."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
