"""The page as somebody uses it: real clicks and keys, the embedded voice, a microphone."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import soundfile

from bench.browser.chromium import CONTROL, Browser, Page, chromium
from tests.browser.house import microphone, speaking
from tests.service.recordings import recording, syllables

pytestmark = pytest.mark.asyncio(loop_scope="module")
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 6
PATIENCE_S = 300.0


@dataclass(frozen=True)
class House:
    browser: Browser
    address: str

    async def page(self) -> Page:
        page = await self.browser.open(f"http://{self.address}/")
        await page.until("document.querySelector('#link').textContent === 'ready'", PATIENCE_S)
        await page.until("document.querySelectorAll('#voice option').length > 3")
        return page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("house")
    heard = np.concatenate([np.zeros(48000 * 2, np.float32), syllables(3.0, 48000, 150.0)])
    await asyncio.to_thread(soundfile.write, folder / "heard.wav", heard, 48000, subtype="PCM_16")
    flags = microphone(folder / "heard.wav")
    async with speaking("--references", "--voices", folder / "voices") as address, chromium(flags) as browser:
        yield House(browser, address)


async def write(page: Page, text: str) -> None:
    await page.run("document.querySelector('#text').select()")
    await page.run("document.querySelector('#text').focus()")
    await page.type(text)


async def text_of(page: Page, name: str) -> str:
    found = await page.run(f"document.querySelector('#{name}').textContent")
    assert isinstance(found, str)
    return found


async def spoken(page: Page) -> None:
    await page.until("document.querySelector('#heard').textContent.endsWith(' s')", PATIENCE_S)


async def test_a_text_is_heard_and_its_words_light_up_from_the_keyboard_alone(house: House) -> None:
    page = await house.page()
    for _ in range(30):
        await page.press("Tab")
        if await page.run("document.activeElement.id === 'text'"):
            break
    assert await page.run("document.activeElement.id === 'text'")
    await write(page, "So we stay at home, and wait.")
    await page.press("Enter", CONTROL)
    await page.until("document.querySelector('#words .now') !== null", PATIENCE_S)
    await spoken(page)
    assert (await text_of(page, "words")).split() == "So we stay at home, and wait.".split()
    assert await page.run("document.querySelectorAll('#words .said').length === 7")
    for figure in ("first-packet", "first-sound"):
        assert (await text_of(page, figure)).endswith(" ms")
    assert 1 < float((await text_of(page, "heard")).split()[0]) < 8
    drawn = "(() => { const it = document.querySelector('#wave'); const { data } = it.getContext('2d')"
    drawn += ".getImageData(0, 0, it.width, it.height); return new Set(new Uint32Array(data.buffer)).size; })()"
    assert await page.run(drawn) > 2
    assert await page.run("document.querySelector('#stop').disabled")
    heard = await text_of(page, "heard")
    await page.press("Escape")
    assert await text_of(page, "heard") == heard, "there was nothing to interrupt"
    assert not page.errors


COUNTED = """
globalThis.starts = 0;
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (message.type === "start") starts += 1;
  return post.call(this, message, ...rest);
};
"""


async def test_what_is_asked_over_and_over_is_said_once_and_not_behind_an_escape(house: House) -> None:
    page = await house.browser.open()
    await page.ask("Page.addScriptToEvaluateOnNewDocument", source=COUNTED)
    await page.go(f"http://{house.address}/")
    await page.until("document.querySelector('#link').textContent === 'ready'", PATIENCE_S)
    await write(page, "Yes.")
    # All of them before the first sound of this page may be made.
    enter = "document.onkeydown(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true }));"
    escape = "document.onkeydown(new KeyboardEvent('keydown', { key: 'Escape' }));"
    await page.run(f"{{ {enter} {escape} }}")
    await page.run(f"{{ {enter * 3} }}")
    await spoken(page)
    assert await page.run("starts") == 1
    assert not page.errors


async def test_an_agent_writes_and_escape_interrupts(house: House) -> None:
    page = await house.page()
    await write(page, LONG)
    await page.click("#agent")
    await page.click("#speak")
    await page.until("document.querySelector('#first-sound').textContent !== '–'", PATIENCE_S)
    await page.press("Escape")
    await spoken(page)
    await page.until("document.querySelector('#stop').disabled")
    assert float((await text_of(page, "heard")).split()[0]) < 20
    # The next one is served at once, and without another click.
    await page.run("document.querySelector('#agent').checked = false")
    await write(page, "Yes.")
    await page.press("Enter", CONTROL)
    await page.until("document.querySelector('#first-sound').textContent !== '–'", PATIENCE_S)
    await spoken(page)
    assert not page.errors


async def test_speaking_over_it_interrupts(house: House) -> None:
    page = await house.page()
    await write(page, LONG)
    await page.click("#barge")
    await page.click("#speak")
    await page.until("document.querySelector('#first-sound').textContent !== '–'", PATIENCE_S)
    await spoken(page)
    assert float((await text_of(page, "heard")).split()[0]) < 20
    assert not page.errors


async def test_a_recording_is_a_voice_and_can_be_kept(house: House) -> None:
    page = await house.page()
    await page.click("#record")
    await page.until("/Stop, [5-9] s/.test(document.querySelector('#record').textContent)", PATIENCE_S)
    await page.click("#record")
    await page.until("!document.querySelector('#own').hidden")
    assert "your recording" in await page.run("document.querySelector('#voice').selectedOptions[0].textContent")
    await write(page, "It is raining.")
    await page.click("#speak")
    await spoken(page)
    assert await text_of(page, "message") == ""
    await page.run("document.querySelector('#name').focus()")
    await page.type("anna")
    await page.click("#keep")
    await page.until("document.querySelector('#voice').value === 'anna'", PATIENCE_S)
    assert not page.errors


async def test_a_file_is_a_voice_too_and_a_bad_one_is_refused_in_words(house: House, tmp_path: Path) -> None:
    page = await house.page()
    good, bad, long = tmp_path / "anna.wav", tmp_path / "short.wav", tmp_path / "long.wav"
    good.write_bytes(recording(4.0))
    bad.write_bytes(recording(0.2))
    long.write_bytes(bytes((8 << 20) + 1))
    await page.ask("DOM.enable")
    root = (await page.ask("DOM.getDocument"))["root"]["nodeId"]
    file = (await page.ask("DOM.querySelector", nodeId=root, selector="#file"))["nodeId"]
    for path in (bad, good):
        await page.ask("DOM.setFileInputFiles", nodeId=file, files=[str(path)])
        await write(page, "It is raining.")
        await page.click("#speak")
        if path == bad:
            await page.until("document.querySelector('#message').textContent !== ''", PATIENCE_S)
            await page.until("document.querySelector('#stop').disabled")
    await spoken(page)
    assert await text_of(page, "message") == ""
    await page.ask("DOM.setFileInputFiles", nodeId=file, files=[str(long)])
    await page.until("document.querySelector('#message').textContent.includes('at most 8 MiB')")


async def test_it_fits_a_telephone_in_light_and_dark(house: House) -> None:
    page = await house.page()
    await page.resize(360, 740, scale=2, mobile=True)
    await page.run("document.querySelector('#own').hidden = false")
    colours = []
    for scheme in ("light", "dark"):
        await page.scheme(scheme)
        # A telephone makes room for what is wider than it is.
        assert await page.run("document.documentElement.scrollWidth") == 360
        colours.append(await page.run("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] != colours[1]
    tall = (
        "[...document.querySelectorAll('button')].filter((each) => each.offsetParent).map((each) => each.offsetHeight)"
    )
    assert min(await page.run(tall)) >= 44, "a finger finds it"


async def test_every_field_has_a_name(house: House) -> None:
    page = await house.page()
    nodes = (await page.ask("Accessibility.getFullAXTree"))["nodes"]
    roles = {"button", "textbox", "checkbox", "combobox", "spinbutton", "image"}
    nameless = [
        node for node in nodes if node.get("role", {}).get("value") in roles and not node.get("name", {}).get("value")
    ]
    assert not nameless


async def test_without_webcodecs_the_page_plays_samples(house: House) -> None:
    page = await house.browser.open()
    await page.ask("Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.AudioDecoder;")
    await page.go(f"http://{house.address}/")
    await page.until("document.querySelector('#link').textContent === 'ready'", PATIENCE_S)
    await write(page, "Yes, of course.")
    await page.click("#speak")
    await spoken(page)
    assert 0.3 < float((await text_of(page, "heard")).split()[0]) < 5
    assert not page.errors


async def test_a_service_with_keys_asks_for_one(tmp_path: Path) -> None:
    from oscine_service.security import keys

    key, book = keys.new_key(), tmp_path / "keys.json"
    keys.write(book, {"anna": keys.Key("anna", keys.digest(key))})
    async with speaking("--keys", book) as address, chromium() as browser:
        page = await browser.open(f"http://{address}/")
        await page.until("document.querySelector('#link').className === 'refused'", PATIENCE_S)
        assert "key" in await text_of(page, "link")
        assert await page.run("document.querySelector('details').open")
        await page.run("document.querySelector('#key').focus()")
        await page.type("no key")
        await page.press("Tab")
        await page.until("document.querySelector('#link').textContent.includes('the token cannot be used')")
        await page.run("document.querySelector('#key').select()")
        await page.run("document.querySelector('#key').focus()")
        await page.type(f" {key} ")
        await page.press("Tab")
        await page.until("document.querySelector('#link').className === 'ready'", PATIENCE_S)
        await write(page, "Yes.")
        await page.click("#speak")
        await spoken(page)
