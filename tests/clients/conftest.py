"""A real service for clients to meet: the server's own fixtures, with voices beside speech."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_service.conversation import Calls
from oscine_service.grpc.server import serving
from oscine_service.grpc.voices import VoiceService
from oscine_service.http import voices as http_voices
from oscine_service.http.app import application
from oscine_service.http.server import serving as http_serving
from oscine_service.limits import Limits
from oscine_service.voices.library import library
from tests.service.conftest import checkpoint, model
from tests.service.waiting import until

__all__ = ["checkpoint", "model"]


@dataclass(frozen=True)
class Service:
    """address: of gRPC. http: of HTTP and WebSocket."""

    engine: Engine
    address: str
    http: str
    calls: Calls

    async def idle(self) -> None:
        """Wait until no call is left, and nothing of one."""

        async def empty() -> bool:
            return self.calls.running == 0 and self.engine.load_now == (0, 0)

        await until(empty)


@asynccontextmanager
async def running(checkpoint: Checkpoint, store: Path | None = None) -> AsyncIterator[Service]:
    settings, calls = EngineSettings(voices=store, max_streams=4, utilisation=math.inf), Calls()
    async with (
        Engine(checkpoint, settings) as engine,
        library(engine.voices, store, None) as voices,
        serving(engine, "127.0.0.1", 0, grace_s=0, calls=calls, services=(VoiceService(voices, calls),)) as server,
        http_serving(
            application(engine, Limits(), calls, routes=http_voices.routes(voices, calls)),
            "127.0.0.1",
            0,
            grace_s=0,
            calls=calls,
        ) as http,
    ):
        yield Service(engine, server.address, http, calls)
