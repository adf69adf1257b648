"""Two replicas with engines of their own, which speak."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import yaml
from ray._common.utils import import_attr
from ray.serve.schema import ServeDeploySchema

from bench.chaos import engines_of
from bench.fleet.scenario import stubs
from bench.ray_serve.cluster import GRPC, HTTP, PATIENCE_S, deploy, replicas
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1 import voice_pb2
from oscine_proto.oscine.v1.voice_pb2_grpc import VoiceServiceStub
from oscine_service.ray_serve.unit import Unit

DEPLOYED = Path(__file__).parents[2] / "deploy" / "ray" / "serve.yaml"
TEXT = "The kettle is on, and the rain has stopped. "
SETTINGS = {"OSCINE_MAX_STREAMS": "1", "OSCINE_UTILISATION": "inf"}
"""So that two calls at once are of two replicas, and a third one is refused."""


def deployed() -> str:
    """What Ray itself makes of deploy/ray/serve.yaml: the class that it runs. Raises what is wrong with it."""
    told = ServeDeploySchema(**yaml.safe_load(DEPLOYED.read_text()))
    for each in told.grpc_options.grpc_servicer_functions:
        import_attr(each)
    (application,) = told.applications
    (unit,) = application.deployments
    import_attr(unit.autoscaling_config["policy"]["policy_function"])
    built = import_attr(application.import_path)({})
    if built._bound_deployment.name != unit.name:
        raise RuntimeError(f"{DEPLOYED} names another deployment, {unit.name}")
    name: str = built._bound_deployment.func_or_class.__name__
    return name


async def requests(config: pb.SynthesizeConfig, *texts: str) -> AsyncIterator[pb.SynthesizeRequest]:
    yield pb.SynthesizeRequest(config=config)
    for text in texts:
        yield pb.SynthesizeRequest(text=text)


async def spoken() -> dict[str, Any]:
    await asyncio.to_thread(deploy, Unit, 0, SETTINGS, num_replicas=2)
    found: dict[str, Any] = {"deployed": deployed()}
    async with stubs(GRPC, 1) as (stub,), grpc.aio.insecure_channel(GRPC, (("grpc.enable_http_proxy", 0),)) as channel:
        one, other = await asyncio.gather(*(_whole(stub, seed=7) for _ in range(2)))
        found["same"] = {"equal": one == other, "bytes": len(one)}
        found["refused"] = await _refusal(stub, pb.SynthesizeConfig(voice="nobody"))
        listed = await VoiceServiceStub(channel).ListVoices(voice_pb2.ListVoicesRequest())
        found["voices"] = len(listed.voices)
        found["cancelled_s"] = await _cancelled(stub)
        found["full"], found["engine_killed"] = await _lost(stub)
    return found


async def _begun(stub: Any, config: pb.SynthesizeConfig, text: str) -> Any:
    """A call that has been taken. Ray's counts may be behind, so that the replica that it chooses is the full one."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            call = stub.Synthesize(requests(config, text))
            try:
                while not (await call.read()).HasField("started"):
                    pass
                return call
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
            await asyncio.sleep(0.1)


async def _two(stub: Any) -> list[Any]:
    """Two calls that speak, and go on for long."""
    calls = [await _begun(stub, pb.SynthesizeConfig(seed=seed), TEXT * 20) for seed in (1, 2)]
    for call in calls:
        while not (await call.read()).HasField("audio"):
            pass
    return calls


async def _whole(stub: Any, seed: int) -> bytes:
    """A sentence as 16-bit samples."""
    config = pb.SynthesizeConfig(seed=seed, audio=pb.AudioFormat(encoding=pb.ENCODING_PCM16), mode=pb.MODE_SENTENCE)
    call, heard, done = await _begun(stub, config, TEXT), b"", False
    while (response := await call.read()) is not grpc.aio.EOF:
        heard += b"".join(response.audio.frames)
        done = response.HasField("done")
    if not done:
        raise RuntimeError("a call ended well without done")
    return heard


async def _refusal(stub: Any, config: pb.SynthesizeConfig) -> dict[str, str]:
    try:
        async for _ in stub.Synthesize(requests(config, TEXT)):
            pass
    except grpc.aio.AioRpcError as error:
        return _told(error)
    raise RuntimeError("a call was to be refused, and was not")


async def _cancelled(stub: Any) -> float:
    """Seconds from when two calls were cancelled until no replica has a stream."""
    calls = await _two(stub)
    began = time.monotonic()
    for call in calls:
        call.cancel()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if all(each == b"" for each in await asyncio.gather(*(_try(stub) for _ in range(2)))):
                return round(time.monotonic() - began, 2)
            await asyncio.sleep(0.1)


async def _try(stub: Any) -> bytes:
    """Nothing, once a replica has a place."""
    call = stub.Synthesize(requests(pb.SynthesizeConfig(), TEXT))
    try:
        while (response := await call.read()) is not grpc.aio.EOF:
            if response.HasField("started"):
                return b""
        return b"ended"
    except grpc.aio.AioRpcError as error:
        return error.code().name.encode()
    finally:
        call.cancel()


async def _lost(stub: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """What a third call is told while two speak; and what both are, once their engines are killed."""
    calls = await _two(stub)
    full = await _refusal(stub, pb.SynthesizeConfig())
    began, told = time.monotonic(), []
    for replica in replicas():
        for engine in engines_of(replica):
            os.kill(engine, signal.SIGKILL)
    for call in calls:
        try:
            while await call.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError as error:
            told.append(_told(error))
    async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(trust_env=False) as client:
        while any([(await client.get(f"http://{HTTP}/readyz")).status_code != 200 for _ in range(6)]):
            await asyncio.sleep(0.2)
    ready = time.monotonic() - began
    await _whole(stub, 7)
    return full, {"told": told, "ready_s": round(ready, 1)}


def _told(error: grpc.aio.AioRpcError) -> dict[str, str]:
    trailing = dict(error.trailing_metadata() or ())
    named = {name: str(trailing[name]) for name in ("oscine-code", "retry-after-ms") if name in trailing}
    return {"code": error.code().name, "details": error.details() or "", **named}
