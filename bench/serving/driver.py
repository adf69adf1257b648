"""Clients in a process of their own: they call, and write down when what went and came. No figures are made here.

    python -m bench.serving.driver

Standard input holds two lines of JSON: what to do (`Work`), and when, as a moment of the monotonic clock. It prints
"ready" between them, once its channels stand, and at the end all calls, as one line of JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import grpc

from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub

ENCODINGS = {"opus": pb.ENCODING_OPUS, "pcm16": pb.ENCODING_PCM16}
AGAIN_S = 0.1
"""A client that was refused calls again after so long."""
DRAIN_S = 30.0
"""Calls that are running when the time is over may take so long to end."""


@dataclass(frozen=True, slots=True)
class Work:
    """clients: each calls again when its call has ended, for `seconds`. arrivals: or when calls come, in seconds.

    texts are taken in turn, from number `first` on, every `step`-th; each is a list of pieces, sent 1 / per_s apart or,
    where that is None, at once. Seeds are their numbers. voices are taken in turn.
    """

    address: str
    seconds: float
    clients: int
    arrivals: list[float]
    texts: list[list[str]]
    first: int
    step: int
    voices: list[str]
    encoding: str
    per_s: float | None
    channels: int


@dataclass(slots=True)
class Call:
    """Moments of the monotonic clock. asked: before anything was sent. sent: before each piece of text was.

    packets: (when it was there, samples) of each piece of audio. ended: when the status was there, None if it never
    came. error: the status with its details, "" for OK.
    """

    number: int
    asked: float
    sent: list[float] = field(default_factory=list)
    packets: list[tuple[float, int]] = field(default_factory=list)
    ended: float | None = None
    error: str = ""


class Clients:
    """All of them in one event loop."""

    def __init__(self, work: Work, stubs: Sequence[SpeechServiceAsyncStub]) -> None:
        self._work = work
        self._stubs = itertools.cycle(stubs)
        self._numbers = itertools.count(work.first, work.step)
        self.calls: list[Call] = []

    async def run(self, began: float) -> None:
        work = self._work
        await _until(began)
        if work.clients:
            ends = [asyncio.create_task(self._client(began + work.seconds)) for _ in range(work.clients)]
        else:
            ends = []
            for arrival in work.arrivals:
                await _until(began + arrival)
                ends.append(asyncio.create_task(self._call(next(self._stubs))))
            await _until(began + work.seconds)
        if ends:
            _, late = await asyncio.wait(ends, timeout=max(0.0, began + work.seconds - time.monotonic()) + DRAIN_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _client(self, until: float) -> None:
        stub = next(self._stubs)
        while time.monotonic() < until:
            call = await self._call(stub)
            if call.error:
                await asyncio.sleep(AGAIN_S)

    async def _call(self, stub: SpeechServiceAsyncStub) -> Call:
        work, number = self._work, next(self._numbers)
        call = Call(number, time.monotonic())
        self.calls.append(call)
        config = pb.SynthesizeConfig(
            voice=work.voices[number % len(work.voices)],
            mode=pb.MODE_SENTENCE if work.per_s is None else pb.MODE_INTERLEAVED,
            seed=number,
            audio=pb.AudioFormat(encoding=ENCODINGS[work.encoding]),
        )
        stream = stub.Synthesize()
        writing = asyncio.create_task(self._write(stream, call, config))
        try:
            while (response := await stream.read()) is not grpc.aio.EOF:
                if response.HasField("audio"):
                    call.packets.append((time.monotonic(), response.audio.samples))
            call.ended = time.monotonic()
            if await stream.code() is not grpc.StatusCode.OK:
                call.error = f"{(await stream.code()).name}: {await stream.details()}"
        except grpc.aio.AioRpcError as error:
            call.ended = time.monotonic()
            call.error = f"{error.code().name}: {error.details()}"
        except asyncio.CancelledError:
            stream.cancel()
            call.error = "UNFINISHED: it had not ended when the measurement was over"
        writing.cancel()
        return call

    async def _write(self, stream: Any, call: Call, config: pb.SynthesizeConfig) -> None:
        pieces = self._work.texts[call.number % len(self._work.texts)]
        per_s = self._work.per_s
        try:
            await stream.write(pb.SynthesizeRequest(config=config))
            for index, piece in enumerate(pieces):
                if index and per_s is not None:
                    await _until(call.sent[0] + index / per_s)
                call.sent.append(time.monotonic())
                await stream.write(pb.SynthesizeRequest(text=piece))
            await stream.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The reader is told why.
            return


async def _until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


async def drive(work: Work) -> list[Call]:
    # Each with a connection of its own; grpc would share one among channels that look alike.
    options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
    channels = [grpc.aio.insecure_channel(work.address, options) for _ in range(work.channels)]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    print("ready", flush=True)
    clients = Clients(work, [SpeechServiceStub(channel) for channel in channels])
    began = float(await asyncio.to_thread(sys.stdin.readline))
    await clients.run(began)
    await asyncio.gather(*(channel.close() for channel in channels))
    return clients.calls


def main() -> None:
    """Command line entry point of the process."""
    from oscine_service.event_loop import new_event_loop

    work = Work(**json.loads(sys.stdin.readline()))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        calls = runner.run(drive(work))
    # Python's own standard output is unbuffered if the environment says so, and then loses what a pipe does not take.
    with open(sys.stdout.fileno(), "w", closefd=False) as out:
        json.dump([asdict(call) for call in calls], out)


if __name__ == "__main__":
    main()
