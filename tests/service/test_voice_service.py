"""VoiceService over a real socket, with real recordings, a real store and the process that reads them."""

import asyncio
import contextlib
import math
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import UnknownVoice
from oscine_engine.front import VoiceInfo
from oscine_engine.voices.catalogue import Catalogue
from oscine_engine.voices.store import VoiceStore
from oscine_proto.oscine.v1 import voice_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_proto.oscine.v1.voice_pb2_grpc import VoiceServiceStub
from oscine_service.conversation.calls import Calls
from oscine_service.grpc import voices as grpc_voices
from oscine_service.grpc.server import serving
from oscine_service.grpc.voices import VoiceService
from oscine_service.security.principal import ANYBODY, Grant, Principal, acting_for
from oscine_service.voices import library as libraries
from oscine_service.voices import worker as workers
from oscine_service.voices.library import MAX_AUDIO_BYTES, Library, library
from tests.service.calls import config as speech_config
from tests.service.calls import converse, text
from tests.service.recordings import recording
from tests.service.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHIPPED = {"heart": VoiceInfo("en", "warm"), "yunxi": VoiceInfo("zh", "")}
PIECE = 100_000


class Door(grpc.aio.ServerInterceptor):
    """Lets everybody in as `principal`, as a door with keys does for each key."""

    principal = ANYBODY

    async def intercept_service(self, continuation, details):  # type: ignore[no-untyped-def]
        handler = await continuation(details)

        def acting(call):  # type: ignore[no-untyped-def]
            async def wrapped(request, context):  # type: ignore[no-untyped-def]
                with acting_for(self.principal):
                    return await call(request, context)

            return wrapped

        if handler.request_streaming:
            return grpc.stream_unary_rpc_method_handler(
                acting(handler.stream_unary), handler.request_deserializer, handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(
            acting(handler.unary_unary), handler.request_deserializer, handler.response_serializer
        )


async def count(true: Callable[[], bool]) -> bool:
    return true()


class Service:
    def __init__(self, channel: grpc.aio.Channel, door: Door, calls: Calls, voices: Library, folder: Path) -> None:
        self.channel, self.door, self.calls, self.voices, self.folder = channel, door, calls, voices, folder
        self.stub = VoiceServiceStub(channel)

    @contextmanager
    def acting(self, principal: Principal) -> Iterator[None]:
        self.door.principal = principal
        yield
        self.door.principal = ANYBODY

    async def create(self, name: str, audio: bytes, **fields: object) -> pb.Voice:
        return (await self.stub.CreateVoice(upload(name, audio, **fields))).voice

    async def names(self) -> list[str]:
        return [voice.name for voice in (await self.stub.ListVoices(pb.ListVoicesRequest())).voices]


def upload(name: str, audio: bytes, **fields: object) -> Iterator[pb.CreateVoiceRequest]:
    yield pb.CreateVoiceRequest(config=pb.CreateVoiceConfig(name=name, **fields))  # type: ignore[arg-type]
    for start in range(0, len(audio), PIECE):
        yield pb.CreateVoiceRequest(audio=audio[start : start + PIECE])


@asynccontextmanager
async def running(folder: Path | None) -> AsyncIterator[Service]:
    door, calls = Door(), Calls()
    async with library(SHIPPED, folder, None) as voices:
        server = grpc.aio.server(interceptors=(door,), options=(("grpc.max_receive_message_length", 1 << 24),))
        server.add_generic_rpc_handlers((VoiceService(voices, calls).handler(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", (("grpc.enable_http_proxy", 0),)) as channel:
            yield Service(channel, door, calls, voices, folder or Path())
        await server.stop(None)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One for the tests of this module: to start a process for recordings takes seconds."""
    async with running(tmp_path_factory.mktemp("voices")) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def service(shared: Service) -> Service:
    """The shared one, with an empty store."""
    store = VoiceStore(shared.folder)
    for stored in store.list("ann") + store.list("bob") + store.list():
        with contextlib.suppress(UnknownVoice):
            store.remove(stored.name, stored.owner)
    store.close()
    return shared


@contextmanager
def refused(code: grpc.StatusCode, reason: str) -> Iterator[None]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield
    assert (caught.value.code(), reason in (caught.value.details() or "")) == (code, True), caught.value.details()


async def test_a_voice_is_made_listed_and_deleted(service: Service) -> None:
    made = await service.create("anna", recording(), description="mine")
    assert (made.name, made.language, made.origin, made.transcribed) == ("anna", "en", pb.ORIGIN_OWN, False)
    assert made.description == "mine" and 2 < made.seconds < 3.1 and made.created_unix_ms > 1.7e12
    listed = (await service.stub.ListVoices(pb.ListVoicesRequest())).voices
    assert [(voice.name, voice.origin) for voice in listed[:-1]] == [(name, pb.ORIGIN_MODEL) for name in SHIPPED]
    assert listed[-1] == made == (await service.stub.GetVoice(pb.GetVoiceRequest(name="anna"))).voice
    await service.stub.DeleteVoice(pb.DeleteVoiceRequest(name="anna"))
    with refused(grpc.StatusCode.NOT_FOUND, "'anna'"):
        await service.stub.GetVoice(pb.GetVoiceRequest(name="anna"))
    assert not list((service.folder / "arrays").iterdir())


@pytest.mark.slow
async def test_calls_speak_in_a_voice_from_when_it_is_made_until_it_is_deleted(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    calls = Calls()
    settings = EngineSettings(voices=tmp_path, max_streams=2, utilisation=math.inf)
    async with (
        Engine(checkpoint, settings) as engine,
        library(engine.voices, tmp_path, None) as voices,
        serving(engine, "127.0.0.1", 0, grace_s=0, calls=calls, services=(VoiceService(voices, calls),)) as server,
        grpc.aio.insecure_channel(server.address, (("grpc.enable_http_proxy", 0),)) as channel,
    ):
        stub, speech = VoiceServiceStub(channel), SpeechServiceStub(channel)
        await stub.CreateVoice(upload("anna", recording()))
        heard = await converse(speech, [speech_config("anna"), *text("It will rain.")])
        assert heard.kinds[-1] == "done" and heard.samples > 10_000

        await stub.DeleteVoice(pb.DeleteVoiceRequest(name="anna"))
        assert (await converse(speech, [speech_config("anna"), *text("Hm.")])).code is grpc.StatusCode.NOT_FOUND
        assert not list((tmp_path / "arrays").iterdir())


async def test_what_cannot_be_made_is_refused_and_says_why(service: Service) -> None:
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    cases: list[tuple[Iterable[pb.CreateVoiceRequest], grpc.StatusCode, str]] = [
        ([], invalid, "must be a config"),
        ([pb.CreateVoiceRequest(audio=b"RIFF")], invalid, "must be a config"),
        (upload("../etc", recording()), invalid, "cannot be called"),
        (upload("anna", b""), invalid, "no recording"),
        (upload("anna", b"not a sound" * 1000), invalid, "not a readable audio file"),
        (upload("anna", recording(0.5)), invalid, "of speech"),
        (upload("anna", recording(), transcript="Yes."), invalid, "too short"),
        (upload("anna", recording(), transcript="a" * 2001), invalid, "at most 2000"),
        (upload("anna", recording(), description="a" * 501), invalid, "at most 500"),
        (upload("anna", recording(), language="xx"), invalid, "one of en, zh"),
        (upload("anna", bytes(MAX_AUDIO_BYTES + 1)), invalid, "at most 16777216"),
        ([*upload("anna", recording()), *upload("anna", b"")], invalid, "holds audio"),
        ([*upload("anna", b""), pb.CreateVoiceRequest(audio=bytes(1_000_100))], invalid, "at most 1000000"),
        (upload("heart", recording()), grpc.StatusCode.ALREADY_EXISTS, "the model has a voice"),
    ]
    for requests, code, reason in cases:
        with refused(code, reason):
            await service.stub.CreateVoice(iter(requests))
    assert await service.names() == ["heart", "yunxi"]
    # What was refused has cost the next one nothing.
    assert (await service.create("anna", recording(), transcript="A yes and a no and perhaps.")).transcribed


async def test_bytes_that_are_no_message_are_refused(service: Service) -> None:
    for method in ("ListVoices", "GetVoice", "DeleteVoice"):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "not a"):
            await service.channel.unary_unary(f"/oscine.v1.VoiceService/{method}")(b"\xff\xff")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "not a"):
        await service.channel.stream_unary("/oscine.v1.VoiceService/CreateVoice")(iter([b"\x0a\xff"]))


async def test_names_are_taken_once_and_replaced_on_demand(service: Service) -> None:
    first = await service.create("anna", recording())
    with refused(grpc.StatusCode.ALREADY_EXISTS, "already"):
        await service.create("anna", recording(4.0))
    second = await service.create("anna", recording(4.0), replace=True)
    assert second.seconds > first.seconds + 0.5
    assert (await service.names()).count("anna") == 1


async def test_each_owner_sees_their_own_voices_and_everybodys(service: Service) -> None:
    ann = Principal("ann", owner="ann", most_voices=1)
    bob = Principal("bob", owner="bob", grants=frozenset({Grant.SPEAK}))
    audio = recording()
    await service.create("shared", audio)
    with service.acting(ann):
        assert (await service.create("mine", audio)).origin == pb.ORIGIN_OWN
        with refused(grpc.StatusCode.PERMISSION_DENIED, "may have 1"):
            await service.create("more", audio)
        assert (await service.create("mine", audio, replace=True)).name == "mine"
        assert await service.names() == ["heart", "yunxi", "mine", "shared"]
        for name, reason in (("shared", "everybody's"), ("heart", "came with the model")):
            with refused(grpc.StatusCode.PERMISSION_DENIED, reason):
                await service.stub.DeleteVoice(pb.DeleteVoiceRequest(name=name))
    with service.acting(Principal("eve", owner="eve", most_voices=1)):
        both = await asyncio.gather(*(service.create(name, audio) for name in "ab"), return_exceptions=True)
        assert sorted(type(each).__name__ for each in both) == ["AioRpcError", "Voice"], "voices on their way count"
    dog = Principal("dog", grants=frozenset({Grant.METRICS}))
    with service.acting(dog), refused(grpc.StatusCode.PERMISSION_DENIED, "not granted"):
        await service.names()
    with service.acting(bob):
        assert await service.names() == ["heart", "yunxi", "shared"]
        assert (await service.stub.GetVoice(pb.GetVoiceRequest(name="shared"))).voice.origin == pb.ORIGIN_SHARED
        with refused(grpc.StatusCode.NOT_FOUND, "'mine'"):
            await service.stub.GetVoice(pb.GetVoiceRequest(name="mine"))
    with service.acting(Principal("cat", owner="ann", voices=("he*",))):
        assert await service.names() == ["heart", "mine"]
        with refused(grpc.StatusCode.NOT_FOUND, "'shared'"):
            await service.stub.GetVoice(pb.GetVoiceRequest(name="shared"))
    with service.acting(bob):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "not granted"):
            await service.create("bobs", audio)
        with refused(grpc.StatusCode.PERMISSION_DENIED, "not granted"):
            await service.stub.DeleteVoice(pb.DeleteVoiceRequest(name="mine"))


async def test_a_service_without_a_store_lists_the_models_voices_and_keeps_none() -> None:
    async with running(None) as service:
        assert await service.names() == ["heart", "yunxi"]
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "--voices"):
            await service.create("anna", recording())
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "--voices"):
            await service.stub.DeleteVoice(pb.DeleteVoiceRequest(name="heart"))


async def test_pages_hold_every_voice_once_while_voices_come_and_go(service: Service) -> None:
    store = VoiceStore(service.folder)
    await service.create("m", recording())
    made = store.get("m")
    store.remove("m")
    for number in range(20):
        store.add(replace(made, name=f"v{number:02}"))
    names, token = [], ""
    while True:
        page = await service.stub.ListVoices(pb.ListVoicesRequest(page_size=3, page_token=token))
        assert len(page.voices) <= 3
        names += [voice.name for voice in page.voices]
        if not (token := page.next_page_token):
            break
        # One that was shown goes, and one comes before what is shown next.
        if names[-1].startswith("v"):
            store.remove(names[-1])
            store.add(replace(made, name="a" + names[-1]))
    assert names == ["heart", "yunxi", *(f"v{number:02}" for number in range(20))]
    for request, reason in (
        (pb.ListVoicesRequest(page_size=1001), "1 to 1000"),
        (pb.ListVoicesRequest(page_token="3"), "is none that"),
    ):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, reason):
            await service.stub.ListVoices(request)


async def test_a_recording_that_does_not_go_on_is_given_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_voices, "PIECE_S", 0.2)
    call = service.stub.CreateVoice()
    await call.write(next(upload("anna", b"")))
    with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "did not go on"):
        await call
    assert service.calls.running == 0


async def test_a_service_that_stops_does_not_wait_for_a_slow_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "END_S", 0.1)
    async with running(tmp_path) as service:
        worker = service.voices._worker
        assert worker is not None
        asking = asyncio.create_task(service.create("anna", recording(20.0)))
        await until(lambda: count(lambda: worker.pid is not None))
        os.kill(worker.pid or 0, signal.SIGSTOP)
    with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
        await asking
    assert Catalogue(tmp_path).list() == []


async def test_a_client_that_leaves_and_a_service_that_stops_leave_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as service:
        await _left_and_cut(service)


async def _left_and_cut(service: Service) -> None:
    left, cut = service.stub.CreateVoice(), service.stub.CreateVoice()
    for call, name in ((left, "anna"), (cut, "emma")):
        await call.write(next(upload(name, b"")))
    await until(lambda: count(lambda: service.calls.running == 2))
    left.cancel()
    await until(lambda: count(lambda: service.calls.running == 1))
    service.calls.stop()
    with refused(grpc.StatusCode.UNAVAILABLE, "stopping"):
        await cut
    assert service.calls.running == 0 and Catalogue(service.folder).list() == []


async def test_uploads_beyond_what_memory_allows_are_told_when_to_come_back(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "UPLOADS", 1)
    first = service.stub.CreateVoice()
    await first.write(next(upload("anna", b"")))
    await until(lambda: count(lambda: service.calls.running == 1))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await service.create("emma", recording())
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert dict(caught.value.trailing_metadata())["retry-after-ms"] == "1000"
    bob = Principal("bob", grants=frozenset({Grant.SPEAK}))
    with service.acting(bob), refused(grpc.StatusCode.PERMISSION_DENIED, "not granted"):
        await service.create("emma", recording())
    for request in list(upload("anna", recording()))[1:]:
        await first.write(request)
    await first.done_writing()
    assert (await first).voice.name == "anna"


@pytest.mark.slow
async def test_the_process_that_reads_recordings_is_replaced_when_it_dies(service: Service) -> None:
    await service.create("anna", recording())
    worker = service.voices._worker
    assert worker is not None and worker.pid is not None
    asking = asyncio.create_task(service.create("emma", recording(20.0)))
    await until(lambda: count(lambda: bool(worker._asking)))
    os.kill(worker.pid, signal.SIGKILL)
    with refused(grpc.StatusCode.INTERNAL, "once more"):
        await asking
    assert (await service.create("emma", recording())).name == "emma"
    assert await service.names() == ["heart", "yunxi", "anna", "emma"]
