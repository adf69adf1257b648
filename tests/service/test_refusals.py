"""SpeechService.Synthesize over a real socket: bad input, limits, clients that leave."""

import asyncio
from collections.abc import Sequence

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from oscine_engine.scheduler.turns import SHORTEST_STAY_S
from oscine_proto.oscine.v1 import speech_pb2 as pb
from tests.service.calls import CANCEL, FLUSH, PLAYED, config, converse, text
from tests.service.conftest import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

METHOD = "/oscine.v1.SpeechService/Synthesize"
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 8


def audio(**fields: object) -> pb.SynthesizeRequest:
    return pb.SynthesizeRequest(config=pb.SynthesizeConfig(audio=pb.AudioFormat(**fields)))  # type: ignore[arg-type]


def quiet(ms: int) -> pb.SynthesizeRequest:
    return pb.SynthesizeRequest(config=pb.SynthesizeConfig(quiet_ms=ms))


REFUSED: list[tuple[str, Sequence[pb.SynthesizeRequest], grpc.StatusCode, str]] = [
    ("no request", [], grpc.StatusCode.INVALID_ARGUMENT, "send a config first"),
    ("text first", text("Hello."), grpc.StatusCode.INVALID_ARGUMENT, "must be a config"),
    ("empty request", [pb.SynthesizeRequest()], grpc.StatusCode.INVALID_ARGUMENT, "one of config, text, flush"),
    ("unknown voice", [config("nobody")], grpc.StatusCode.NOT_FOUND, "synthetic"),
    ("endless voice", [config("n" * 1_000_000)], grpc.StatusCode.INVALID_ARGUMENT, "at most 200"),
    ("no text", [config()], grpc.StatusCode.INVALID_ARGUMENT, "nothing to speak"),
    ("empty text", [config(), *text("", "  ")], grpc.StatusCode.INVALID_ARGUMENT, "nothing to speak"),
    ("no letter", [config(), *text("… ?! \u200b🙂", "，。")], grpc.StatusCode.INVALID_ARGUMENT, "nothing to speak"),
    ("only a flush", [config(), FLUSH], grpc.StatusCode.INVALID_ARGUMENT, "nothing to speak"),
    ("text too large", [config(), *text("a" * 65537)], grpc.StatusCode.INVALID_ARGUMENT, "65536"),
    ("text far too large", [config(), *text("a" * 5_000_000)], grpc.StatusCode.INVALID_ARGUMENT, "at most 65536 bytes"),
    ("first too large", text("a" * 5_000_000), grpc.StatusCode.INVALID_ARGUMENT, "at most 65536 bytes"),
    ("unknown encoding", [audio(encoding=99)], grpc.StatusCode.INVALID_ARGUMENT, "ENCODING_OPUS"),
    ("wrong rate", [audio(sample_rate=44100)], grpc.StatusCode.INVALID_ARGUMENT, "config.audio.sample_rate"),
    ("unknown container", [audio(container=99)], grpc.StatusCode.INVALID_ARGUMENT, "CONTAINER_OGG"),
    ("wrong container", [audio(container=pb.CONTAINER_WAV)], grpc.StatusCode.INVALID_ARGUMENT, "raw or ogg"),
    ("wrong bitrate", [audio(bitrate=1)], grpc.StatusCode.INVALID_ARGUMENT, "6000"),
    ("PCM bitrate", [audio(encoding=2, bitrate=9000)], grpc.StatusCode.INVALID_ARGUMENT, "config.audio.bitrate"),
    ("unknown mode", [config(mode=9)], grpc.StatusCode.INVALID_ARGUMENT, "MODE_AUTO"),  # type: ignore[arg-type]
    ("quiet too short", [quiet(19)], grpc.StatusCode.INVALID_ARGUMENT, "20 to 60000"),
    ("quiet too long", [quiet(60001)], grpc.StatusCode.INVALID_ARGUMENT, "20 to 60000"),
    ("played first", [PLAYED], grpc.StatusCode.INVALID_ARGUMENT, "must be a config"),
    ("cancel first", [CANCEL], grpc.StatusCode.INVALID_ARGUMENT, "must be a config"),
    ("seed too large", [config(seed=2**63)], grpc.StatusCode.INVALID_ARGUMENT, "seed"),
]


@pytest.mark.parametrize(("requests", "code", "details"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_bad_input_is_refused_and_says_why(
    service: Service, requests: Sequence[pb.SynthesizeRequest], code: grpc.StatusCode, details: str
) -> None:
    heard = await converse(service.speech, requests)
    assert heard.code is code
    assert details in heard.details
    assert heard.audio == []
    await service.idle()
    after = await converse(service.speech, [config(), *text("All is well.")])
    assert after.code is grpc.StatusCode.OK


@pytest.mark.parametrize(
    "late",
    [config(), pb.SynthesizeRequest(), *text("a" * 65537), *text("a" * 2_000_000), *text("a" * (16_000_000))],
    ids=["config", "empty", "too large", "too large to decode", "beyond what grpc takes by itself"],
)
async def test_a_late_bad_request_loses_nothing_accepted_before_it(
    service: Service, late: pb.SynthesizeRequest
) -> None:
    good = await converse(service.speech, [config(), *text("First this. ", "Then that.")])
    heard = await converse(service.speech, [config(), *text("First this. ", "Then that."), late, *text("Not this.")])
    assert heard.code is grpc.StatusCode.INVALID_ARGUMENT
    assert heard.samples == good.samples
    await service.idle()


@pytest.mark.parametrize(
    ("late", "why"),
    [([], "nothing to speak"), ([config()], "first request"), ([pb.SynthesizeRequest()], "is empty")],
    ids=["end", "config", "empty"],
)
async def test_every_flush_is_answered_where_there_is_nothing_to_speak(
    service: Service, late: list[pb.SynthesizeRequest], why: str
) -> None:
    for _ in range(20):
        heard = await converse(service.speech, [config(), FLUSH, *text("…"), FLUSH, *late])
        assert heard.kinds == ["started", "flushed", "flushed"]
        assert {response.flushed.end_sample for response in heard.responses[1:]} == {0}
        assert heard.code is grpc.StatusCode.INVALID_ARGUMENT
        assert why in heard.details


async def test_text_that_is_not_utf8_is_the_clients_fault(service: Service) -> None:
    raw = service.channel.stream_stream(METHOD)
    broken = b"\x12\x02\xff\xfe"
    for requests in ([broken], [config().SerializeToString(), broken], [b"\xff"]):
        call = raw(iter(requests))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in call:
                pass
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "UTF-8" in (caught.value.details() or "")


async def test_an_early_refusal_reaches_a_client_that_goes_on_writing(service: Service) -> None:
    heard = await converse(service.speech, [config("nobody"), *text(*["b" * 65000] * 50)])
    assert heard.code is grpc.StatusCode.NOT_FOUND
    assert "nobody" in heard.details


async def test_a_refusal_always_arrives(service: Service) -> None:
    # It may come while the first response is still being written, when grpc would refuse to end the call.
    async with asyncio.timeout(60):
        for _ in range(300):
            heard = await converse(service.speech, [config(), *text("…")])
            assert heard.code is grpc.StatusCode.INVALID_ARGUMENT
            await service.idle()


async def test_cancelling_after_the_first_audio_frees_everything(service: Service) -> None:
    for _ in range(8):
        call = service.speech.Synthesize(iter([config(), *text(LONG)]))
        async for response in call:
            if response.HasField("audio"):
                call.cancel()
                break
        await service.idle()


async def test_a_closed_channel_frees_everything(service: Service) -> None:
    async with grpc.aio.insecure_channel(service.address) as channel:
        call = channel.stream_stream(METHOD)(iter([config().SerializeToString(), text(LONG)[0].SerializeToString()]))
        await call.read()
        assert service.engine.load_now != (0, 0)
    await service.idle()


async def test_more_streams_than_fit_are_refused_with_a_hint(service: Service) -> None:
    calls = [service.speech.Synthesize(iter([config(), *text(LONG)])) for _ in range(4)]
    for call in calls:
        assert (await call.read()).HasField("started")
    refused = service.speech.Synthesize(iter([config(), *text("Hello.")]))
    assert await refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    # Of four that have just come one is taken to leave in a fourth of the shortest stay, later if this machine is slow.
    trailing = dict(await refused.trailing_metadata())
    hint_ms = int(trailing["retry-after-ms"])
    details, retry = Status.FromString(trailing["grpc-status-details-bin"]), RetryInfo()
    assert details.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0] and details.details[0].Unpack(retry)
    assert retry.retry_delay.ToMilliseconds() == hint_ms
    assert 1000 * SHORTEST_STAY_S / 4 <= hint_ms <= 5000
    for call in calls:
        call.cancel()
    await service.idle()


@pytest.mark.slow
async def test_a_slow_reader_holds_the_engine_back(service: Service) -> None:
    call = service.speech.Synthesize(iter([audio(encoding=pb.ENCODING_PCM16), *text(LONG * 4)]))
    assert (await call.read()).HasField("started")
    async with asyncio.timeout(60):
        before = None
        while (now := service.engine.load_now) != before:
            before = now
            await asyncio.sleep(2)
    assert now.streams == 1
    call.cancel()
    await service.idle()


async def test_health_and_reflection_answer(service: Service) -> None:
    health = health_pb2_grpc.HealthStub(service.channel)
    for name in ("", "oscine.v1.SpeechService"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    reflection = reflection_pb2_grpc.ServerReflectionStub(service.channel)
    ask = reflection_pb2.ServerReflectionRequest(list_services="")
    async for answer in reflection.ServerReflectionInfo(iter([ask])):
        assert "oscine.v1.SpeechService" in {each.name for each in answer.list_services_response.service}
        break
    ask = reflection_pb2.ServerReflectionRequest(file_containing_symbol="oscine.v1.SpeechService")
    async for answer in reflection.ServerReflectionInfo(iter([ask])):
        assert answer.file_descriptor_response.file_descriptor_proto
        break
