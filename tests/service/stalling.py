"""The doors in front of an engine that is as fast as its listeners: python -m tests.service.stalling LIMIT_S

Prints where they listen as a line of JSON; then, for each line of standard input, how much memory the process holds,
how many streams are open, and of those that ended, how long each had waited for its listener.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from oscine_engine.errors import OscineError
from oscine_engine.events import Audio
from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_engine.planner import Step
from oscine_engine.port import Deliver, Progress, StreamOptions
from oscine_service.conversation import Calls
from oscine_service.event_loop import new_event_loop
from oscine_service.grpc.server import serving
from oscine_service.http import openai
from oscine_service.http.app import application
from oscine_service.http.server import serving as http_serving
from oscine_service.limits import Limits

RATE, AHEAD = 24000, 3
"""Of its sound, and the packets of a second that are made before a listener has taken them."""


class EndlessPort:
    """Says something for ever, until somebody stops it."""

    serving = True

    def __init__(self) -> None:
        self.streams = set[EndlessStream]()
        self.waited_s: list[float] = []

    @property
    def admitted(self) -> int:
        return len(self.streams)

    async def open(self, options: StreamOptions, deliver: Deliver) -> "EndlessStream":
        stream = EndlessStream(self, deliver)
        self.streams.add(stream)
        return stream


class EndlessStream:
    def __init__(self, port: EndlessPort, deliver: Deliver) -> None:
        self._port, self._deliver = port, deliver
        self._speaking = False
        self._made = self._taken = 0
        self._taken_at = time.monotonic()

    def speak(self, steps: Sequence[Step], *, mark: bool = False, end: bool = False) -> None:
        if steps and not self._speaking:
            self._speaking = True
            self._deliver(Progress(working=True, answered=0))
            self._go_on()

    def taken(self, samples: int) -> None:
        self._taken += samples
        self._taken_at = time.monotonic()
        self._go_on()

    def played(self, samples: int) -> None:
        """Nobody here reports that."""

    def stop(self, error: OscineError) -> None:
        self._port.waited_s.append(time.monotonic() - self._taken_at)
        self._port.streams.discard(self)
        self._deliver(error)

    def _go_on(self) -> None:
        while self._made < self._taken + AHEAD * RATE:
            sound = np.random.default_rng(self._made).uniform(-0.5, 0.5, RATE).astype(np.float32)
            self._deliver(Audio(self._made // RATE, self._made, sound))
            self._made += RATE


def resident() -> int:
    """Bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def main(limit_s: float) -> None:
    port, calls, limits = EndlessPort(), Calls(), Limits(write_timeout_s=limit_s)
    front = Front(port, read_front_end(None), {"endless": VoiceInfo("en", "")}, RATE, limits=limits.session)
    front.warm()
    app = application(front, limits, calls, routes=openai.routes(front, limits, calls, {}))
    async with (
        serving(front, "127.0.0.1", 0, limits=limits, grace_s=0, calls=calls) as running,
        http_serving(app, "127.0.0.1", 0, limits=limits, grace_s=0, calls=calls) as http,
    ):
        print(json.dumps({"grpc": running.address, "http": http}), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            told = {
                "bytes": resident(),
                "open": port.admitted,
                "waited_s": port.waited_s,
                "tasks": len(asyncio.all_tasks()),
            }
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(float(sys.argv[1])))
