"""The service process that is measured: `oscine serve`, but for its engine process, which speaks with random weights.

    python -m bench.serving.service SERVER STATS...

with a file of STATS for each engine. It prints one line of JSON when all engines serve (`Running`), and ends when its
standard input closes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.served import ServerFailed
from bench.serving.plan import Server

LOAD_S, POLL_S = 540.0, 0.05
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Running:
    """address: of all engines. first: another one, where only the first engine takes calls. service, engines: process
    ids. load_s: how long it took until all engines were ready."""

    address: str
    first: str
    service: int
    engines: list[int]
    load_s: float


@contextmanager
def service(server: Server, stats: Sequence[Path]) -> Iterator[Running]:
    """Run it until the block is left. Raises ServerFailed if it does not come up, having said why on standard error."""
    command = [sys.executable, "-m", "bench.serving.service", server.write(), *map(str, stats)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdin is not None and process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise ServerFailed("the service did not start")
        yield Running(**json.loads(line))
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def environment() -> dict[str, str]:
    """This process's own, with what the command `oscine` sets before grpc is imported."""
    return {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0", **os.environ}


async def serve(server: Server, stats: Sequence[str]) -> None:
    from oscine_engine.front import Front, VoiceInfo
    from oscine_engine.text.front_end import FrontEnd
    from oscine_engine.text.words import word_tokenizer
    from oscine_service.event_loop import lasting
    from oscine_service.grpc.server import serving
    from oscine_service.unit.engines import Engines
    from oscine_service.unit.times import Times

    began = time.monotonic()

    def command(number: int) -> Callable[[Path], list[str]]:
        options = ["--parent", str(os.getpid()), "--max-streams", str(server.max_streams), "--log-level", "INFO"]
        options += ["--server", server.alone(number).write(), "--stats", stats[number]]
        return lambda socket: [sys.executable, "-m", "bench.serving.engine", "--socket", str(socket), *options]

    async with Engines([command(number) for number in range(server.engines)], Times(load=LOAD_S)) as engines:
        async with asyncio.timeout(LOAD_S):
            while engines.ready < server.engines:
                await asyncio.sleep(POLL_S)
        about, front_end = engines.description, FrontEnd("plain", word_tokenizer())
        voices = {voice.name: VoiceInfo(voice.language, voice.description) for voice in about.voices}
        whole, first = (
            Front(port, front_end, voices, about.sample_rate) for port in (engines, engines.supervisors[0].port)
        )
        await asyncio.to_thread(whole.warm)
        async with serving(whole, HOST, 0, grace_s=0) as running, serving(first, HOST, 0, grace_s=0) as alone:
            pids = [supervisor.pid for supervisor in engines.supervisors]
            told = [running.address, alone.address, os.getpid(), pids, round(time.monotonic() - began, 1)]
            with lasting():
                print(json.dumps(dict(zip(Running.__slots__, told, strict=True))), flush=True)
                await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Command line entry point of the process."""
    from oscine_service.event_loop import new_event_loop

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(Server.read(sys.argv[1]), sys.argv[2:]))


if __name__ == "__main__":
    main()
