"""Whole units: a service in this process and an engine in another."""

import math
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from oscine_engine.settings import EngineSettings
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.grpc.server import serving
from oscine_service.unit.engines import Engines
from oscine_service.unit.front import unit
from oscine_service.unit.supervisor import Supervisor
from oscine_service.unit.times import Times
from tests.service.waiting import until


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Engines make their folders in one of this test alone: others run beside it."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield


def folders() -> set[Path]:
    """Of engines that are there."""
    return set(Path(tempfile.gettempdir()).glob("oscine-unit-*"))


@dataclass(frozen=True)
class Running:
    engines: Engines
    speech: SpeechServiceStub
    health: health_pb2_grpc.HealthStub

    @property
    def supervisor(self) -> Supervisor:
        """Of the first engine."""
        return self.engines.supervisors[0]

    async def healthy(self, name: str = "") -> bool:
        answer = await self.health.Check(health_pb2.HealthCheckRequest(service=name))
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    async def until_serving(self, serving: bool = True) -> None:
        async def well() -> bool:
            return await self.healthy() is serving

        await until(well)

    async def idle(self) -> None:
        """Wait until no engine process holds anything but its voices."""

        async def empty() -> bool:
            beats = [await supervisor.beat() for supervisor in self.engines.supervisors]
            return all((beat.streams, beat.pages) == (0, 0) for beat in beats)

        await until(empty)


@asynccontextmanager
async def running(
    model: Path | None, *, hang: float = 20.0, streams: int = 8, engines: int = 1
) -> AsyncIterator[Running]:
    """streams: of each engine."""
    settings = EngineSettings(model=model, max_streams=streams, utilisation=math.inf)
    async with (
        unit(settings, Times(beat=0.2, hang=hang), ["cpu"] * engines) as started,
        serving(started.front, "127.0.0.1", 0, grace_s=0) as server,
        grpc.aio.insecure_channel(server.address, (("grpc.enable_http_proxy", 0),)) as channel,
    ):
        yield Running(started.engines, SpeechServiceStub(channel), health_pb2_grpc.HealthStub(channel))
