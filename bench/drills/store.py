"""A voice store behind a service, from a client's side: recordings to make voices of, and what was acknowledged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
import numpy as np
from numpy.typing import NDArray

from bench.client import RATE, speak
from bench.drills.listener import Listener
from oscine_codecs import pcm, wav
from oscine_proto.oscine.v1 import speech_pb2, voice_pb2
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_proto.oscine.v1.voice_pb2_grpc import VoiceServiceStub

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub
    from oscine_proto.oscine.v1.voice_pb2_grpc import VoiceServiceAsyncStub

WORDS = "The kettle is on, and the rain has stopped. We should leave before the shops close."
PIECE = 500_000
MODEL_FLAGS = ("--utilisation", "inf", "--max-streams", "4", "--grace", "2", "--log-level", "info")
"""Of a service with the embedded voice: the only one here with encoders for recordings."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """Makes voices through a service. kept: names that were acknowledged, whatever service did it."""

    recording: NDArray[np.float32]
    kept: list[str] = field(default_factory=list)

    async def make(self, channel: grpc.aio.Channel, name: str) -> None:
        """Returns when it is acknowledged. Raises grpc.aio.AioRpcError."""
        stub: VoiceServiceAsyncStub = VoiceServiceStub(channel)
        # A little softer each time, or it would be the very same voice and nothing to be written.
        softer = self.recording * 0.98 ** (sum(map(ord, name)) % 50)
        data = wav.header(RATE, softer.size) + pcm.encode(softer)

        async def pieces() -> AsyncIterator[voice_pb2.CreateVoiceRequest]:
            yield voice_pb2.CreateVoiceRequest(config=voice_pb2.CreateVoiceConfig(name=name, transcript=WORDS))
            for at in range(0, len(data), PIECE):
                yield voice_pb2.CreateVoiceRequest(audio=data[at : at + PIECE])

        await stub.CreateVoice(pieces())
        self.kept.append(name)


async def recorded(channel: grpc.aio.Channel) -> Keeper:
    """With a recording that the service itself speaks."""
    stub: SpeechServiceAsyncStub = SpeechServiceStub(channel)
    audio = speech_pb2.AudioFormat(encoding=speech_pb2.ENCODING_PCM16)
    config = speech_pb2.SynthesizeConfig(audio=audio, seed=1, mode=speech_pb2.MODE_SENTENCE)
    call = await speak(stub, config, [WORDS], 0.0)
    return Keeper(np.concatenate([packet.samples for packet in call.packets]))


async def listed(channel: grpc.aio.Channel) -> set[str]:
    """Names of the store's voices."""
    stub: VoiceServiceAsyncStub = VoiceServiceStub(channel)
    answer = await stub.ListVoices(voice_pb2.ListVoicesRequest(page_size=1000))
    return {each.name for each in answer.voices if each.origin != voice_pb2.ORIGIN_MODEL}


async def unspoken(channel: grpc.aio.Channel, names: Sequence[str]) -> list[str]:
    """Of these voices, those that a call cannot speak in to its end, and why."""
    faults = []
    for name in names:
        heard = await Listener(SpeechServiceStub(channel), voice=name).hear()
        if not heard.complete:
            faults.append(f"{name}: {heard.status} {heard.details}")
    return faults
