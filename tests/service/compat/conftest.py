"""One HTTP port for the dialects, over a small model of random weights."""

from collections.abc import AsyncIterator

import pytest_asyncio

from oscine_engine.checkpoint.load import Checkpoint
from tests.service.websocket.conftest import Door, opened


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def shared(checkpoint: Checkpoint) -> AsyncIterator[Door]:
    async with opened(checkpoint) as door:
        yield door


@pytest_asyncio.fixture(loop_scope="package")
async def door(shared: Door) -> AsyncIterator[Door]:
    """The shared port, with nothing of the test before left in it, and nothing of this one after."""
    await shared.idle()
    yield shared
    await shared.idle()
