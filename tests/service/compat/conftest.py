"""One HTTP port for the dialects, over a small model of random weights."""

from collections.abc import AsyncIterator

import pytest_asyncio

from oscine_engine.checkpoint.load import Checkpoint
from tests.service.waiting import left_as_found
from tests.service.websocket.conftest import Door, opened


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def shared(checkpoint: Checkpoint) -> AsyncIterator[Door]:
    async with opened(checkpoint) as door:
        yield door


@pytest_asyncio.fixture(loop_scope="package")
async def door(shared: Door) -> AsyncIterator[Door]:
    async with left_as_found(shared) as found:
        yield found
