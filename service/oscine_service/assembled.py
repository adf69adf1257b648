"""The parts of a service that open no sockets: what `oscine serve` and a replica of Ray Serve put together."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from oscine_engine.front import Front
from oscine_service import browser
from oscine_service.cli.progress import waiting
from oscine_service.config.engine import engine_settings
from oscine_service.config.model import Settings
from oscine_service.conversation import Calls
from oscine_service.entrance import Entrance
from oscine_service.http import openai, openai_names, openapi
from oscine_service.http import voices as http_voices
from oscine_service.http.app import application
from oscine_service.limits import Limits
from oscine_service.observe import memory
from oscine_service.observe.engine_metrics import EngineState
from oscine_service.recordings import decode
from oscine_service.telephony import http as http_calls
from oscine_service.telephony.rtp import http as http_rtp
from oscine_service.telephony.rtp.exchange import Exchange
from oscine_service.unit.engines import Engines
from oscine_service.unit.front import unit
from oscine_service.unit.times import Times
from oscine_service.voices.library import Library


def patience(settings: Settings) -> Limits:
    """How long clients may hold a place without using it."""
    timeouts = settings.timeouts
    return Limits(
        idle_timeout_s=timeouts.idle_timeout,
        write_timeout_s=timeouts.write_timeout,
        pause_timeout_s=timeouts.pause_timeout,
    )


@asynccontextmanager
async def engine(settings: Settings, limits: Limits) -> AsyncIterator[tuple[Front, Engines | None]]:
    """A front, and the engine processes behind it if there are any."""
    told = replace(engine_settings(settings), session=limits.session)
    if settings.server.in_process:
        # Loads networks, which a service with an engine process never does.
        from oscine_engine.engine import Engine

        async with Engine.load(told, decode=decode) as loaded:
            yield loaded, None
    else:
        times = Times(hang=settings.server.hang_timeout)
        async with AsyncExitStack() as stack:
            async with waiting("starting the engine"):
                started = await stack.enter_async_context(unit(told, times, settings.engine.device))
            yield started.front, started.engines


def states(front: Front, engines: Engines | None) -> list[EngineState]:
    """How the engines are; what one in this process has done is not asked for."""
    if engines is None:
        return [EngineState(front.serving, 0, None)]
    return [
        EngineState(each.port.serving, each.starts, each.figures, each.port.places, memory.resident(each.pid))
        for each in engines.supervisors
    ]


def web(
    settings: Settings,
    front: Front,
    limits: Limits,
    calls: Calls,
    voices: Library,
    entrance: Entrance,
    rtp: Exchange | None = None,
) -> ASGIApp:
    """What is served over HTTP and WebSocket, behind their door."""
    names = openai_names.mapping(settings.server.openai_voices)
    routes: list[BaseRoute] = [
        *openai.routes(front, limits, calls, names, voices),
        *http_voices.routes(voices, calls),
        *openapi.routes(),
    ]
    routes += [*http_calls.routes(calls), *http_rtp.routes(rtp)]
    if settings.server.page:
        routes += browser.routes()
    return entrance.around(application(front, limits, calls, voices, routes=[*routes, *entrance.routes()]))
