"""A front in this process over an engine in another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_engine.settings import EngineSettings
from oscine_service.unit.process import command
from oscine_service.unit.supervisor import Supervisor
from oscine_service.unit.times import Times


@dataclass(frozen=True, slots=True)
class Unit:
    """Sessions open at `front`; `supervisor` knows how its engine is."""

    front: Front
    supervisor: Supervisor


@asynccontextmanager
async def unit(settings: EngineSettings, times: Times | None = None) -> AsyncIterator[Unit]:
    """Start an engine process for `settings` and keep one running until the block is left.

    Entering takes seconds, and raises CheckpointError for a model that does not fit, or whatever else keeps the engine
    from starting the first time. Later its sessions raise Unavailable when it is lost, and it comes back by itself.
    Enter it in the main thread.
    """

    def started(socket: Path) -> list[str]:
        return command(settings, socket)

    front_end = await asyncio.to_thread(read_front_end, settings.model)
    warming = asyncio.create_task(asyncio.to_thread(front_end.warm))
    try:
        async with Supervisor(started, times) as supervisor:
            about = supervisor.description
            voices = {voice.name: VoiceInfo(voice.language, voice.description) for voice in about.voices}
            await warming
            yield Unit(Front(supervisor.port, front_end, voices, about.sample_rate, settings.session), supervisor)
    finally:
        warming.cancel()
