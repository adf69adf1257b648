"""Every snippet of docs/browser.md, copied and pasted."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bench.browser.chromium import Page, chromium
from tests.browser.house import pages, speaking

pytestmark = pytest.mark.asyncio(loop_scope="module")
DOCS = (Path(__file__).parents[2] / "docs" / "browser.md").read_text()
PAGE = re.findall(r"```html\n(.*?)```", DOCS, re.DOTALL)
SCRIPTS = re.findall(r"```js\n(.*?)```", DOCS, re.DOTALL)
TITLES = [re.findall(r"^#+ (.*)$", DOCS[: DOCS.index(script)], re.MULTILINE)[-1] for script in SCRIPTS]
PATIENCE_S = 300.0
# What a page looks like after each of them, where it is not enough that they end.
SEEN = {
    "Interruptions": "printed[0][0] > 0 && printed[0][0] < 10",
    "Text as it is written": "['started', 'words', 'done'].every((name) => printed.some(([type]) => type === name))",
    "Words as they are spoken": "document.title === 'time'",
    "Errors": "printed[0][0] === 'unknown_voice' && printed[0][1].includes('heart')",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    """The page of the docs on a server of its own, once it has been clicked."""
    folder = tmp_path_factory.mktemp("pages")
    (whole,) = PAGE
    async with pages(folder) as origin, speaking("--origins", origin) as address, chromium() as browser:
        assert "http://localhost:8080/" in whole
        text = whole.replace("http://localhost:8080/", f"http://{address}/")
        # Names of a module are its own: the tests below need them.
        text = text.replace("  let link, call;", "  let link, call;\n  globalThis.docs = () => ({ player, link });")
        (folder / "page.html").write_text(text)
        page = await browser.open(f"{origin}/page.html")
        await page.click("#speak")
        await page.until("document.querySelector('#heard').textContent !== ''", PATIENCE_S)
        yield page
        errors = [error for error in page.errors if "favicon" not in error]
        assert not errors


async def test_the_whole_page_speaks_from_another_origin(page: Page) -> None:
    heard = await page.run("document.querySelector('#heard').textContent")
    assert re.fullmatch(r"[1-9]\.\d s were heard", heard), heard


@pytest.mark.parametrize("title", TITLES)
async def test_a_snippet_does_what_it_says(page: Page, title: str) -> None:
    script = SCRIPTS[TITLES.index(title)]
    await page.run("(() => { globalThis.printed = []; console.log = (...what) => printed.push(what); })()")
    told: Any = await page.run(
        f"(async () => {{ const {{ player, link }} = docs();\n{script}\n; return {SEEN.get(title, 'true')}; }})()"
    )
    assert told is True, await page.run("JSON.stringify([document.title, printed])")


def test_every_snippet_is_one_of_these() -> None:
    assert len(TITLES) == len(set(TITLES)) == DOCS.count("```js") and set(SEEN) <= set(TITLES)
    assert len(PAGE) == DOCS.count("```html") == 1
