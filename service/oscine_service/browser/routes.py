"""The files of the page and of the player, over HTTP."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

PUBLIC = ("/page/", "/player/")
"""Beginnings of paths that, with `/` itself, need no key: the same files for everybody."""
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
HEADERS = {
    "Cache-Control": "no-cache",  # asked for again, and answered with 304: a new version is a new page at once
    "X-Content-Type-Options": "nosniff",
}
# Nothing from elsewhere, and nobody else's frame around it; a recording is listened to as a blob.
POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; media-src blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self)",
}


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    media_type: str
    tag: str


def routes() -> Sequence[BaseRoute]:
    """Read once, when the service starts. Each file has a route, so that a path can name nothing else."""
    found: list[BaseRoute] = []
    for folder in ("page", "player"):
        for entry in sorted(files(__package__).joinpath(folder).iterdir(), key=lambda each: each.name):
            kind = entry.name.rpartition(".")[2]
            if kind not in TYPES:
                continue
            content = entry.read_bytes()
            file = File(content, TYPES[kind], f'"{hashlib.sha256(content).hexdigest()[:24]}"')
            path = "/" if entry.name == "index.html" else f"/{folder}/{entry.name}"
            found.append(Route(path, partial(_send, file)))
    return found


async def _send(file: File, request: Request) -> Response:
    headers = {**HEADERS, "ETag": file.tag, **(PAGE_HEADERS if file.media_type == TYPES["html"] else {})}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)
