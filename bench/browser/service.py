"""The service's HTTP port, page and player included, in front of a replay, and what a measurement needs beside it.

`python -m bench.browser.service SAMPLES.npy SECONDS FOLDER` runs one in a process of its own: it prints its address,
and ends when standard input does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from bench.browser.sent import Samples
from bench.transport.replay import RATE, ReplayPort
from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_service import browser
from oscine_service.conversation import Calls
from oscine_service.event_loop import new_event_loop
from oscine_service.http.app import application
from oscine_service.http.server import serving
from oscine_service.limits import Limits

HOST = "127.0.0.1"
HERE = Path(__file__).parent


@asynccontextmanager
async def replaying(samples: Samples, seconds: float, folder: Path) -> AsyncIterator[tuple[str, ReplayPort]]:
    """Its address, and the port that plays `seconds` of `samples` to every call. folder: for what is captured."""
    port, calls, limits = ReplayPort(samples, seconds), Calls(), Limits()
    front = Front(port, read_front_end(None), {"replay": VoiceInfo("en", "")}, RATE)
    front.warm()
    app = application(front, limits, calls, routes=[*browser.routes(), *_stage(folder)])
    async with serving(app, HOST, 0, limits=limits, grace_s=0, calls=calls) as address:
        yield address, port


def captured(folder: Path, name: str) -> Samples:
    return np.fromfile(folder / f"{name}.f32", dtype="<f4")


def _stage(folder: Path) -> list[BaseRoute]:
    """/bench/: an empty page, scripts to run in it, and where captured sound goes."""

    async def empty(request: Request) -> Response:
        return HTMLResponse("<!doctype html><title>stage</title><link rel='icon' href='/page/icon.svg'>")

    async def script(request: Request) -> Response:
        content = await asyncio.to_thread((HERE / f"{request.path_params['name']}.js").read_bytes)
        return Response(content, media_type="text/javascript")

    async def take(request: Request) -> Response:
        content, path = await request.body(), folder / f"{request.path_params['name']}.f32"

        def append() -> None:
            with path.open("ab") as file:
                file.write(content)

        await asyncio.to_thread(append)
        return Response(status_code=204)

    return [
        Route("/bench/", empty),
        Route("/bench/{name:str}.js", script),
        Route("/bench/captured/{name:str}", take, methods=["POST"]),
    ]


async def serve(samples: Samples, seconds: float, folder: Path) -> None:
    async with replaying(samples, seconds, folder) as (address, _):
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(np.load(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])))
