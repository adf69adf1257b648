"""Pictures of the page while it speaks, for the docs: python -m bench.browser.pictures docs/images"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bench.browser.chromium import CONTROL, Browser, chromium
from tests.browser.house import speaking

WIDE, NARROW = (1100, 860), (390, 1180)
PATIENCE_S = 300.0


async def picture(browser: Browser, address: str, path: Path, size: tuple[int, int], scheme: str) -> None:
    """In the middle of what it says, with words lit."""
    page = await browser.open(f"http://{address}/")
    await page.resize(*size, scale=1.0 if size == WIDE else 2.0, mobile=size != WIDE)
    await page.scheme(scheme)
    await page.until("document.querySelector('#link').textContent === 'ready'", PATIENCE_S)
    await page.until("document.querySelectorAll('#voice option').length > 3", PATIENCE_S)
    await page.run("document.querySelector('#text').focus()")
    await page.press("Enter", CONTROL)
    await page.until("document.querySelectorAll('#words .said').length > 9", PATIENCE_S)
    await page.picture(path)
    await page.press("Escape")
    await page.until("document.querySelector('#stop').disabled", PATIENCE_S)
    await browser.close(page)


async def main(folder: Path) -> None:
    async with speaking("--references") as address, chromium() as browser:
        await picture(browser, address, folder / "browser.png", WIDE, "light")
        await picture(browser, address, folder / "browser-narrow.png", NARROW, "dark")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
