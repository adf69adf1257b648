"""Clients that hold a place without using it, an engine that has failed, a machine without libopus."""

import asyncio
import ctypes.util
import functools
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from oscine_codecs import opus
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import InvalidInput
from oscine_engine.runtime.core import Core
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.grpc.server import serving
from oscine_service.limits import Limits
from tests.service.calls import CANCEL, FLUSH, RATE, config, converse, played, text
from tests.service.conftest import running

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_a_limit_is_a_positive_time(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="idle_timeout_s"):
        Limits(idle_timeout_s=seconds)
    with pytest.raises(InvalidInput, match="write_timeout_s"):
        Limits(write_timeout_s=seconds)


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [config()],
        [config(), *text("Hello there. And")],
        [config(mode=pb.MODE_INTERLEAVED), *text("Hello, this is open")],
    ],
    ids=["nothing", "config", "a sentence", "half a sentence"],
)
async def test_an_idle_client_gives_its_place_back(
    checkpoint: Checkpoint, requests: list[pb.SynthesizeRequest]
) -> None:
    async def sending() -> AsyncIterator[pb.SynthesizeRequest]:
        for request in requests:
            yield request
        await asyncio.sleep(60)

    async with running(checkpoint, Limits(idle_timeout_s=0.5)) as service, asyncio.timeout(20):
        call = service.speech.Synthesize(sending())
        heard = [response async for response in _until_error(call)]
        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "was sent for 0.5 s" in await call.details()
        assert len(heard) >= len(requests)
        await service.idle()


async def test_waiting_for_speech_is_not_idle(checkpoint: Checkpoint) -> None:
    held = asyncio.Event()  # set once everything was said; by then far more time has gone by than an idle client has

    async def sending() -> AsyncIterator[pb.SynthesizeRequest]:
        for request in (config(), *text(LONG[:180]), FLUSH):
            yield request
        await held.wait()

    async with running(checkpoint, Limits(idle_timeout_s=0.05)) as service, asyncio.timeout(60):
        async for response in service.speech.Synthesize(sending()):
            if response.HasField("flushed"):
                held.set()
        assert response.HasField("done")


async def test_a_client_that_reads_nothing_gives_its_place_back(checkpoint: Checkpoint) -> None:
    async with running(checkpoint, Limits(write_timeout_s=0.3)) as service, asyncio.timeout(60):
        call = service.speech.Synthesize(iter([config(), *text(LONG * 12)]))
        reading = _until_error(call)
        assert (await anext(reading)).HasField("started")
        assert service.engine.load_now.streams == 1
        while service.engine.load_now != (0, 0):
            await asyncio.sleep(0.05)
        assert [response async for response in reading]
        assert await call.code() is grpc.StatusCode.ABORTED
        assert "no response was taken for 0.3 s" in await call.details()


@pytest.mark.parametrize(
    ("repeats", "reads"), [(False, True), (True, True), (True, False)], ids=["silent", "repeating", "not reading"]
)
async def test_a_paused_player_keeps_its_call(checkpoint: Checkpoint, repeats: bool, reads: bool) -> None:
    timeout = 0.2
    heard = 0
    sounded = asyncio.Event()
    going_on = asyncio.Event()

    async def sending() -> AsyncIterator[pb.SynthesizeRequest]:
        for request in (config(), *text(LONG)):
            yield request
        await sounded.wait()
        yield played(100)
        for _ in range(20):
            await asyncio.sleep(timeout / 2)
            if repeats:
                yield played(100)
        going_on.set()
        # More than is made ready unheard: without these it would not come.
        while heard < 14 * RATE:
            yield played(heard)
            await asyncio.sleep(0.02)
        yield CANCEL

    limits = Limits(idle_timeout_s=timeout, write_timeout_s=timeout)
    async with running(checkpoint, limits) as service, asyncio.timeout(60):
        call = service.speech.Synthesize(sending())
        async for response in call:
            heard += response.audio.samples
            if response.HasField("audio"):
                sounded.set()
                if not reads:
                    await going_on.wait()
        assert response.HasField("cancelled")


async def _until_error(
    call: "grpc.aio.StreamStreamCall[pb.SynthesizeRequest, pb.SynthesizeResponse]",
) -> AsyncIterator[pb.SynthesizeResponse]:
    try:
        async for response in call:
            yield response
    except grpc.aio.AioRpcError:
        return


async def test_a_failed_engine_is_not_healthy(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async with running(checkpoint) as service, asyncio.timeout(20):
        monkeypatch.setattr(Core, "turn", broken)
        running_call = await converse(service.speech, [config(), *text("Hello.")])
        assert running_call.code is grpc.StatusCode.INTERNAL
        health = health_pb2_grpc.HealthStub(service.channel)
        for name in ("", "oscine.v1.SpeechService"):
            ask = health_pb2.HealthCheckRequest(service=name)
            while (await health.Check(ask)).status == health_pb2.HealthCheckResponse.SERVING:
                await asyncio.sleep(0.05)
            assert (await health.Check(ask)).status == health_pb2.HealthCheckResponse.NOT_SERVING
        refused = await converse(service.speech, [config(), *text("Hello.")])
        assert refused.code is grpc.StatusCode.UNAVAILABLE
        assert "restart" in refused.details


async def test_calls_that_are_cut_off_are_told_why_and_how_much_they_got(checkpoint: Checkpoint) -> None:
    """Reading or not, sending or not, and with nothing said yet: each gets a status it may call again after."""
    held = asyncio.Event()

    async def sending(*requests: pb.SynthesizeRequest) -> AsyncIterator[pb.SynthesizeRequest]:
        for request in requests:
            yield request
        await held.wait()

    async def hear(
        speech: SpeechServiceStub, requests: AsyncIterator[pb.SynthesizeRequest], slow: bool
    ) -> tuple[int, grpc.aio.AioRpcError]:
        samples = 0
        try:
            async for response in speech.Synthesize(requests):
                samples += response.audio.samples
                begun.release()
                if slow and samples:
                    await stopping.wait()
        except grpc.aio.AioRpcError as error:
            return samples, error
        raise AssertionError("it was to be cut off")

    begun, stopping = asyncio.Semaphore(0), asyncio.Event()
    loud = (config(), *text(LONG * 12))
    calls = [(sending(*loud), False), (sending(*loud), True), (sending(config()), False), (sending(), False)]
    settings = EngineSettings(utilisation=math.inf)
    async with asyncio.timeout(60), Engine(checkpoint, settings) as engine, AsyncExitStack() as after:
        async with serving(engine, "127.0.0.1", 0, grace_s=0.3) as server:
            channel = grpc.aio.insecure_channel(server.address, (("grpc.enable_http_proxy", 0),))
            await after.enter_async_context(channel)
            watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            await watching.read()
            speech = SpeechServiceStub(channel)
            hearing = [asyncio.create_task(hear(speech, requests, slow)) for requests, slow in calls]
            for _ in range(6):
                await begun.acquire()
            asyncio.get_running_loop().call_later(1.0, stopping.set)
        for samples, error in await asyncio.gather(*hearing):
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            assert f"the service is stopping; {samples} samples of this call were sent" in (error.details() or "")
        assert engine.load_now == (0, 0)


async def test_a_service_that_nobody_speaks_to_stops_at_once(checkpoint: Checkpoint) -> None:
    """Whoever watches its health is not waited for."""
    async with asyncio.timeout(60), Engine(checkpoint, EngineSettings()) as engine, AsyncExitStack() as after:
        async with serving(engine, "127.0.0.1", 0, grace_s=math.inf) as server:
            channel = grpc.aio.insecure_channel(server.address, (("grpc.enable_http_proxy", 0),))
            await after.enter_async_context(channel)
            watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_without_libopus_only_opus_is_refused(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    for cached in (opus.available, opus._opuslib):
        monkeypatch.setattr(opus, cached.__name__, functools.cache(cached.__wrapped__))
    async with running(checkpoint) as service:
        refused = await converse(service.speech, [config(encoding=pb.ENCODING_OPUS), *text("Hello.")])
        assert refused.code is grpc.StatusCode.FAILED_PRECONDITION
        assert "apt-get install libopus0" in refused.details
        heard = await converse(service.speech, [config(encoding=pb.ENCODING_PCM16), *text("Hello.")])
        assert heard.code is grpc.StatusCode.OK
        assert heard.samples > 0


async def test_an_ipv6_address_is_written_so_that_clients_take_it(checkpoint: Checkpoint) -> None:
    for host in ("::1", "[::1]"):
        async with running(checkpoint, host=host) as service:
            assert service.address.startswith("[::1]:")
            heard = await converse(service.speech, [config(), *text("Hello.")])
            assert heard.code is grpc.StatusCode.OK
