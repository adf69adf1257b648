"""The voices of a service: those of its model, and those of its store, shared with other machines or not."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from oscine_engine.front import VoiceInfo
from oscine_service.cli.progress import waiting
from oscine_service.config.model import Engine
from oscine_service.observe.shared_voices import SharedVoicesCollector
from oscine_service.storage import places
from oscine_service.storage.keeping import Keeper, keeping
from oscine_service.voices.library import Library, library


@asynccontextmanager
async def copying(engine: Engine) -> AsyncIterator[Keeper | None]:
    """What keeps this machine's copy of shared voices up to date, where they are shared.

    To be entered before engines start, which copying need not wait for. Raises StoreError for a folder that cannot be
    a copy.
    """
    source, folder = places.shared(engine), places.folder(engine)
    if source is None or folder is None:
        yield None
        return
    async with keeping(source, folder) as keeper:
        yield keeper


@asynccontextmanager
async def voices_of(
    engine: Engine, shipped: Mapping[str, VoiceInfo], copies: Keeper | None, registry: CollectorRegistry
) -> AsyncIterator[Library]:
    """What callers may name, shared voices as they are now.

    shipped: the model's. copies: what `copying` gave; registry: of the metrics that tell of it. Raises StoreError for
    a store that cannot be used.
    """
    if copies is not None:
        async with waiting("copying shared voices"):
            await copies.ready()
        registry.register(SharedVoicesCollector(lambda: copies.state))
    async with library(shipped, places.folder(engine), engine.model, places.shared(engine)) as voices:
        yield voices
