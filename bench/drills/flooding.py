"""A crowd without keys: python -m bench.drills.flooding GRPC HTTP SECONDS. Bounded in time and in what it opens.

Says `begun`, floods, and prints how it was answered as a line of JSON. Only addresses of this machine are taken.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import grpc

from bench.client import connect
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

HOST = "127.0.0.1"
ASKING, CALLING, IDLE = 32, 32, 200
"""Connections that ask over HTTP one request after the other, calls over gRPC at a time, and connections to each door
that begin a request and never end it."""
CHANNELS = 4
MOST_SECONDS = 120.0
WRONG = "Bearer osk_nobody-has-this-key"
BODY = json.dumps({"input": "Say it for nothing. " * 20, "model": "any", "voice": "alloy"}).encode()
POST = (
    b"POST /v1/audio/speech HTTP/1.1\r\nHost: here\r\nAuthorization: " + WRONG.encode() + b"\r\n"
    b"Content-Type: application/json\r\nContent-Length: " + str(len(BODY)).encode() + b"\r\n\r\n" + BODY
)
UPGRADE = (
    b"GET /v1/speech HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def flood(rpc: str, http: str, seconds: float) -> Counter[str]:
    answers: Counter[str] = Counter()
    until = time.monotonic() + min(seconds, MOST_SECONDS)
    tasks: list[Awaitable[None]] = [_again(_over_http, http, until, answers, number) for number in range(ASKING)]
    tasks += [_again(_idle, address, until, answers, number) for number in range(IDLE) for address in (rpc, http)]
    channels = [connect(rpc) for _ in range(CHANNELS)]
    tasks += [_calling(channels[number % CHANNELS], until, answers) for number in range(CALLING)]
    await asyncio.gather(*tasks)
    for channel in channels:
        await channel.close()
    return answers


async def _again(
    ask: Callable[[str, float, Counter[str], int], Awaitable[None]],
    address: str,
    until: float,
    answers: Counter[str],
    number: int,
) -> None:
    """A new connection whenever the last one was closed."""
    while time.monotonic() < until:
        try:
            await ask(address, until, answers, number)
        except (OSError, asyncio.IncompleteReadError) as error:
            answers[type(error).__name__] += 1
            await asyncio.sleep(0.05)


async def _over_http(address: str, until: float, answers: Counter[str], number: int) -> None:
    request, name = (POST, "http") if number % 2 else (UPGRADE, "websocket")
    reader, writer = await asyncio.open_connection(*_parts(address))
    try:
        while time.monotonic() < until:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            answers[f"{name} {head.split()[1].decode()}"] += 1
            length = next((row for row in head.lower().split(b"\r\n") if row.startswith(b"content-length:")), b":0")
            await reader.readexactly(int(length.partition(b":")[2]))
    finally:
        writer.close()


async def _idle(address: str, until: float, answers: Counter[str], number: int) -> None:
    """Half a request, and then nothing until the service has had enough."""
    reader, writer = await asyncio.open_connection(*_parts(address))
    try:
        writer.write(POST[:40])
        async with asyncio.timeout(max(0.1, until - time.monotonic())):
            while await reader.read(4096):
                pass
            answers["idle, closed"] += 1
            await asyncio.sleep(0.5)
    except TimeoutError:
        answers["idle, left open"] += 1
    finally:
        writer.close()


async def _calling(channel: grpc.aio.Channel, until: float, answers: Counter[str]) -> None:
    stub = SpeechServiceStub(channel)
    request = pb.SynthesizeTextRequest(text="Say it for nothing. " * 20)
    while time.monotonic() < until:
        try:
            async for _ in stub.SynthesizeText(request, metadata=(("authorization", WRONG),)):
                answers["grpc spoke"] += 1
        except grpc.aio.AioRpcError as error:
            answers[f"grpc {error.code().name}"] += 1


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if host != HOST:
        raise ValueError(f"{address} is not {HOST}: only this machine is flooded")
    return host, int(port)


if __name__ == "__main__":
    print("begun", flush=True)
    print(json.dumps(asyncio.run(flood(sys.argv[1], sys.argv[2], float(sys.argv[3])))), flush=True)
