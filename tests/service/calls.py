"""Client halves of calls, as a user would write them."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field

import grpc
import numpy as np
import soundfile
from numpy.typing import NDArray

from oscine_codecs import pcm
from oscine_codecs.ogg import OggMuxer
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

RATE = 24000


def config(
    voice: str = "", encoding: pb.Encoding = pb.ENCODING_PCM16, mode: pb.Mode = pb.MODE_SENTENCE, seed: int = 1
) -> pb.SynthesizeRequest:
    return pb.SynthesizeRequest(
        config=pb.SynthesizeConfig(voice=voice, audio=pb.AudioFormat(encoding=encoding), mode=mode, seed=seed)
    )


def text(*pieces: str) -> list[pb.SynthesizeRequest]:
    return [pb.SynthesizeRequest(text=piece) for piece in pieces]


def played(samples: int) -> pb.SynthesizeRequest:
    return pb.SynthesizeRequest(played=pb.Played(samples=samples))


FLUSH = pb.SynthesizeRequest(flush=pb.Flush())
CANCEL = pb.SynthesizeRequest(cancel=pb.Cancel())
PLAYED = played(0)


@dataclass
class Heard:
    """Everything a call answered. `kinds` in order; `code`, `details` and `trailing` metadata of its end."""

    kinds: list[str] = field(default_factory=list)
    responses: list[pb.SynthesizeResponse] = field(default_factory=list)
    code: grpc.StatusCode = grpc.StatusCode.OK
    details: str = ""
    trailing: dict[str, str] = field(default_factory=dict)

    @property
    def audio(self) -> list[pb.Audio]:
        return [each.audio for each in self.responses if each.HasField("audio")]

    @property
    def frames(self) -> list[bytes]:
        return [frame for audio in self.audio for frame in audio.frames]

    @property
    def samples(self) -> int:
        return sum(audio.samples for audio in self.audio)

    def pcm(self) -> NDArray[np.float32]:
        return pcm.decode(b"".join(self.frames))

    def check_contiguous(self) -> None:
        position = 0
        for sequence, audio in enumerate(self.audio):
            assert (audio.sequence, audio.start_sample) == (sequence, position)
            position += audio.samples


async def converse(
    stub: SpeechServiceStub,
    requests: Iterable[pb.SynthesizeRequest],
    pause_s: float = 0.0,
    on_audio: Callable[[], object] = lambda: None,
) -> Heard:
    async def sending() -> AsyncIterator[pb.SynthesizeRequest]:
        for request in requests:
            yield request
            await asyncio.sleep(pause_s)

    heard = Heard()
    try:
        async for response in stub.Synthesize(sending()):
            heard.responses.append(response)
            heard.kinds.append(str(response.WhichOneof("response")))
            if response.HasField("audio"):
                on_audio()
    except grpc.aio.AioRpcError as error:
        heard.code, heard.details = error.code(), error.details() or ""
        heard.trailing = {key: str(value) for key, value in error.trailing_metadata() or ()}
    return heard


def decode_opus(heard: Heard) -> NDArray[np.float32]:
    """Raw packets through libsndfile's Opus decoder, trimmed as the call said."""
    muxer = OggMuxer(heard.responses[0].started.pre_skip, RATE)
    *body, last = heard.frames
    data = muxer.head() + b"".join(muxer.push(packet) for packet in body) + muxer.finish(last, heard.samples * 2)
    samples, rate = soundfile.read(io.BytesIO(data), dtype="float32")
    return np.asarray(samples[:: rate // RATE])
