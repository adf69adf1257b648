"""A real server on a real socket, over a small model of random weights."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from oscine_engine.checkpoint import synthetic
from oscine_engine.engine import Engine, EngineSettings
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.grpc.server import serving


@dataclass(frozen=True)
class Service:
    engine: Engine
    channel: grpc.aio.Channel
    speech: SpeechServiceStub
    address: str


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("model"))


@pytest.fixture
async def service(model: Path) -> AsyncIterator[Service]:
    settings = EngineSettings(model=model, max_streams=4)
    async with (
        Engine.load(settings) as engine,
        serving(engine, "127.0.0.1", 0, grace_s=0) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        yield Service(engine, channel, SpeechServiceStub(channel), server.address)
