"""Listeners at one door: python -m bench.transport.clients TO, a plan as JSON on standard input, what came into a file.

They decode nothing: the machine they share with the service is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import grpc
from websockets.asyncio.client import connect

from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.event_loop import new_event_loop
from oscine_service.websocket.messages import HEADER

TEXT = "Play it."
SPREAD_S = 1.0
"""Streams begin at even distances over so long: as many packets are then due at any time."""


@dataclass(slots=True)
class Heard:
    """Of one stream. sent: when its text went out. messages: of each message with audio when it came, the position of
    its first sample, samples and frames. ended: what it ended with, None if it ended well."""

    seed: int
    sent: float = 0.0
    messages: list[tuple[float, int, int, int]] = field(default_factory=list)
    ended: str | None = "it did not end"


async def over_grpc(address: str, heard: Heard) -> None:
    # Each with a connection of its own, as clients on other machines have.
    options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.insecure_channel(address, options) as channel:
        await channel.channel_ready()

        async def requests() -> AsyncIterator[pb.SynthesizeRequest]:
            config = pb.SynthesizeConfig(seed=heard.seed, mode=pb.MODE_SENTENCE)
            yield pb.SynthesizeRequest(config=config)
            await opened.wait()
            heard.sent = time.monotonic()
            yield pb.SynthesizeRequest(text=TEXT)

        opened = asyncio.Event()
        async for response in SpeechServiceStub(channel).Synthesize(requests()):
            if response.HasField("audio"):
                now, audio = time.monotonic(), response.audio
                heard.messages.append((now, audio.start_sample, audio.samples, len(audio.frames)))
            elif response.HasField("started"):
                opened.set()
            elif response.HasField("done"):
                heard.ended = None


async def over_websocket(address: str, heard: Heard) -> None:
    async with connect(f"ws://{address}/v1/speech", compression=None, proxy=None) as socket:
        await socket.send(json.dumps({"type": "start", "seed": heard.seed, "mode": "sentence"}))
        async for message in socket:
            if isinstance(message, bytes):
                now = time.monotonic()
                _, _, frames, _, _, samples, start = HEADER.unpack_from(message)
                heard.messages.append((now, start, samples, frames))
                continue
            told: dict[str, Any] = json.loads(message)
            if told["type"] == "started":
                heard.sent = time.monotonic()
                await socket.send(json.dumps({"type": "text", "text": TEXT}))
                await socket.send(json.dumps({"type": "end"}))
            elif told["type"] == "done":
                heard.ended = None
                return
            elif told["type"] == "error":
                heard.ended = told["message"]
                return


async def one(door: str, address: str, heard: Heard, after_s: float) -> None:
    await asyncio.sleep(after_s)
    try:
        await (over_grpc if door == "grpc" else over_websocket)(address, heard)
    except (grpc.aio.AioRpcError, OSError) as error:
        heard.ended = str(error)


async def all_of(door: str, address: str, streams: int, spread_s: float, first_seed: int) -> list[Heard]:
    heard = [Heard(first_seed + number) for number in range(streams)]
    await asyncio.gather(*(one(door, address, each, spread_s * n / streams) for n, each in enumerate(heard)))
    return heard


def main() -> None:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        heard = runner.run(all_of(**json.loads(sys.stdin.read())))
    # Not on standard output: a pipe takes only a part of what Python writes at once where it is told not to buffer.
    Path(sys.argv[1]).write_text(json.dumps({"cpu_s": time.process_time(), "heard": [asdict(each) for each in heard]}))


if __name__ == "__main__":
    main()
