"""A front in this process over engines in others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_engine.settings import EngineSettings
from oscine_service.recordings import decode
from oscine_service.unit.attempt import Command
from oscine_service.unit.engines import Engines
from oscine_service.unit.process import command
from oscine_service.unit.times import Times


@dataclass(frozen=True, slots=True)
class Unit:
    """Sessions open at `front`; `engines` knows how those that speak are."""

    front: Front
    engines: Engines


@asynccontextmanager
async def unit(
    settings: EngineSettings, times: Times | None = None, devices: Sequence[str] | None = None
) -> AsyncIterator[Unit]:
    """Start an engine process for `settings` on each of `devices` and keep them running until the block is left.

    devices: as `EngineSettings.device`, which it takes the place of; the limits are those of each engine. Entering
    takes seconds, until the first engine is ready, and raises CheckpointError for a model that does not fit, or
    whatever else keeps an engine from starting before that. Later the sessions of one that is lost end with
    Unavailable, and it comes back by itself. Enter it in the main thread.
    """
    commands = [_command(replace(settings, device=device)) for device in devices or (settings.device,)]
    front_end = await asyncio.to_thread(read_front_end, settings.model)
    warming = asyncio.create_task(asyncio.to_thread(front_end.warm))
    try:
        async with Engines(commands, times) as engines:
            about = engines.description
            voices = {voice.name: VoiceInfo(voice.language, voice.description) for voice in about.voices}
            await warming
            stored, taken = settings.voices is not None, decode if settings.references else None
            front = Front(engines, front_end, voices, about.sample_rate, settings.session, stored=stored, decode=taken)
            yield Unit(front, engines)
    finally:
        warming.cancel()


def _command(settings: EngineSettings) -> Command:
    return lambda socket: command(settings, socket)
