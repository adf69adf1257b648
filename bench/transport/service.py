"""The service's doors in front of a replay: python -m bench.transport.service SAMPLES.npy SECONDS

Prints where it listens as a line of JSON; once standard input is closed, what it saw as another.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import numpy as np
from numpy.typing import NDArray

from bench.transport.replay import RATE, ReplayPort
from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_service.audio import Format, writer
from oscine_service.conversation import Calls
from oscine_service.event_loop import lasting, new_event_loop
from oscine_service.grpc.server import serving
from oscine_service.http.app import application
from oscine_service.http.server import serving as http_serving
from oscine_service.limits import Limits

HOST = "127.0.0.1"


def encoding_ms(samples: NDArray[np.float32]) -> float:
    """CPU time to encode a second of speech as the doors do, with nothing else going on."""
    second = samples[:RATE]
    encoder = writer(Format())
    encoder.push(second)
    began = time.process_time()
    rounds = 20
    for _ in range(rounds):
        encoder.push(second)
    return (time.process_time() - began) / rounds * 1000


async def serve(samples: NDArray[np.float32], seconds: float) -> None:
    port, calls, limits = ReplayPort(samples, seconds), Calls(), Limits()
    front = Front(port, read_front_end(None), {"replay": VoiceInfo("en", "")}, RATE)
    front.warm()
    encoding = encoding_ms(samples)
    async with (
        serving(front, HOST, 0, limits=limits, calls=calls) as running,
        http_serving(application(front, limits, calls), HOST, 0, limits=limits, calls=calls) as http,
    ):
        with lasting():
            print(json.dumps({"grpc": running.address, "http": http}), flush=True)
            while await asyncio.to_thread(sys.stdin.readline):
                # One figure for each question: CPU seconds so far, and when the streams since the last one began.
                begun, port.begun = port.begun, {}
                told = {"cpu_s": time.process_time(), "begun": begun, "open": port.admitted, "encoding_ms": encoding}
                print(json.dumps(told), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(np.load(sys.argv[1]), float(sys.argv[2])))
