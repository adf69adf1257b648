"""A hundred clients that connect, ask for speech without end and stop reading, at each door."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from websockets.asyncio.client import connect

from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from tests.service.commands import Command
from tests.service.waiting import until

CLIENTS, TOGETHER, ROUNDS = 100, 10, 2
LIMIT_S = 8.0
MOST_EACH = 2 << 20
"""Bytes that a service may hold for one of them: 3 s of sound that wait, as it was made, encoded, and on the way."""
TEXT = "It goes on and on."
HERE = Path(__file__).parents[2]

Stall = Callable[[AsyncExitStack, dict[str, str]], Awaitable[object]]


@dataclass
class Service:
    process: "subprocess.Popen[str]"
    addresses: dict[str, str]

    async def figures(self) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(await asyncio.to_thread(self.process.stdout.readline))
        return found


@contextmanager
def stalling() -> Iterator[Service]:
    command = [sys.executable, "-m", "tests.service.stalling", str(LIMIT_S)]
    with Command(command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        yield Service(process, json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.wait(60) == 0


async def over_grpc(left: AsyncExitStack, addresses: dict[str, str]) -> object:
    # A connection of its own, which no other shares.
    options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
    channel = await left.enter_async_context(grpc.aio.insecure_channel(addresses["grpc"], options))
    call = SpeechServiceStub(channel).Synthesize()
    # One that nobody refers to is cancelled.
    left.callback(call.cancel)
    audio = pb.AudioFormat(encoding=pb.ENCODING_PCM16, sample_rate=48000)
    await call.write(pb.SynthesizeRequest(config=pb.SynthesizeConfig(audio=audio)))
    await call.write(pb.SynthesizeRequest(text=TEXT))
    await call.write(pb.SynthesizeRequest(flush=pb.Flush()))
    assert (await call.read()).HasField("started")
    return await call.read()


def _narrow(address: str) -> socket.socket:
    """A connection of which the system takes little that nobody reads."""
    host, _, port = address.rpartition(":")
    way = socket.socket()
    way.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 13)
    way.connect((host, int(port)))
    return way


async def over_websocket(left: AsyncExitStack, addresses: dict[str, str]) -> object:
    way = _narrow(addresses["http"])
    each = await left.enter_async_context(
        connect(f"ws://{addresses['http']}/v1/speech", sock=way, compression=None, max_queue=1, close_timeout=0.1)
    )
    await each.send(json.dumps({"type": "start", "format": {"encoding": "pcm16", "sample_rate": 48000}}))
    for message in ({"type": "text", "text": TEXT}, {"type": "flush"}):
        await each.send(json.dumps(message))
    while isinstance(message := await each.recv(), str):
        assert "error" not in message
    return message


async def over_http(left: AsyncExitStack, addresses: dict[str, str]) -> object:
    way = left.enter_context(_narrow(addresses["http"]))
    asked = {"model": "tts-1", "voice": "alloy", "input": TEXT, "response_format": "pcm", "sample_rate": 48000}
    body = json.dumps(asked).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    way.sendall(head.encode() + b"\r\n\r\n" + body)
    way.setblocking(False)
    return await asyncio.get_running_loop().sock_recv(way, 1000)


@asynccontextmanager
async def stalled(stall: Stall, addresses: dict[str, str], count: int) -> AsyncIterator[None]:
    """So many who have heard the beginning of what they asked for, and read nothing more."""
    async with AsyncExitStack() as left:
        # As many at a time as a busy machine serves before the first of them has been silent for too long.
        for start in range(0, count, TOGETHER):
            assert all(await asyncio.gather(*(stall(left, addresses) for _ in range(min(TOGETHER, count - start)))))
        yield


@pytest.mark.slow
@pytest.mark.parametrize("stall", [over_grpc, over_websocket, over_http])
async def test_clients_that_stop_reading_cost_little_and_not_for_long(stall: Stall) -> None:
    with stalling() as service:

        async def free() -> bool:
            return not (await service.figures())["open"]

        # What is needed once, whoever comes.
        async with stalled(stall, service.addresses, 2):
            await until(free)
        before = await service.figures()
        held: list[int] = []
        for _ in range(ROUNDS):
            most = 0
            async with stalled(stall, service.addresses, CLIENTS):
                while (now := await service.figures())["open"]:
                    most = max(most, now["bytes"])
                    await asyncio.sleep(0.05)
                # Whoever comes meanwhile is served.
                async with stalled(stall, service.addresses, 1):
                    await until(free)
            held.append(most - before["bytes"])
        after = await service.figures()

        async def left_as_it_was() -> bool:
            return (await service.figures())["tasks"] <= before["tasks"] + 1

        await until(left_as_it_was)
    waited = sorted(after["waited_s"])
    each = ", ".join(f"{most / CLIENTS / 1024:.0f}" for most in held)
    print(f"\n{stall.__name__}: {each} KiB each in rounds of {CLIENTS}, places back after at most {waited[-1]:.2f} s")
    assert len(waited) == 2 + ROUNDS * (CLIENTS + 1)
    assert held[0] < CLIENTS * MOST_EACH
    # What they held is used again for those who come after them.
    assert held[-1] < 1.25 * held[0]
    # The limit, and what a busy machine takes to get there.
    assert waited[-1] < 3 * LIMIT_S
