"""A unit as a replica: a service without sockets of its own, and the engine processes behind it."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.grpc_util import RayServegRPCContext
from starlette.types import ASGIApp

from oscine_engine.errors import InvalidInput, Unavailable
from oscine_service import assembled
from oscine_service.config.sources import resolve
from oscine_service.conversation import Calls
from oscine_service.entrance import Entrance
from oscine_service.grpc.speech import SpeechService
from oscine_service.grpc.voices import VoiceService
from oscine_service.observe import logs
from oscine_service.ray_serve.methods import Methods, Refusal
from oscine_service.ray_serve.proxy import paths
from oscine_service.ray_serve.scaling import PLACES, STREAMS
from oscine_service.voices.serving import copying, voices_of

LOST_S = 60.0
"""A replica whose engine has not come back by itself after so long is replaced."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A message that is bytes already, with the one method of a message that Ray calls."""

    data: bytes

    def SerializeToString(self) -> bytes:
        return self.data


class Replica:
    """What is set is read from the environment, as by `oscine serve`; ports and TLS are Ray's affair."""

    async def __init__(self) -> None:  # type: ignore[misc]  # Ray awaits it
        settings = resolve(None, os.environ).settings
        logs.set_up(settings.observe.log_level, settings.observe.log_format)
        if settings.server.in_process:
            raise InvalidInput("a replica's engine is a process of its own: leave OSCINE_IN_PROCESS out")
        self._calls, limits, entrance = Calls(), assembled.patience(settings), Entrance(settings)
        async with AsyncExitStack() as stack:
            copies = await stack.enter_async_context(copying(settings.engine))
            self._front, self._engines = await stack.enter_async_context(assembled.engine(settings, limits))
            voices = await stack.enter_async_context(
                voices_of(settings.engine, self._front.voices, copies, entrance.metrics.registry)
            )
            states = partial(assembled.states, self._front, self._engines)
            await stack.enter_async_context(entrance.before(self._front, states))
            services = (SpeechService(self._front, limits, self._calls), VoiceService(voices, self._calls))
            self._methods = Methods([each.handler() for each in services], entrance.interceptors())
            self._web = assembled.web(settings, self._front, limits, self._calls, voices, entrance)
            self._stack = stack.pop_all()
        self._paths = paths()
        self._served = time.monotonic()

    async def __del__(self) -> None:
        if hasattr(self, "_stack"):  # it may have failed to start
            self._calls.stop()
            await self._stack.aclose()

    def __serve_build_asgi_app__(self) -> ASGIApp:
        return self._web

    async def check_health(self) -> None:
        now = time.monotonic()
        if self._front.serving:
            self._served = now
        elif now - self._served > LOST_S:
            raise Unavailable(f"the engine of this unit has been gone for {now - self._served:.0f} s", 1.0)

    async def record_autoscaling_stats(self) -> dict[str, float]:
        assert self._engines is not None
        places = sum(each.port.places for each in self._engines.supervisors)
        return {STREAMS: self._engines.admitted, PLACES: places}

    async def Synthesize(
        self, requests: AsyncIterator[bytes], grpc_context: RayServegRPCContext
    ) -> AsyncIterator[Reply]:
        async for reply in self._replies("Synthesize", requests, grpc_context):
            yield reply

    async def SynthesizeText(self, request: bytes, grpc_context: RayServegRPCContext) -> AsyncIterator[Reply]:
        async for reply in self._replies("SynthesizeText", _only(request), grpc_context):
            yield reply

    async def ListVoices(self, request: bytes, grpc_context: RayServegRPCContext) -> Reply:
        return await self._reply("ListVoices", _only(request), grpc_context)

    async def GetVoice(self, request: bytes, grpc_context: RayServegRPCContext) -> Reply:
        return await self._reply("GetVoice", _only(request), grpc_context)

    async def DeleteVoice(self, request: bytes, grpc_context: RayServegRPCContext) -> Reply:
        return await self._reply("DeleteVoice", _only(request), grpc_context)

    async def CreateVoice(self, requests: AsyncIterator[bytes], grpc_context: RayServegRPCContext) -> Reply:
        return await self._reply("CreateVoice", requests, grpc_context)

    async def _replies(
        self, name: str, requests: AsyncIterator[bytes], context: RayServegRPCContext
    ) -> AsyncIterator[Reply]:
        """A refusal is told with an empty response: Ray passes trailing metadata on with responses only."""
        async with aclosing(self._methods.call(self._paths[name], context.invocation_metadata(), requests)) as answers:
            async for each in answers:
                if isinstance(each, Refusal):
                    context.set_code(each.code)
                    context.set_details(each.details)
                    context.set_trailing_metadata(list(each.trailing))
                    yield Reply(b"")
                else:
                    yield Reply(each)

    async def _reply(self, name: str, requests: AsyncIterator[bytes], context: RayServegRPCContext) -> Reply:
        return [reply async for reply in self._replies(name, requests, context)][-1]


Unit = serve.deployment(name="unit")(serve.ingress()(Replica))


async def _only(request: bytes) -> AsyncIterator[bytes]:
    yield request


def application(arguments: dict[str, Any]) -> Application:
    """What deploy/ray/serve.yaml imports. Takes no arguments: settings come by the environment of the replicas."""
    if arguments:
        raise InvalidInput(f"no arguments are taken, such as {next(iter(arguments))}: put settings into env_vars")
    return Unit.bind()
