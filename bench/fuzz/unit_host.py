"""The engine's side of a unit's socket, in front of a real loop over a model of random weights.

Whatever its service sends, a stream must come to its end, and the loop must live for the next one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import grpc

from bench.fuzz import draw, protobuf
from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import load
from oscine_engine.runtime.device import Device, DeviceLimits
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_service.unit.host import hosting

STREAM = "/oscine.unit.v1.EngineService/Stream"
SPEAKING_S, ENDED_S = 0.05, 30.0
_STOP = pb.StreamRequest(stop=pb.Stop(error=pb.Error(code="cancelled", message="enough"))).SerializeToString()


class Host:
    """A device behind a socket, and an event loop in a thread, until the stack is left."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        checkpoint = load(synthetic.write(folder / "model"))
        self.voice = next(iter(checkpoint.voices))
        self.device = stack.enter_context(_running(Device(checkpoint, DeviceLimits(max_streams=4))))
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(self._loop.call_soon_threadsafe, self._loop.stop)
        self._socket = str(folder / "unit" / "socket")
        self._hosting = hosting(self.device, 4, self._socket)
        self._do(self._hosting.__aenter__())
        stack.callback(lambda: self._do(self._hosting.__aexit__(None, None, None)))
        self._do(self._connect())
        stack.callback(lambda: self._do(self._connected.close()))

    def call(self, requests: Sequence[bytes]) -> None:
        """One stream of these. Raises AssertionError where it does not end, or the loop does."""
        self._do(self._call(requests))
        if not self.device.loop.serving:
            raise AssertionError("the loop has failed")

    async def _connect(self) -> None:
        self._connected = grpc.aio.insecure_channel(f"unix:{self._socket}")

    async def _call(self, requests: Sequence[bytes]) -> None:
        async def sent() -> AsyncIterator[bytes]:
            for request in requests:
                yield request
            await asyncio.sleep(SPEAKING_S)
            # Half a segment, or a listener that takes nothing, would be waited for.
            yield _STOP

        call: Any = self._connected.stream_stream(STREAM)(sent())
        last = pb.StreamResponse()
        try:
            async with asyncio.timeout(ENDED_S):
                async for answer in call:
                    last = pb.StreamResponse.FromString(answer)
                    if last.WhichOneof("response") in ("done", "error"):
                        break
        except grpc.aio.AioRpcError:
            return  # bytes that are no message end their call
        except TimeoutError:
            raise AssertionError("the stream did not end") from None
        finally:
            call.cancel()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _running:
    def __init__(self, device: Device) -> None:
        self._device = device

    def __enter__(self) -> Device:
        self._device.start()
        return self._device

    def __exit__(self, *_: object) -> None:
        self._device.close()


def requests(random: Random, voice: str) -> list[bytes]:
    """Mostly a stream as a service opens it, with steps that are not as a planner makes them."""
    opening = pb.Open(voice=voice, seed=random.randrange(1 << 63), speed=random.choice((1.0, 0.5, 2.0)))
    if draw.chance(random, 0.2):
        protobuf.fill(random, opening, 0.15)
    sent = [pb.StreamRequest(open=opening)] if draw.chance(random, 0.97) else []
    for _ in range(random.randrange(5)):
        match random.randrange(7):
            case 0:
                sent.append(pb.StreamRequest(taken=pb.Taken(samples=random.choice((0, 480, 2**40, 2**64 - 1)))))
            case 1:
                sent.append(pb.StreamRequest(played=pb.Played(samples=random.choice((0, 480, 2**40, 2**64 - 1)))))
            case 2:
                message = protobuf.filled(random, pb.StreamRequest.DESCRIPTOR, 0.4)
                assert isinstance(message, pb.StreamRequest)
                sent.append(message)
            case _:
                steps = [_step(random) for _ in range(random.randrange(6))]
                sent.append(pb.StreamRequest(speak=pb.Speak(steps=steps, mark=draw.chance(random, 0.2))))
    sent.append(pb.StreamRequest(speak=pb.Speak(end=True)))
    return [protobuf.wire(random, each, 0.03) for each in sent]


def _step(random: Random) -> pb.Step:
    match random.randrange(4):
        case 0:
            return pb.Step(
                begin=pb.Begin(whole=draw.chance(random, 0.5), rate=random.choice((1.0, 1.0, 0.0, -1.0, 1e9)))
            )
        case 1:
            return pb.Step(end=pb.End())
    odd = draw.chance(random, 0.1)
    ids = [
        random.choice((-1 % 2**32, 2**31, 10**6)) if odd else random.randrange(1, 40)
        for _ in range(random.randrange(9))
    ]
    return pb.Step(ids=pb.Ids(ids=ids))
