"""`oscine demo`: the whole way on one machine, a real server and a client that writes like a language model."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np

from oscine_codecs import opus
from oscine_codecs.opus import OpusDecoder
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import InternalError
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.cli.sinks import Sink, open_sink
from oscine_service.grpc.server import serving

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub

TEXT = (
    "Hello, and thank you for trying this out. I start to speak while the words are still being written, so that "
    "nobody has to wait for the end of a sentence. The weather looks good today, and the train leaves at nine."
)
WORD_S = 0.12
"""Seconds a word: about what a language model takes."""


async def demo(settings: EngineSettings, output: Path) -> None:
    """Serve on a free port, stream TEXT in word by word, write the speech to `output`, print the latency."""
    opus.require()
    print("loading the model", flush=True)
    engine = Engine.load(settings)
    with open_sink(output, engine.sample_rate) as sink:
        async with engine, serving(engine, "127.0.0.1", 0) as server:
            print(f"serving on {server.address}; streaming {len(TEXT.split())} words at {1 / WORD_S:.0f} a second")
            # The server is on this machine, whatever proxy the environment names.
            options = (("grpc.enable_http_proxy", 0),)
            async with grpc.aio.insecure_channel(server.address, options) as channel:
                try:
                    await _speak(SpeechServiceStub(channel), sink)
                except grpc.aio.AioRpcError as error:
                    raise InternalError(f"the call failed: {error.details()}") from error
    print(f"wrote {output}")


async def _speak(stub: "SpeechServiceAsyncStub", sink: Sink) -> None:
    decoder = OpusDecoder()
    written: dict[str, float] = {}
    heard = skip = 0
    async for response in stub.Synthesize(_requests(written)):
        match response.WhichOneof("response"):
            case "started":
                skip = response.started.pre_skip * decoder.sample_rate // 48000
            case "audio":
                if heard == 0:
                    now = time.monotonic()
                    unwritten = "" if "last" in written else ", while words were still being written"
                    print(
                        f"first packet {1000 * (now - written['first']):.0f} ms after the first word{unwritten}",
                        flush=True,
                    )
                wave = np.concatenate([decoder.decode(packet) for packet in response.audio.frames])
                dropped, skip = skip, max(0, skip - wave.size)
                wave = wave[dropped:]
                # The last packet is padded; what counts is where the speech ends.
                wave = wave[: response.audio.start_sample + response.audio.samples - heard]
                sink.write(wave)
                heard += wave.size
            case "done":
                done = response.done
                print(
                    f"{done.audio_seconds:.1f} s of speech in {done.segments} sentences, real-time factor "
                    f"{done.real_time_factor:.2f}; first packet {1000 * done.first_packet_seconds:.0f} ms after the "
                    "model had the words it needs"
                )


async def _requests(written: dict[str, float]) -> AsyncIterator[pb.SynthesizeRequest]:
    yield pb.SynthesizeRequest(config=pb.SynthesizeConfig())
    for word in TEXT.split():
        written.setdefault("first", time.monotonic())
        yield pb.SynthesizeRequest(text=word + " ")
        await asyncio.sleep(WORD_S)
    written["last"] = time.monotonic()
