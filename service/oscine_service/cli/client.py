"""`oscine say --server`: the same through a running service. Loads no network."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from oscine_codecs import opus, pcm
from oscine_engine.errors import InternalError, OscineError
from oscine_engine.events import Audio, SessionRequest, Stats
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.audio import SAMPLE_RATE
from oscine_service.cli.files import contents
from oscine_service.cli.progress import Progress
from oscine_service.cli.sinks import OPUS_SUFFIXES, Sink, open_sink
from oscine_service.cli.texts import Unreadable, pieces_of
from oscine_service.conversation.verbs import MAX_TEXT_BYTES
from oscine_service.grpc.options import fill
from oscine_service.grpc.responses import MODES

if TYPE_CHECKING:
    Call = grpc.aio.StreamStreamCall[pb.SynthesizeRequest, pb.SynthesizeResponse]

OPTIONS = (("grpc.enable_http_proxy", 0),)
"""A service is spoken to directly, whatever proxy the environment names."""
SLICE = MAX_TEXT_BYTES // 4
"""Characters a message, of at most four bytes each."""


@dataclass(frozen=True, slots=True)
class Server:
    """How to reach a service. address: "HOST:PORT". key: None where it asks for none. tls: encrypted, and the service
    must show a certificate that the system's authorities stand for, or those of the file `authority`, which implies
    it."""

    address: str
    key: str | None = None
    tls: bool = False
    authority: Path | None = None

    def channel(self) -> grpc.aio.Channel:
        """Raises InvalidInput for authorities that cannot be read."""
        if not self.tls and self.authority is None:
            return grpc.aio.insecure_channel(self.address, OPTIONS)
        known = None if self.authority is None else contents(self.authority, "the authorities")
        return grpc.aio.secure_channel(self.address, grpc.ssl_channel_credentials(known), OPTIONS)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return () if not self.key else (("authorization", f"Bearer {self.key}"),)


class ServiceFailed(OscineError):
    """The service could not be reached, or ended the call with an error."""


async def say(server: Server, text: str, request: SessionRequest, output: Path | None) -> None:
    """Speak `text`, or standard input if it is "-", through a service.

    Samples come as PCM, so that a file holds what the engine made, whatever is written. Raises ServiceFailed, and
    Unreadable for input that goes wrong, after all before it was spoken.
    """
    pieces = pieces_of(text)
    if output is not None and output.suffix in OPUS_SUFFIXES:
        opus.require()
    faults: list[Unreadable] = []
    with open_sink(output, SAMPLE_RATE) as sink:
        async with server.channel() as channel:
            call: Call = SpeechServiceStub(channel).Synthesize(metadata=server.metadata)
            async with asyncio.TaskGroup() as tasks:
                feeding = tasks.create_task(_feed(call, request, pieces, faults))
                try:
                    await _hear(call, sink)
                except grpc.aio.AioRpcError as error:
                    if faults and error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                        # That there was nothing to speak is no wonder where it could not be read.
                        raise faults[0] from error
                    reached = channel.get_state() is grpc.ChannelConnectivity.READY
                    raise ServiceFailed(_words(server, error, reached)) from error
                finally:
                    feeding.cancel()
    if faults:
        raise faults[0]


async def _feed(call: "Call", request: SessionRequest, pieces: AsyncIterator[str], faults: list[Unreadable]) -> None:
    """Ends the input where it cannot be read on, too, and adds why to `faults`."""
    try:
        await call.write(pb.SynthesizeRequest(config=_config(request)))
        try:
            async for piece in pieces:
                for at in range(0, len(piece), SLICE):
                    await call.write(pb.SynthesizeRequest(text=piece[at : at + SLICE]))
        except Unreadable as fault:
            faults.append(fault)
        await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return  # the call has ended, and whoever hears it is told why


def _config(request: SessionRequest) -> pb.SynthesizeConfig:
    config = pb.SynthesizeConfig(
        voice=request.voice or "",
        audio=pb.AudioFormat(encoding=pb.ENCODING_PCM16, sample_rate=SAMPLE_RATE),
        mode=MODES[request.mode],
        trim=request.trim,
    )
    if request.seed is not None:
        config.seed = request.seed
    fill(config, request)
    return config


async def _hear(call: "Call", sink: Sink) -> None:
    progress, done = Progress(SAMPLE_RATE), False
    async for response in call:
        match response.WhichOneof("response"):
            case "audio":
                audio = response.audio
                heard = Audio(audio.sequence, audio.start_sample, pcm.decode(b"".join(audio.frames)))
                progress.heard(heard, None, None)
                await asyncio.to_thread(sink.write, heard.samples)
            case "done":
                progress.done(_stats(response.done))
                done = True
    if not done:
        raise InternalError("the service ended the call without a last word: the speech may be incomplete")


def _stats(done: pb.Done) -> Stats:
    known = done.HasField("real_time_factor")
    return Stats(
        audio_s=done.audio_seconds,
        segments=done.segments,
        speech_tokens=0,
        first_packet_s=done.first_packet_seconds if done.HasField("first_packet_seconds") else None,
        busy_s=done.real_time_factor * done.audio_seconds if known else None,
        unspoken_characters=done.unspoken_characters,
    )


def _words(server: Server, error: grpc.aio.AioRpcError, reached: bool) -> str:
    address = server.address
    if error.code() is grpc.StatusCode.UNAVAILABLE and not reached:
        return f"no service answers at {address}: is `oscine serve` running there? ({error.details()})"
    if error.code() is grpc.StatusCode.UNAUTHENTICATED and server.key:
        return f"the service at {address} does not know the key, or it has expired: give another with --key"
    if error.code() is grpc.StatusCode.UNAUTHENTICATED:
        return f"the service at {address} speaks to keys that it knows only: give its key with --key"
    hint = dict(error.trailing_metadata() or ()).get("retry-after-ms")
    later = "" if hint is None else f" (in {int(hint) / 1000:.1f} s)"
    return f"the service at {address} says {error.code().name}: {error.details()}{later}"
