"""SpeechService.SynthesizeText, and marks and limits over gRPC, over a real socket."""

import grpc
import pytest

from oscine_proto.oscine.v1 import speech_pb2 as pb
from tests.service.calls import FLUSH, config, converse, text
from tests.service.conftest import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENTENCES = "Good morning, dear friend. It rains."


async def speak(service: Service, request: pb.SynthesizeTextRequest) -> list[pb.SynthesizeResponse]:
    return [response async for response in service.speech.SynthesizeText(request)]


async def test_a_whole_text_is_spoken_as_one_that_streams(service: Service) -> None:
    streamed = await converse(service.speech, [config(), *text(SENTENCES)])
    whole = await speak(service, pb.SynthesizeTextRequest(config=config().config, text=SENTENCES))
    assert whole[0].HasField("started") and whole[-1].HasField("done")
    assert sum(response.audio.samples for response in whole) == streamed.samples > 0


@pytest.mark.parametrize(
    ("request_", "code", "why"),
    [
        (pb.SynthesizeTextRequest(), grpc.StatusCode.INVALID_ARGUMENT, "nothing to speak"),
        (pb.SynthesizeTextRequest(text="a" * ((1 << 20) + 1)), grpc.StatusCode.INVALID_ARGUMENT, "1048576"),
        (pb.SynthesizeTextRequest(config=config("nobody").config, text="Hi."), grpc.StatusCode.NOT_FOUND, "synthetic"),
        (pb.SynthesizeTextRequest(config=pb.SynthesizeConfig(mode=9)), grpc.StatusCode.INVALID_ARGUMENT, "MODE_AUTO"),  # type: ignore[arg-type]
    ],
    ids=["empty", "too large", "unknown voice", "unknown mode"],
)
async def test_a_whole_text_is_refused_with_a_reason(
    service: Service, request_: pb.SynthesizeTextRequest, code: grpc.StatusCode, why: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await speak(service, request_)
    assert refused.value.code() is code and why in (refused.value.details() or "")


async def test_a_listener_of_a_whole_text_who_leaves_frees_everything(service: Service) -> None:
    call = service.speech.SynthesizeText(pb.SynthesizeTextRequest(config=config().config, text=SENTENCES * 20))
    async for response in call:
        if response.HasField("audio"):
            call.cancel()
            break
    await service.idle()


async def test_marks_are_answered_behind_their_sentence(service: Service) -> None:
    def mark(name: str) -> pb.SynthesizeRequest:
        return pb.SynthesizeRequest(mark=pb.Mark(name=name))

    heard = await converse(
        service.speech, [config(), mark("start"), *text("Good mor"), mark("one"), *text("ning."), FLUSH, mark("end")]
    )
    told = [(each.marked.name, each.marked.end_sample) for each in heard.responses if each.HasField("marked")]
    assert told == [("start", 0), ("one", heard.samples), ("end", heard.samples)]
    assert heard.kinds.index("flushed") > heard.kinds.index("audio") and heard.kinds[-1] == "done"
    refused = await converse(service.speech, [config(), mark("")])
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT and "1 to 200" in refused.details


async def test_a_call_is_told_what_it_is_held_to(service: Service) -> None:
    heard = await converse(service.speech, [config(), *text("Yes.")])
    limits = heard.responses[0].started.limits
    assert (limits.text_bytes, limits.waiting_characters) == (65536, 1 << 20)
    assert (limits.idle_seconds, limits.write_seconds, limits.pause_seconds) == (300, 60, 3600)
