"""The service's WebSocket and RTP in front of a replay: python -m bench.rtp.service SAMPLES.npy SECONDS

Prints the address of its HTTP port; then, for each line on standard input, what it has seen as a line of JSON.
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
from oscine_service.conversation import Calls
from oscine_service.event_loop import lasting, new_event_loop
from oscine_service.http.app import application
from oscine_service.http.server import serving
from oscine_service.limits import Limits
from oscine_service.telephony.rtp import http
from oscine_service.telephony.rtp.exchange import Place, exchange

HOST = "127.0.0.1"


async def serve(samples: NDArray[np.float32], seconds: float) -> None:
    port, calls, limits = ReplayPort(samples, seconds), Calls(), Limits()
    front = Front(port, read_front_end(None), {"replay": VoiceInfo("en", "")}, RATE)
    front.warm()
    async with (
        exchange(Place(HOST), calls.sinks) as rtp,
        serving(application(front, limits, calls, routes=http.routes(rtp)), HOST, 0, limits=limits, calls=calls) as at,
    ):
        with lasting():
            print(json.dumps(at), flush=True)
            while await asyncio.to_thread(sys.stdin.readline):
                told = {
                    "cpu_s": time.process_time(),
                    "calls": len(list(calls.sinks)),
                    "skipped": rtp.clock.skipped,
                    "latest_ms": round(rtp.clock.latest_ns / 1e6, 2),
                }
                print(json.dumps(told), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(np.load(sys.argv[1]), float(sys.argv[2])))
