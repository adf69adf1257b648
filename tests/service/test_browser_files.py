"""The page and the player over HTTP: whole, public, and to be asked for again."""

import posixpath
import re
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from oscine_service import browser
from oscine_service.browser.routes import routes
from oscine_service.config.model import Security, Settings
from oscine_service.entrance import Entrance
from oscine_service.security import keys

FILES = {
    f"{folder}/{entry.name}": entry.read_text()
    for folder in ("page", "player")
    for entry in files(browser).joinpath(folder).iterdir()
    if not entry.name.endswith(".d.ts")
}


@pytest.fixture
def client(tmp_path: Path) -> httpx.AsyncClient:
    """Behind a door that wants keys."""
    book = tmp_path / "keys.json"
    keys.write(book, {"anna": keys.Key("anna", keys.digest(keys.new_key()))})
    entrance = Entrance(Settings(security=Security(keys=book)))
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(entrance.around(Starlette(routes=list(routes())))), base_url="http://127.0.0.1"
    )


async def test_all_that_the_page_names_is_served_without_a_key(client: httpx.AsyncClient) -> None:
    page = await client.get("/")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert "/page/page.js" in named
    for path in (*named, *(f"/{name}" for name in FILES if not name.endswith(".html"))):
        found = await client.get(path)
        assert found.status_code == 200 and found.text == FILES[path[1:]], path
        assert found.headers["x-content-type-options"] == "nosniff"
    assert (await client.get("/player/player.js")).headers["content-type"].startswith("text/javascript")
    assert (await client.post("/")).status_code == 401
    assert (await client.get("/v1/models")).status_code == 401


async def test_a_file_that_has_not_changed_is_not_sent_again(client: httpx.AsyncClient) -> None:
    first = await client.get("/player/player.js")
    again = await client.get("/player/player.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/player/", "/page/nothing.js", "/page/index.html", "/player/%2e%2e/routes.py"])
async def test_nothing_else_is_there(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


async def test_pages_of_others_are_held_to_their_origin(client: httpx.AsyncClient) -> None:
    refused = await client.get("/player/player.js", headers={"Origin": "https://elsewhere.example"})
    assert refused.status_code == 403


def test_every_import_is_a_file_beside() -> None:
    for name, text in FILES.items():
        for module in re.findall(r'^import .* from "([^"]+)"', text, re.MULTILINE):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), module))
            assert target in FILES, f"{name} imports {module}"
