"""A headless Chromium for each module, and a service with a replay in the place of its engine."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bench.browser import chromium
from bench.browser.alignment import Alignment, align
from bench.browser.chromium import Browser, Page
from bench.browser.sent import PLAYED_RATE, Samples, heard, spoken
from bench.browser.service import captured, replaying
from bench.transport.replay import ReplayPort
from oscine_service.audio import Encoding, Format
from tests.service.recordings import syllables

SECONDS = 6.0
OPUS, PCM = Format(), Format(Encoding.PCM16, sample_rate=PLAYED_RATE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs a browser, and says where to get one if it is asked for without."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.skipif(chromium.found() is None, reason="no Chromium: run make browser"))


@dataclass(frozen=True)
class Stage:
    """A service, and a page of it with nothing on it but what tests play with."""

    browser: Browser
    address: str
    port: ReplayPort
    folder: Path

    async def page(self, address: str | None = None) -> Page:
        page = await self.browser.open(f"http://{address or self.address}/bench/")
        await page.run("import('/bench/stage.js').then(() => 1)")
        return page

    def sent(self, seed: int, format: Format = OPUS) -> Samples:
        """What a player should make of the call with that seed, at 48 kHz."""
        return heard(spoken(self.port, seed), format)

    def captured(self, name: str) -> Samples:
        return captured(self.folder, name)

    def aligned(self, name: str, seed: int, format: Format = OPUS) -> Alignment:
        found = align(self.captured(name), self.sent(seed, format))
        assert found is not None, "nothing of what was sent is in what was captured"
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    folder = tmp_path_factory.mktemp("captured")
    samples = syllables(20.0, 24000, 140.0)
    flags = ("--autoplay-policy=no-user-gesture-required",)
    async with replaying(samples, SECONDS, folder) as (address, port), chromium.chromium(flags) as browser:
        yield Stage(browser, address, port, folder)


def value(found: Any) -> dict[str, Any]:
    """What a script has told, an object."""
    assert isinstance(found, dict), found
    return found
