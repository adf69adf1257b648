"""oscine_client against a real service, as its users call it, with threads and with an event loop."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
import wave
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

import oscine_client as oc
from oscine_engine.checkpoint.load import Checkpoint
from tests.clients.checks import away, check
from tests.clients.conftest import Service, running
from tests.service.alike import assert_alike
from tests.service.recordings import recording

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(oc.__file__).parents[3]
PCM = oc.Config(encoding="pcm16", mode="sentence", seed=1)
LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. "


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    async with running(checkpoint, tmp_path_factory.mktemp("voices")) as service:
        yield service


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_grpc_proxy", "127.0.0.1")


async def test_both_clients_hear_the_same_however_the_text_is_given(service: Service) -> None:
    text = "So we stay."
    heard: list[bytes] = []

    def speak() -> None:
        with oc.Client(service.address) as client:
            heard.append(check(list(client.speak(text, PCM))))
            heard.append(check(list(client.speak(iter(text), PCM))))

    await away(speak)

    async def characters() -> AsyncIterator[str]:
        for character in text:
            yield character

    async with oc.AsyncClient(service.address) as client:
        given = (text, list(text), characters())
        heard += [check([event async for event in client.speak(each, PCM)]) for each in given]
    assert len(heard) == 5
    for each in heard[1:]:
        assert_alike(each, heard[0])


async def test_the_config_and_every_verb_arrive(service: Service) -> None:
    def converse() -> None:
        config = oc.Config(voice="", encoding="opus", bitrate=24000, mode="interleaved", seed=7, quiet_ms=0)
        with oc.Client(service.address) as client, client.open(config) as call:
            call.append("The first half, ")
            call.append("and the second.")
            call.mark("here")
            call.flush()
            events = iter(call)
            first = next(events)
            assert isinstance(first, oc.Started)
            assert (first.encoding, first.bitrate, first.mode, first.seed) == ("opus", 24000, "interleaved", 7)
            assert first.sample_rate == 24000 and first.pre_skip > 0
            seen: list[oc.Event] = []
            while not (seen and isinstance(seen[-1], oc.Flushed)):
                seen.append(next(events))
            flushed = seen[-1]
            audio = [event for event in seen if isinstance(event, oc.Audio)]
            assert isinstance(flushed, oc.Flushed) and flushed.end_sample == audio[-1].start_sample + audio[-1].samples
            assert [event.name for event in seen if isinstance(event, oc.Marked)] == ["here"]
            assert all(len(frame) < 200 for event in audio for frame in event.frames)
            call.append("More.")
            call.finish()
            assert isinstance(list(call)[-1], oc.Done)

    await away(converse)


async def test_every_format_is_started_as_asked(service: Service) -> None:
    formats = [("pcm_f32", "raw", 48000), ("mulaw", "wav", 8000), ("flac", "raw", 44100), ("opus", "ogg", 16000)]
    async with oc.AsyncClient(service.address) as client:
        for encoding, container, rate in formats:
            config = oc.Config(encoding=encoding, container=container, sample_rate=rate, mode="sentence", seed=1)
            events = [event async for event in client.speak("Hm.", config)]
            started = events[0]
            assert isinstance(started, oc.Started)
            assert (started.encoding, started.container, started.sample_rate) == (encoding, container, rate)
            check(events)


def cut(call: oc.Call) -> None:
    for event in call:
        if isinstance(event, oc.Audio) and event.sequence == 0:
            call.cancel()


async def cut_async(call: oc.AsyncCall) -> None:
    async for event in call:
        if isinstance(event, oc.Audio) and event.sequence == 0:
            await call.cancel()


async def test_an_interrupted_call_tells_what_was_heard_and_a_closed_one_is_gone(service: Service) -> None:
    def interrupt() -> None:
        with oc.Client(service.address) as client:
            with client.open(PCM) as call:
                call.append(LONG * 4)
                for event in call:
                    if isinstance(event, oc.Audio) and event.sequence == 0:
                        call.played(100)
                        call.cancel()
                assert event == oc.Cancelled(100)
            with client.open(PCM) as call:
                call.append(LONG * 4)
                assert next(event for event in call if isinstance(event, oc.Audio))
            with client.open(PCM) as call:
                call.append(LONG * 4)
                call.finish()
                with pytest.raises(oc.Cut):
                    cut(call)
            # Leaving the loop over speak does the same.
            for event in client.speak(LONG * 4, PCM):
                if isinstance(event, oc.Audio):
                    break

    await away(interrupt)
    async with oc.AsyncClient(service.address) as client:
        async with client.open(PCM) as call:
            await call.append(LONG * 4)
            async for event in call:
                if isinstance(event, oc.Audio) and event.sequence == 0:
                    await call.cancel()
            assert isinstance(event, oc.Cancelled) and event.heard_samples > 0
        async with client.open(PCM) as call:
            await call.append(LONG * 4)
            await call.finish()
            with pytest.raises(oc.Cut):
                await cut_async(call)
        async with contextlib.aclosing(client.speak(LONG * 4, PCM)) as events:
            async for event in events:
                if isinstance(event, oc.Audio):
                    break

    await service.idle()


async def test_refusals_have_classes_and_hints(service: Service) -> None:
    def ask() -> None:
        with oc.Client(service.address) as client:
            for config, text, kind, reason in (
                (oc.Config(voice="nobody"), "Hm.", oc.NotFound, "nobody"),
                (oc.Config(sample_rate=1), "Hm.", oc.InvalidInput, "sample_rate"),
                (oc.Config(), "…", oc.InvalidInput, "nothing to speak"),
            ):
                with pytest.raises(kind, match=reason) as refused:
                    list(client.speak(text, config))
                # As over WebSocket.
                assert refused.value.code == ("unknown_voice" if kind is oc.NotFound else "invalid_input")
            with pytest.raises(ValueError, match="opus, pcm16, pcm_f32, mulaw"):
                client.open(oc.Config(encoding="tape"))
            calls = [client.open(PCM) for _ in range(4)]
            for call in calls:
                call.append(LONG * 20)
                assert next(iter(call))
            with pytest.raises(oc.Overloaded) as caught:
                list(client.speak("Hm.", PCM))
            assert caught.value.retry_after_s is not None and caught.value.code == "overloaded"
            for call in calls:
                call.close()
        with oc.Client("127.0.0.1:1") as client, pytest.raises(oc.Unavailable):
            list(client.speak("Hm."))

    await away(ask)


async def test_text_that_breaks_off_is_raised_where_it_is_listened_to(service: Service) -> None:
    class Broken(Exception):
        pass

    def broken() -> Iterator[str]:
        yield "So far, "
        raise Broken

    def speak() -> None:
        with oc.Client(service.address) as client, pytest.raises(Broken):
            list(client.speak(broken(), PCM))

    await away(speak)
    async with oc.AsyncClient(service.address) as client:
        with pytest.raises(Broken):
            [event async for event in client.speak(broken(), PCM)]


async def test_voices_are_made_listed_and_deleted(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "anna.wav"
    path.write_bytes(recording())

    def manage() -> None:
        with oc.Client(service.address) as client:
            made = client.voices.create("anna", path, description="hers")
            assert (made.origin, made.description, client.voices.get("anna")) == ("own", "hers", made)
            with pytest.raises(oc.InvalidInput, match="already"):
                client.voices.create("anna", recording())
            assert [voice.name for voice in client.voices.list()][-1] == "anna"

    await away(manage)
    async with oc.AsyncClient(service.address) as client:
        assert (await client.voices.create("anna", recording(4.0), replace=True)).seconds > 3
        await client.voices.delete("anna")
        with pytest.raises(oc.NotFound):
            await client.voices.get("anna")
        assert "anna" not in [voice.name async for voice in client.voices.list()]


async def test_threads_that_send_end_with_their_calls(service: Service) -> None:
    def speak() -> None:
        with oc.Client(service.address) as client:
            before = threading.active_count()
            for _ in range(3):
                with client.open(PCM) as call:
                    call.append("Hm.")
                    call.flush()
                    next(event for event in call if isinstance(event, oc.Flushed))
            deadline = time.monotonic() + 30
            while threading.active_count() > before and time.monotonic() < deadline:
                time.sleep(0.01)
            assert threading.active_count() <= before

    await away(speak)


@pytest.mark.parametrize("protocol", ["grpc", pytest.param("ws", marks=pytest.mark.slow)])
async def test_the_example_speaks_what_a_model_writes(service: Service, tmp_path: Path, protocol: str) -> None:
    """A model that writes into a pipe, slowly and in pieces."""
    model = "import time\nfor word in 'It will rain. ', 'So we stay.': print(word, end='', flush=True); time.sleep(.1)"
    output = tmp_path / "speech.wav"
    address = service.address if protocol == "grpc" else f"ws://{service.http}"
    example = [sys.executable, str(ROOT / "clients/python/examples/agent.py"), "--server", address]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python"), "no_proxy": "127.0.0.1"}

    def run() -> None:
        with subprocess.Popen([sys.executable, "-c", model], stdout=subprocess.PIPE) as writing:
            done = subprocess.run(
                [*example, "-o", str(output)], stdin=writing.stdout, capture_output=True, text=True, env=environment
            )
        assert (done.returncode, done.stdout) == (0, "It will rain. So we stay."), done.stderr
        assert "s of speech, the first after" in done.stderr

    await away(run)
    with wave.open(str(output)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24000, 1, 2)
        assert file.getnframes() > 10_000


async def test_it_knows_nothing_of_the_service() -> None:
    code = (
        "import sys, oscine_client; "
        "print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'oscine_proto', 'oscine_service', 'oscine_engine', 'oscine_codecs', 'numpy', 'torch'}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, env=environment
    )
    output, _ = await process.communicate()
    assert output == b"[]\n"
