"""The service process that is measured: `oscine serve`, but for its engine process, which speaks with random weights.

    python -m bench.serving.service SERVER STATS

It prints one line of JSON when it serves (`address`, `service` and `engine`: process ids, `load_s`), and ends when its
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.client import ServerFailed
from bench.serving.plan import Server

LOAD_S = 540.0


@dataclass(frozen=True, slots=True)
class Running:
    """Process ids, and how long it took to start."""

    address: str
    service: int
    engine: int
    load_s: float


@contextmanager
def service(server: Server, stats: Path) -> Iterator[Running]:
    """Run it until the block is left. Raises ServerFailed if it does not come up, having said why on standard error."""
    command = [sys.executable, "-m", "bench.serving.service", server.write(), str(stats)]
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


async def serve(server: Server, stats: str) -> None:
    from oscine_engine.front import Front, VoiceInfo
    from oscine_engine.text.front_end import FrontEnd
    from oscine_engine.text.words import word_tokenizer
    from oscine_service.grpc.server import serving
    from oscine_service.unit.supervisor import Supervisor
    from oscine_service.unit.times import Times

    began = time.monotonic()

    def command(socket: Path) -> list[str]:
        arguments = [sys.executable, "-m", "bench.serving.engine", "--socket", str(socket)]
        arguments += ["--parent", str(os.getpid()), "--max-streams", str(server.max_streams)]
        return [*arguments, "--log-level", "INFO", "--server", server.write(), "--stats", stats]

    async with Supervisor(command, Times(load=LOAD_S)) as supervisor:
        about = supervisor.description
        voices = {voice.name: VoiceInfo(voice.language, voice.description) for voice in about.voices}
        front = Front(supervisor.port, FrontEnd("plain", word_tokenizer()), voices, about.sample_rate)
        await asyncio.to_thread(front.warm)
        async with serving(front, "127.0.0.1", 0, grace_s=0) as running:
            assert supervisor.pid is not None
            told = Running(running.address, os.getpid(), supervisor.pid, round(time.monotonic() - began, 1))
            print(json.dumps({name: getattr(told, name) for name in Running.__slots__}), flush=True)
            await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Command line entry point of the process."""
    from oscine_service.event_loop import new_event_loop

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(Server.read(sys.argv[1]), sys.argv[2]))


if __name__ == "__main__":
    main()
