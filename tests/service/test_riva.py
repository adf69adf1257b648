"""Riva's text to speech over a real socket, as its clients call it."""

import io
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc
import numpy as np
import pytest
import pytest_asyncio
import soundfile

from oscine_codecs import pcm
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_proto.nvidia_riva import riva_tts_pb2 as pb
from oscine_proto.nvidia_riva.riva_tts_pb2_grpc import RivaSpeechSynthesisStub
from oscine_service.compat.riva import Riva
from oscine_service.conversation import Calls
from oscine_service.grpc.server import serving
from oscine_service.limits import Limits
from oscine_service.voices.library import library
from tests.service.alike import assert_alike
from tests.service.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Service:
    engine: Engine
    stub: RivaSpeechSynthesisStub
    channel: grpc.aio.Channel
    address: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(checkpoint: Checkpoint) -> AsyncIterator[Service]:
    calls, limits = Calls(), Limits()
    async with (
        Engine(checkpoint, EngineSettings(max_streams=4, utilisation=math.inf)) as engine,
        library(engine.voices, None, None) as voices,
        serving(
            engine, "127.0.0.1", 0, grace_s=0, calls=calls, services=(Riva(engine, limits, calls, voices),)
        ) as server,
        grpc.aio.insecure_channel(server.address, (("grpc.enable_http_proxy", 0),)) as channel,
    ):
        yield Service(engine, RivaSpeechSynthesisStub(channel), channel, server.address)


def request(text: str, **fields: object) -> pb.SynthesizeSpeechRequest:
    """As nvidia-riva-client sends it."""
    settled: dict[str, object] = {
        "language_code": "en-US",
        "encoding": pb.LINEAR_PCM,
        "sample_rate_hz": 22050,
        "custom_configuration": {"seed": "3"},
        **fields,
    }
    return pb.SynthesizeSpeechRequest(text=text, **settled)  # type: ignore[arg-type]


async def speak(service: Service, *requests: pb.SynthesizeSpeechRequest) -> list[pb.SynthesizeSpeechResponse]:
    return [response async for response in service.stub.SynthesizeOnline(iter(requests))]


@contextmanager
def refused(code: grpc.StatusCode, reason: str) -> Iterator[None]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield
    assert (caught.value.code(), reason in (caught.value.details() or "")) == (code, True), caught.value.details()


async def test_whole_and_streamed_are_the_same_and_echo_their_id(service: Service) -> None:
    asked = request("It will rain.", id=pb.RequestId(value="7"))
    whole = await service.stub.Synthesize(asked)
    streamed = await speak(service, asked)
    assert len(streamed) > 1 and {each.id.value for each in (whole, *streamed)} == {"7"}
    assert_alike(b"".join(each.audio for each in streamed), whole.audio)
    assert len(whole.audio) % 2 == 0 and not whole.audio.startswith(b"RIFF")
    faster = await service.stub.Synthesize(request("It will rain.", sample_rate_hz=44100))
    assert len(faster.audio) == pytest.approx(2 * len(whole.audio), rel=0.01)


@pytest.mark.parametrize("encoding", [pb.FLAC, pb.OGGOPUS, pb.MULAW, pb.ALAW])
async def test_every_encoding_is_what_its_name_says(service: Service, encoding: pb.AudioEncoding) -> None:
    asked = {"sample_rate_hz": 24000, "encoding": encoding}
    plain = pcm.decode((await service.stub.Synthesize(request("Hm.", sample_rate_hz=24000))).audio)
    sound = (await service.stub.Synthesize(request("Hm.", **asked))).audio
    if encoding in (pb.MULAW, pb.ALAW):
        subtype = "ULAW" if encoding == pb.MULAW else "ALAW"
        heard, rate = soundfile.read(io.BytesIO(sound), samplerate=24000, channels=1, format="RAW", subtype=subtype)
    else:
        heard, rate = soundfile.read(io.BytesIO(sound))
    assert len(heard) / rate == pytest.approx(len(plain) / 24000, abs=0.025)
    if encoding != pb.OGGOPUS:
        assert np.abs(heard[: len(plain)] - plain[: len(heard)]).max() < 0.02


async def test_requests_are_spoken_in_a_row_with_blanks_between_them(service: Service) -> None:
    """Pipecat's stitched mode: one call, sentences and pieces of sentences, each stripped."""
    pieces = [request(text) for text in ("So we", "stay.", "And read.")]
    together = b"".join(each.audio for each in await speak(service, *pieces))
    written = await speak(service, request("So we stay."), request("And read."))
    assert_alike(together, b"".join(each.audio for each in written))
    # A client may leave out what it has said once.
    short = await speak(service, pieces[0], *(pb.SynthesizeSpeechRequest(text=each.text) for each in pieces[1:]))
    assert_alike(b"".join(each.audio for each in short), together)


async def test_the_voices_are_told_as_clients_read_them(service: Service) -> None:
    answer = await service.stub.GetRivaSynthesisConfig(pb.RivaSynthesisConfigRequest())
    found = {each.parameters["voice_name"]: each.parameters["language_code"] for each in answer.model_config}
    assert list(found) == list(service.engine.voices) and set(found.values()) <= {"en-US", "zh-CN"}
    named = await service.stub.GetRivaSynthesisConfig(pb.RivaSynthesisConfigRequest(model_name="oscine"))
    assert named == answer
    with refused(grpc.StatusCode.NOT_FOUND, "model_name"):
        await service.stub.GetRivaSynthesisConfig(pb.RivaSynthesisConfigRequest(model_name="magpie"))


BAD: list[tuple[dict[str, object], grpc.StatusCode, str]] = [
    ({"voice_name": "nobody"}, grpc.StatusCode.NOT_FOUND, "nobody"),
    ({"voice_name": "n" * 201}, grpc.StatusCode.INVALID_ARGUMENT, "at most 200"),
    ({"language_code": "de-DE"}, grpc.StatusCode.INVALID_ARGUMENT, "en-US or zh-CN"),
    ({"encoding": 9}, grpc.StatusCode.INVALID_ARGUMENT, "LINEAR_PCM, FLAC, MULAW"),
    ({"sample_rate_hz": 22051}, grpc.StatusCode.INVALID_ARGUMENT, "sample_rate_hz: 22051"),
    ({"sample_rate_hz": -1}, grpc.StatusCode.INVALID_ARGUMENT, "sample_rate_hz: -1"),
    ({"encoding": pb.OGGOPUS}, grpc.StatusCode.INVALID_ARGUMENT, "sample_rate_hz: 22050"),
    ({"custom_configuration": {"exaggeration_factor": "2"}}, grpc.StatusCode.INVALID_ARGUMENT, "there are speed"),
    ({"custom_configuration": {"speed": "fast"}}, grpc.StatusCode.INVALID_ARGUMENT, "speed must be a number"),
    ({"custom_configuration": {"speed": "9"}}, grpc.StatusCode.INVALID_ARGUMENT, "0.5 to 2"),
    ({"custom_dictionary": "NVIDIA  ɛn.vɪ.diː.ʌ"}, grpc.StatusCode.INVALID_ARGUMENT, "IPA"),
    ({"custom_dictionary": "NVIDIA en"}, grpc.StatusCode.INVALID_ARGUMENT, "two blanks"),
    ({"zero_shot_data": pb.ZeroShotData(quality=20)}, grpc.StatusCode.INVALID_ARGUMENT, "empty"),
    ({"zero_shot_data": pb.ZeroShotData(quality=41)}, grpc.StatusCode.INVALID_ARGUMENT, "1 to 40"),
    (
        {"zero_shot_data": pb.ZeroShotData(audio_prompt=b"\0\0", encoding=pb.LINEAR_PCM)},
        grpc.StatusCode.INVALID_ARGUMENT,
        "sample_rate_hz",
    ),
    ({"text": " … "}, grpc.StatusCode.INVALID_ARGUMENT, "nothing to speak"),
    ({"text": "a" * 65537}, grpc.StatusCode.INVALID_ARGUMENT, "65536"),
    ({"text": "<speak>Unclosed."}, grpc.StatusCode.INVALID_ARGUMENT, "SSML is broken"),
    ({"text": '<speak><audio src="x"/>Hm.</speak>'}, grpc.StatusCode.INVALID_ARGUMENT, "<audio> is not read"),
    ({"text": '<speak><prosody pitch="+2st">Hm.</prosody></speak>'}, grpc.StatusCode.INVALID_ARGUMENT, "only the rate"),
    ({"text": '<speak><phoneme ph="hə">Hm</phoneme></speak>'}, grpc.StatusCode.INVALID_ARGUMENT, "arpabet"),
]


@pytest.mark.parametrize(("fields", "code", "reason"), BAD, ids=[f"{next(iter(row[0]))}-{row[2]}" for row in BAD])
async def test_what_is_wrong_or_lacking_is_refused_and_named(
    service: Service, fields: dict[str, object], code: grpc.StatusCode, reason: str
) -> None:
    asked = request(**{"text": "Hm.", **fields})  # type: ignore[arg-type]
    with refused(code, reason):
        await service.stub.Synthesize(asked)
    with refused(code, reason):
        await speak(service, asked)


async def test_ssml_is_spoken_and_its_tags_are_not(service: Service) -> None:
    plain = await service.stub.Synthesize(request("One. Two."))
    tagged = await service.stub.Synthesize(request('<speak><prosody rate="100%">One. Two.</prosody></speak>'))
    assert_alike(tagged.audio, plain.audio)


async def test_a_bad_request_loses_nothing_that_was_accepted(service: Service) -> None:
    good = request("So we stay.")
    alone = b"".join(each.audio for each in await speak(service, good))
    for bad in (request("<speak>More."), request("More.", sample_rate_hz=8000)):
        heard = b""
        with refused(grpc.StatusCode.INVALID_ARGUMENT, ""):
            async for response in service.stub.SynthesizeOnline(iter((good, bad))):
                heard += response.audio
        assert_alike(heard, alone)


async def test_bytes_that_are_no_message_are_refused(service: Service) -> None:
    path = f"/{Riva.name}"
    for method in ("Synthesize", "GetRivaSynthesisConfig"):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "not a"):
            await service.channel.unary_unary(f"{path}/{method}")(b"\x0a\xff")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "not a"):
        await service.channel.stream_unary(f"{path}/SynthesizeOnline")(iter([b"\x0a\xff"]))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "no request"):
        await speak(service)


async def test_a_client_that_interrupts_by_cancelling_frees_everything(service: Service) -> None:
    call = service.stub.SynthesizeOnline(iter([request("This goes on and on, as long as anybody listens. " * 20)]))
    assert (await call.read()).audio  # type: ignore[union-attr]
    call.cancel()

    async def idle() -> bool:
        return service.engine.load_now == (0, 0)

    await until(idle)
