"""Methods called without a server, over the same engine, doors and messages as with one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from oscine_engine.front import Front
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.conversation import Calls
from oscine_service.grpc.speech import SpeechService
from oscine_service.limits import Limits
from oscine_service.ray_serve.methods import Methods, Refusal
from oscine_service.ray_serve.proxy import add_services, paths
from oscine_service.security.grpc_door import GrpcDoor
from oscine_service.security.guard import Guard
from oscine_service.security.keys import KeyBook
from oscine_service.security.tokens import Mint
from oscine_service.visits import Visit, current
from tests.service.conftest import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

SYNTHESIZE = "/oscine.v1.SpeechService/Synthesize"


async def sent(*requests: pb.SynthesizeRequest | bytes) -> AsyncIterator[bytes]:
    for request in requests:
        yield request if isinstance(request, bytes) else request.SerializeToString()


def config(**fields: object) -> pb.SynthesizeRequest:
    return pb.SynthesizeRequest(config=pb.SynthesizeConfig(seed=1, **fields))  # type: ignore[arg-type]


def methods(front: Front, *interceptors: object) -> Methods:
    return Methods([SpeechService(front, Limits(), Calls()).handler()], interceptors)  # type: ignore[arg-type]


async def answers(called: Methods, *requests: pb.SynthesizeRequest | bytes, method: str = SYNTHESIZE) -> list[object]:
    told = [each async for each in called.call(method, (), sent(*requests))]
    return [each if isinstance(each, Refusal) else pb.SynthesizeResponse.FromString(each) for each in told]


def heard(responses: list[object]) -> bytes:
    said = [each for each in responses if isinstance(each, pb.SynthesizeResponse) and each.HasField("audio")]
    return b"".join(frame for each in said for frame in each.audio.frames)


async def test_says_what_a_server_says(service: Service) -> None:
    requests = (config(), pb.SynthesizeRequest(text="One. "), pb.SynthesizeRequest(text="Two."))
    called = await answers(methods(service.engine), *requests)
    served = [each async for each in service.speech.Synthesize(iter(requests))]
    assert heard(called) == heard(list(served)) != b""
    kinds = [each.WhichOneof("response") for each in called if isinstance(each, pb.SynthesizeResponse)]
    assert (kinds[0], kinds[-1], len(kinds)) == ("started", "done", len(called))


async def test_a_whole_text_is_said(service: Service) -> None:
    request = pb.SynthesizeTextRequest(config=config().config, text="One.").SerializeToString()
    method = SYNTHESIZE + "Text"
    assert heard(await answers(methods(service.engine), request, method=method)) != b""


async def test_a_refusal_tells_what_a_server_tells(service: Service) -> None:
    *before, refusal = await answers(methods(service.engine), config(voice="nobody"))
    assert before == []
    assert isinstance(refusal, Refusal)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        async for _ in service.speech.Synthesize(iter([config(voice="nobody")])):
            pass
    told = raised.value
    assert (refusal.code, refusal.details) == (told.code(), told.details())
    assert dict(refusal.trailing) == dict(told.trailing_metadata() or ())


async def test_what_is_no_message_and_no_method_is_refused(service: Service) -> None:
    (no_message,) = await answers(methods(service.engine), b"\xff")
    (no_method,) = await answers(methods(service.engine), b"", method="/oscine.v1.SpeechService/Sing")
    assert isinstance(no_message, Refusal)
    assert isinstance(no_method, Refusal)
    assert (no_message.code, no_method.code) == (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)


async def test_leaving_early_frees_the_stream(service: Service) -> None:
    called = methods(service.engine).call(SYNTHESIZE, (), sent(config(), pb.SynthesizeRequest(text="One. " * 20)))
    async for each in called:
        assert isinstance(each, bytes)
        if pb.SynthesizeResponse.FromString(each).HasField("audio"):
            break
    await called.aclose()
    await service.idle()


async def test_nothing_is_made_ahead_of_who_takes_it(service: Service) -> None:
    # More than is ever made ahead, so that it cannot have ended.
    text = "Nobody takes what is said here. " * 40
    called = methods(service.engine).call(SYNTHESIZE, (), sent(config(), pb.SynthesizeRequest(text=text)))
    waiting = await anext(called)
    assert pb.SynthesizeResponse.FromString(waiting).HasField("started")  # type: ignore[arg-type]
    await asyncio.sleep(0.2)
    assert service.engine.load_now != (0, 0)  # it waits for its turn, and holds its place
    await called.aclose()


async def test_doors_stand_before_methods_and_what_they_set_is_the_calls_own(service: Service, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"keys": []}')
    guard = Guard(KeyBook(tmp_path / "keys.json"), Mint.of(None))
    door = GrpcDoor(guard=guard, desk=Visit().desk)
    (refusal,) = await answers(methods(service.engine, door), config())
    assert isinstance(refusal, Refusal)
    assert refusal.code is grpc.StatusCode.UNAUTHENTICATED
    open_door = GrpcDoor(guard=Guard(None, Mint.of(None)), desk=Visit().desk)
    assert heard(await answers(methods(service.engine, open_door), config(), pb.SynthesizeRequest(text="One."))) != b""
    assert current().protocol == "direct"


async def test_the_proxy_is_told_of_each_method_once_and_of_its_kind() -> None:
    told: dict[str, tuple[bool, bool]] = {}

    class Server:
        def add_generic_rpc_handlers(self, handlers: tuple[grpc.GenericRpcHandler, ...]) -> None:
            (handler,) = handlers
            for path in paths().values():

                class Details(grpc.HandlerCallDetails):
                    method, invocation_metadata = path, ()

                if (found := handler.service(Details())) is not None:
                    told[path] = (found.request_streaming, found.response_streaming)

    add_services(object(), Server())
    assert told[SYNTHESIZE] == (True, True)
    assert told[SYNTHESIZE + "Text"] == (False, True)
    assert told["/oscine.v1.VoiceService/CreateVoice"] == (True, False)
    assert len(told) == len(paths()) == 6
