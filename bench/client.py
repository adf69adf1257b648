"""A served model in a process of its own, and calls to it with the time of everything that went and came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np
from numpy.typing import NDArray

from bench.served import served
from oscine_codecs import pcm
from oscine_codecs.opus import OpusDecoder
from oscine_proto.oscine.v1 import speech_pb2 as pb

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub

RATE = 24000
Samples = NDArray[np.float32]


@contextmanager
def server(model: Path | None, max_streams: int) -> Iterator[str]:
    """Run `oscine serve` on a free port of this machine; gives its address. Raises ServerFailed."""
    with served("--max-streams", str(max_streams), model=model) as running:
        yield running.grpc


def connect(address: str) -> grpc.aio.Channel:
    """A channel to this machine, whatever proxy the environment names."""
    return grpc.aio.insecure_channel(address, (("grpc.enable_http_proxy", 0),))


@dataclass(frozen=True, slots=True)
class Packet:
    """When it came, in seconds of the monotonic clock, and what it lets a player play."""

    arrived: float
    samples: Samples


@dataclass(frozen=True, slots=True)
class Call:
    """`sent`: when each piece of text went out."""

    sent: tuple[float, ...]
    packets: tuple[Packet, ...]


async def speak(
    stub: SpeechServiceAsyncStub, config: pb.SynthesizeConfig, pieces: Sequence[str], interval_s: float
) -> Call:
    """One call; `pieces` go out `interval_s` apart and the input ends with the last. Raises grpc.aio.AioRpcError."""
    sent: list[float] = []

    async def writing() -> AsyncIterator[pb.SynthesizeRequest]:
        yield pb.SynthesizeRequest(config=config)
        for piece in pieces:
            if sent:
                await asyncio.sleep(max(0.0, sent[0] + len(sent) * interval_s - time.monotonic()))
            sent.append(time.monotonic())
            yield pb.SynthesizeRequest(text=piece)

    started = pb.Started()
    received: list[tuple[float, pb.Audio]] = []
    async for response in stub.Synthesize(writing()):
        if response.HasField("audio"):
            received.append((time.monotonic(), response.audio))
        elif response.HasField("started"):
            started = response.started
    # Decoded afterwards: the client should take as little as it can of a machine it shares with the server.
    return Call(tuple(sent), tuple(_decode(started, received)))


def _decode(started: pb.Started, received: list[tuple[float, pb.Audio]]) -> Iterator[Packet]:
    opus = OpusDecoder(RATE) if started.audio.encoding == pb.ENCODING_OPUS else None
    skip = started.pre_skip * RATE // 48000
    for arrived, audio in received:
        wave = np.concatenate([opus.decode(frame) if opus else pcm.decode(frame) for frame in audio.frames])
        dropped, skip = skip, max(0, skip - wave.size)
        if (playable := wave[dropped:]).size:
            yield Packet(arrived, playable)
