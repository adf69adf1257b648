"""oscine_client over a WebSocket, against a real service."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from websockets.asyncio.server import ServerConnection, serve

import oscine_client as oc
from oscine_client._frames import HEADER, Answers
from oscine_client.websocket import AsyncClient, Client
from oscine_engine.checkpoint.load import Checkpoint
from tests.clients.checks import away, check
from tests.clients.conftest import Service, running
from tests.service.alike import assert_alike

pytestmark = pytest.mark.asyncio(loop_scope="module")

PCM = oc.Config(encoding="pcm16", mode="sentence", seed=1)
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. "


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(checkpoint: Checkpoint) -> AsyncIterator[Service]:
    async with running(checkpoint) as service:
        yield service


@pytest.fixture
def url(service: Service) -> str:
    return f"ws://{service.http}"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("no_grpc_proxy", "127.0.0.1")


async def test_all_clients_hear_the_same(service: Service, url: str) -> None:
    text = "So we stay."
    heard: list[bytes] = []

    def speak() -> None:
        with Client(url) as client:
            heard.append(check(list(client.speak(iter(text), PCM))))
        with oc.Client(service.address) as grpc:
            heard.append(check(list(grpc.speak(text, PCM))))

    await away(speak)

    async def characters() -> AsyncIterator[str]:
        for character in text:
            yield character

    async with AsyncClient(url) as client:
        given = (list(text), characters())
        heard += [check([event async for event in client.speak(each, PCM)]) for each in given]
    assert len(heard) == 4
    for each in heard[1:]:
        assert_alike(each, heard[0])


async def test_the_config_and_every_verb_arrive(service: Service, url: str) -> None:
    def converse() -> None:
        config = oc.Config(encoding="opus", bitrate=24000, mode="interleaved", seed=7, quiet_ms=0)
        with Client(url) as client, client.open(config) as call:
            call.append("The first half, ")
            call.append("and the second.")
            call.mark("here")
            call.flush()
            events = iter(call)
            first = next(events)
            assert isinstance(first, oc.Started)
            assert (first.encoding, first.bitrate, first.mode, first.seed) == ("opus", 24000, "interleaved", 7)
            seen: list[oc.Event] = []
            while not (seen and isinstance(seen[-1], oc.Flushed)):
                seen.append(next(events))
            audio = [event for event in seen if isinstance(event, oc.Audio)]
            assert seen[-1] == oc.Flushed(audio[-1].start_sample + audio[-1].samples)
            assert [event.name for event in seen if isinstance(event, oc.Marked)] == ["here"]
            assert sum(len(event.frames) for event in audio) * 480 >= audio[-1].start_sample + audio[-1].samples
            assert all(len(frame) < 200 for event in audio for frame in event.frames)
            call.append("More.")
            call.finish()
            assert isinstance(list(events)[-1], oc.Done)
            assert list(call) == [], "nothing follows the end, and nobody waits for it"

    await away(converse)


async def test_many_calls_share_a_socket_and_end_each_by_itself(service: Service, url: str) -> None:
    async with AsyncClient(url) as client:
        alone = check([event async for event in client.speak("So we stay.", PCM)])
        cancelled, failed = await client.open(PCM), await client.open(oc.Config(voice="nobody"))
        await cancelled.append(LONG * 4)
        beside = asyncio.create_task(collect(client))
        async for event in cancelled:
            if isinstance(event, oc.Audio) and event.sequence == 0:
                await cancelled.played(100)
                await cancelled.cancel()
        assert event == oc.Cancelled(100)
        for _ in range(2):
            with pytest.raises(oc.NotFound, match="nobody"):
                [event async for event in failed]
        assert_alike(await beside, alone)
        async with contextlib.aclosing(client.speak(LONG * 4, PCM)) as events:
            async for event in events:
                if isinstance(event, oc.Audio):
                    break
        await service.idle()

    def interrupt() -> None:
        with Client(url) as client:
            for event in client.speak(LONG * 4, PCM):
                if isinstance(event, oc.Audio):
                    break
            assert_alike(check(list(client.speak("So we stay.", PCM))), alone)

    await away(interrupt)
    await service.idle()


async def collect(client: AsyncClient) -> bytes:
    return check([event async for event in client.speak("So we stay.", PCM)])


async def test_refusals_have_classes_and_hints(service: Service, url: str) -> None:
    def ask() -> None:
        with Client(url) as client:
            for config, text, reason in (
                (oc.Config(sample_rate=1), "Hm.", "sample_rate"),
                (oc.Config(encoding="tape"), "Hm.", "encoding"),
                (oc.Config(), "\N{HORIZONTAL ELLIPSIS}", "nothing to speak"),
            ):
                with pytest.raises(oc.InvalidInput, match=reason):
                    list(client.speak(text, config))
            calls = [client.open(PCM) for _ in range(4)]
            for call in calls:
                call.append(LONG * 20)
                assert isinstance(next(iter(call)), oc.Started)
            with pytest.raises(oc.Overloaded) as caught:
                list(client.speak("Hm.", PCM))
            assert caught.value.retry_after_s is not None and caught.value.code == "overloaded"
        with pytest.raises(oc.Unavailable):
            Client("ws://127.0.0.1:1")
        with pytest.raises(oc.SpeechError):
            Client(f"{url}/nowhere")
        with pytest.raises(ValueError, match="http://"):
            Client("http://127.0.0.1")

    await away(ask)
    with pytest.raises(oc.Unavailable):
        async with AsyncClient("ws://127.0.0.1:1"):
            pass
    await service.idle()


async def test_a_message_that_is_not_understood_ends_no_call(
    url: str, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncClient(url) as client:
        call = await client.open(PCM)
        await call.append("Yes. ")
        await client._send("{")
        await call.finish()
        # Too late, and as harmless.
        await call.append("More.")
        assert isinstance([event async for event in call][-1], oc.Done)

    def speak() -> None:
        with Client(url) as client, client.open(PCM) as call:
            call.append("Yes. ")
            client._send("{")
            call.finish()
            assert isinstance(list(call)[-1], oc.Done)

    await away(speak)
    assert sum("not JSON" in record.getMessage() for record in caplog.records) == 2
    await service.idle()


async def test_calls_end_with_their_socket(service: Service, url: str) -> None:
    async with AsyncClient(url) as client:
        call = await client.open(PCM)
        await call.append(LONG * 4)
        async for event in call:
            if isinstance(event, oc.Audio):
                break
        await client.close()
        with pytest.raises(oc.SpeechError):
            [event async for event in call]
        with pytest.raises(oc.SpeechError):
            [event async for event in client.speak("Hm.", PCM)]
    await service.idle()


async def test_text_that_breaks_off_is_raised_where_it_is_listened_to(url: str) -> None:
    class Broken(Exception):
        pass

    def broken() -> Iterator[str]:
        yield "So far, "
        raise Broken

    def speak() -> None:
        with Client(url) as client, pytest.raises(Broken):
            list(client.speak(broken(), PCM))

    await away(speak)
    async with AsyncClient(url) as client:
        with pytest.raises(Broken):
            [event async for event in client.speak(broken(), PCM)]


async def test_what_is_not_understood_ends_the_calls_of_a_socket() -> None:
    async def newer(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send('{"type": "started", "context": "1"}')
        await socket.wait_closed()

    async with asyncio.timeout(60), serve(newer, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with AsyncClient(f"ws://127.0.0.1:{port}") as client:
            with pytest.raises(oc.SpeechError, match="does not understand"):
                [event async for event in client.speak("Hm.")]


@pytest.mark.parametrize("message", ["{", "[]", "{}", '{"type": "done", "context": "1"}', b"", b"\x01\x01"])
async def test_no_message_is_too_strange_to_be_told_of(message: str | bytes) -> None:
    with pytest.raises(oc.SpeechError, match="does not understand"):
        Answers().read(message)


async def test_audio_of_a_call_that_is_over_is_nobodys() -> None:
    answers = Answers()
    audio = HEADER.pack(1, 0, 1, 7, 0, 1, 0) + b"ab"
    assert answers.read(audio) == (None, None)
    answers._contexts[7] = "a"
    assert answers.read(audio) == ("a", oc.Audio(0, 0, 1, (b"ab",)))
    answers.read('{"type": "error", "context": "a", "code": "idle", "message": "x"}')
    assert answers.read(audio) == (None, None)
