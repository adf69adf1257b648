"""A copy of shared voices for a command that ends soon: brought up to date once."""

import asyncio
import logging
from contextlib import closing

from oscine_engine.errors import StoreError
from oscine_service.config.model import Engine
from oscine_service.storage import places
from oscine_service.storage.address import Address
from oscine_service.storage.bucket import opened
from oscine_service.storage.copy import Copy
from oscine_service.storage.mirror import Mirror
from oscine_service.storage.shared import SharedVoices

log = logging.getLogger(__name__)


async def fetched(engine: Engine) -> None:
    """Bring the copy up to date, if voices are shared.

    Raises StoreError where they cannot be read and never were: voices that were copied before are better than none.
    """
    source = places.shared(engine)
    if source is not None:
        await asyncio.to_thread(_fetch, source, engine)


def _fetch(source: Address, engine: Engine) -> None:
    with closing(Copy(places.copy_of(source, engine.voices_copy), str(source))) as copy:
        complete = copy.complete
        copy.check()
        try:
            with closing(SharedVoices(opened(source))) as shared:
                Mirror(shared, copy).look()
        except StoreError as error:
            if not complete:
                raise
            log.warning("voices are used as they were last known: %s", error)
