"""Real servers on real sockets, most of them over a small model of random weights."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.engine import Engine, EngineSettings
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.grpc.server import serving
from oscine_service.limits import Limits
from tests.service.waiting import left_as_found


@dataclass(frozen=True)
class Service:
    engine: Engine
    channel: grpc.aio.Channel
    speech: SpeechServiceStub
    address: str

    async def idle(self) -> None:
        """Wait until the engine holds nothing but its voices. Fails after five seconds."""
        async with asyncio.timeout(5):
            while self.engine.load_now != (0, 0):
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(
    checkpoint: Checkpoint, limits: Limits | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Service]:
    limits = limits or Limits()
    async with (
        Engine(checkpoint, EngineSettings(max_streams=4, utilisation=math.inf, session=limits.session)) as engine,
        serving(engine, host, 0, limits=limits, grace_s=0) as server,
        grpc.aio.insecure_channel(server.address, (("grpc.enable_http_proxy", 0),)) as channel,
    ):
        yield Service(engine, channel, SpeechServiceStub(channel), server.address)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def checkpoint(model: Path) -> Checkpoint:
    return load(model)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(checkpoint: Checkpoint) -> AsyncIterator[Service]:
    """One server for the tests of a module, which therefore share its event loop."""
    async with running(checkpoint) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def service(shared: Service) -> AsyncIterator[Service]:
    async with left_as_found(shared) as found:
        yield found
