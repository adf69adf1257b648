"""The whole service with an engine that answers at once: python -m bench.fuzz.service FOLDER

Prints where it listens, as a line of JSON. For each line on standard input it prints what it holds now, and what was
logged as a fault of its own since the last one. FOLDER: of the voice store, and of the keys, which it makes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench.figures import resident
from bench.fuzz.port import RATE, FastPort
from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_engine.runtime.memory import give_back, share_a_heap
from oscine_service.compat.riva import Riva
from oscine_service.config.model import Security, Settings
from oscine_service.conversation import Calls
from oscine_service.entrance import Entrance
from oscine_service.event_loop import lasting, new_event_loop
from oscine_service.grpc.server import serving
from oscine_service.grpc.voices import VoiceService
from oscine_service.http import openai, openapi
from oscine_service.http import voices as http_voices
from oscine_service.http.app import application
from oscine_service.http.server import serving as http_serving
from oscine_service.limits import Limits
from oscine_service.recordings import decode
from oscine_service.security import keys
from oscine_service.security.principal import Grant
from oscine_service.voices.library import library

HOST = "127.0.0.1"
VOICES = {"ada": VoiceInfo("en", ""), "li": VoiceInfo("zh", "")}
PAGE = "https://page.example"
BEAT_S = 0.01
PATIENCE_S = 600.0
"""With clients that do not answer at once, on a machine that others use: that is not what is tried."""


class Faults(logging.Handler):
    """Keeps what must never be logged: errors, and whatever comes with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or record.exc_info:
            self.found.append(self.format(record)[-2000:])

    def take(self) -> list[str]:
        found, self.found = self.found, []
        return found


class Pulse:
    """How long the event loop has computed without a pause: by its own clock, so that others on the machine do not
    count."""

    def __init__(self) -> None:
        self._longest = 0.0

    async def beat(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(BEAT_S)
            self._longest = max(self._longest, time.thread_time() - before)

    def take(self) -> float:
        longest, self._longest = self._longest, 0.0
        return longest


def holding(port: FastPort, calls: Calls) -> dict[str, int]:
    gc.collect()
    give_back()
    return {
        "tasks": len(asyncio.all_tasks()),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "calls": calls.running,
        "streams": port.admitted,
        "bytes": resident(),
    }


async def serve(folder: Path, faults: Faults) -> None:
    key = keys.new_key()
    book = folder / "keys.json"
    keys.write(book, {"fuzz": keys.Key("fuzz", keys.digest(key), owner="fuzz", grants=tuple(Grant))})
    settings = Settings(security=Security(keys=book, origins=(PAGE,)))
    port, calls, limits, entrance = FastPort(VOICES), Calls(), Limits(ping_timeout_s=PATIENCE_S), Entrance(settings)
    front = Front(port, read_front_end(None), VOICES, RATE, limits.session, stored=True, decode=decode)
    front.warm()
    pulse = Pulse()
    async with (
        library(VOICES, folder / "voices", None) as voices,
        entrance.before(front, list),
        serving(
            front,
            HOST,
            0,
            limits=limits,
            calls=calls,
            grace_s=0,
            interceptors=entrance.interceptors(),
            services=(VoiceService(voices, calls), Riva(front, limits, calls, voices)),
        ) as running,
    ):
        routes = [
            *openai.routes(front, limits, calls, {}, voices),
            *http_voices.routes(voices, calls),
            *openapi.routes(),
        ]
        app = entrance.around(application(front, limits, calls, routes=[*routes, *entrance.routes()]))
        async with http_serving(app, HOST, 0, limits=limits, grace_s=0, calls=calls) as http:
            with lasting():
                beating = asyncio.create_task(pulse.beat())
                _print({"grpc": running.address, "http": http, "key": key})
                while await asyncio.to_thread(sys.stdin.readline):
                    told = {**holding(port, calls), "held_s": pulse.take(), "faults": faults.take()}
                    _print(told)
                beating.cancel()


def _print(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)


def main() -> None:
    faults = Faults()
    logging.getLogger().addHandler(faults)
    # Else memory that grows may be holes in heaps of threads.
    share_a_heap()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1]), faults))


if __name__ == "__main__":
    main()
