"""A headless Chromium, driven over its DevTools protocol: pages, keys, clicks, pictures."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # as root, which containers are
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--mute-audio",
    "--remote-debugging-port=0",
    "--window-size=1100,900",
)
STARTS_S = 60.0
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, "")}
CONTROL = 2


class PageError(Exception):
    """Something that a page's script threw."""


def found() -> str | None:
    """The program, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class Page:
    """One tab. errors: what its console and its uncaught exceptions said."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self.target = browser, session, target
        self.errors: list[str] = []

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.ask(method, params, self._session)

    async def go(self, url: str) -> None:
        """Returns when it has loaded."""
        await self.ask("Page.navigate", url=url)
        await self.until(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    async def run(self, script: str) -> Any:
        """The value of an expression, awaited if it is a promise; raises PageError for what it throws."""
        found = await self.ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in found:
            raise PageError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    async def until(self, script: str, within_s: float = 30.0) -> None:
        async with asyncio.timeout(within_s):
            while not await self.run(script):
                await asyncio.sleep(0.05)

    async def press(self, key: str, modifiers: int = 0) -> None:
        code, text = KEYS[key]
        told = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        down = {**told, "text": text} if text and not modifiers else told
        await self.ask("Input.dispatchKeyEvent", type="keyDown", **down)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", **told)

    async def type(self, text: str) -> None:
        await self.ask("Input.insertText", text=text)

    async def click(self, selector: str) -> None:
        place = await self.run(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)});"
            "it.scrollIntoView({ block: 'center' }); const { x, y, width, height } = it.getBoundingClientRect();"
            "return [x + width / 2, y + height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    async def resize(self, width: int, height: int, *, scale: float = 1.0, mobile: bool = False) -> None:
        await self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )

    async def scheme(self, name: str) -> None:
        """light or dark."""
        await self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    async def picture(self, path: Path) -> None:
        shot = await self.ask("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(shot["data"]))


class Browser:
    def __init__(self, socket: ClientConnection, folder: Path) -> None:
        self._socket, self._folder = socket, folder
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}

    async def ask(
        self, method: str, params: dict[str, Any] | None = None, session: str | None = None
    ) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        told = {"id": number, "method": method, "params": params or {}}
        await self._socket.send(json.dumps(told if session is None else {**told, "sessionId": session}))
        return await answer

    async def open(self, url: str = "about:blank", *, behind: bool = False) -> Page:
        """A new tab. behind: in a window of its own, so that it covers nothing."""
        made = await self.ask("Target.createTarget", {"url": "about:blank", "newWindow": behind})
        attached = await self.ask("Target.attachToTarget", {"targetId": made["targetId"], "flatten": True})
        page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"], made["targetId"])
        for domain in ("Page", "Runtime", "Log"):
            await page.ask(f"{domain}.enable")
        if url != "about:blank":
            await page.go(url)
        return page

    async def show(self, page: Page) -> None:
        """Bring a tab to the front; the one that was there is hidden."""
        await self.ask("Target.activateTarget", {"targetId": page.target})

    async def close(self, page: Page) -> None:
        await self.ask("Target.closeTarget", {"targetId": page.target})

    async def listen(self) -> None:
        async for message in self._socket:
            told = json.loads(message)
            if "id" in told:
                answer = self._answers.pop(told["id"])
                if answer.cancelled():
                    continue
                if "error" in told:
                    answer.set_exception(PageError(json.dumps(told["error"])))
                else:
                    answer.set_result(told["result"])
                continue
            page = self._pages.get(told.get("sessionId", ""))
            if page is None:
                continue
            params = told["params"]
            if told["method"] == "Runtime.exceptionThrown":
                page.errors.append(json.dumps(params["exceptionDetails"])[:2000])
            elif told["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                page.errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
            elif told["method"] == "Runtime.consoleAPICalled" and params["type"] == "error":
                page.errors.append(" ".join(str(each.get("value", each)) for each in params["args"]))


@asynccontextmanager
async def chromium(flags: Sequence[str] = ()) -> AsyncIterator[Browser]:
    """flags: more of them. Raises FileNotFoundError where there is none."""
    program = found()
    if program is None:
        raise FileNotFoundError("no Chromium: apt-get install chromium, or make browser")
    with tempfile.TemporaryDirectory(prefix="oscine-chromium-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        process = await asyncio.create_subprocess_exec(
            program,
            *FLAGS,
            *flags,
            f"--user-data-dir={folder}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            address = await _address(folder / "DevToolsActivePort", process)
            async with connect(address, max_size=None, compression=None, proxy=None, ping_interval=None) as socket:
                browser = Browser(socket, folder)
                listening = asyncio.create_task(browser.listen())
                try:
                    yield browser
                    await browser.ask("Browser.close")
                finally:
                    listening.cancel()
        finally:
            try:
                async with asyncio.timeout(10):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def _address(file: Path, process: asyncio.subprocess.Process) -> str:
    """Where it listens, once it has written that down."""

    def written() -> list[str]:
        return file.read_text().split("\n") if file.exists() else []

    async with asyncio.timeout(STARTS_S):
        while len(lines := await asyncio.to_thread(written)) < 2:
            if process.returncode is not None:
                raise RuntimeError(f"Chromium has ended with {process.returncode}")
            await asyncio.sleep(0.05)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
