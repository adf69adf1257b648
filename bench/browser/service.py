"""The service's HTTP port, page and player included, in front of a replay.

`python -m bench.browser.service SAMPLES.npy SECONDS` runs one in a process of its own: it prints its address, and
ends when standard input does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
from numpy.typing import NDArray
from starlette.types import ASGIApp

from bench.transport.replay import RATE, ReplayPort
from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_service import browser
from oscine_service.conversation import Calls
from oscine_service.event_loop import new_event_loop
from oscine_service.http.app import application
from oscine_service.http.server import serving
from oscine_service.limits import Limits

HOST = "127.0.0.1"


@asynccontextmanager
async def replaying(
    samples: NDArray[np.float32], seconds: float, around: Callable[[ASGIApp], ASGIApp] = lambda app: app
) -> AsyncIterator[tuple[str, ReplayPort]]:
    """Its address, and the port that plays `seconds` of `samples` to every call."""
    port, calls, limits = ReplayPort(samples, seconds), Calls(), Limits()
    front = Front(port, read_front_end(None), {"replay": VoiceInfo("en", "")}, RATE)
    front.warm()
    app = around(application(front, limits, calls, routes=browser.routes()))
    async with serving(app, HOST, 0, limits=limits, grace_s=0, calls=calls) as address:
        yield address, port


async def serve(samples: NDArray[np.float32], seconds: float) -> None:
    async with replaying(samples, seconds) as (address, _):
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(np.load(sys.argv[1]), float(sys.argv[2])))
