"""A service and its engine process, as they run: real processes, killed, stopped and orphaned."""

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np
import pytest

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import Unavailable
from oscine_engine.port import PortEvent, StreamOptions
from oscine_engine.settings import EngineSettings
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.unit.front import unit
from oscine_service.unit.process import command
from oscine_service.unit.states import State
from oscine_service.unit.supervisor import Supervisor
from oscine_service.unit.times import Times
from tests.service.calls import Heard, config, converse, text
from tests.service.commands import Command
from tests.service.conftest import running as in_one_process
from tests.service.unit.conftest import Running, folders, running
from tests.service.waiting import until

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. "


def hint_ms(heard: Heard) -> int:
    return int(heard.trailing["retry-after-ms"])


def ended(pid: int) -> bool:
    """There is no such process, or only what its parent has not asked about yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def gone(pid: int) -> None:
    async def look() -> bool:
        return ended(pid)

    await until(look)


async def speaking(service: Running, count: int) -> list[asyncio.Task[Heard]]:
    """So many calls, each of which has sounded and has far more to say."""
    sounded = [asyncio.Event() for _ in range(count)]
    calls = [
        asyncio.create_task(converse(service.speech, [config(seed=i), *text(LONG * 60)], on_audio=event.set))
        for i, event in enumerate(sounded)
    ]
    async with asyncio.timeout(60):
        await asyncio.gather(*(event.wait() for event in sounded))
    return calls


async def test_both_ways_to_run_an_engine_say_the_same(model: Path, checkpoint: Checkpoint) -> None:
    requests = [config(seed=3), *text("Good morning, ", "dear friend. It ra", "ins.")]
    async with in_one_process(checkpoint) as service:
        near = await converse(service.speech, requests)
    async with running(model) as apart:
        far = await converse(apart.speech, requests)
        await apart.idle()
    assert far.code is grpc.StatusCode.OK
    assert far.kinds == near.kinds and far.samples == near.samples > 0
    far.check_contiguous()
    np.testing.assert_allclose(far.pcm(), near.pcm(), atol=2e-2)


@pytest.mark.slow
async def test_the_embedded_voice_survives_the_loss_of_its_engine() -> None:
    async with running(None, streams=2) as service:
        calls = await speaking(service, 1)
        os.kill(service.supervisor.pid or 0, signal.SIGKILL)
        (heard,) = await asyncio.gather(*calls)
        assert heard.code is grpc.StatusCode.UNAVAILABLE
        await service.until_serving(False)
        await service.until_serving()
        again = await converse(service.speech, [config(), *text("All is well.")])
        assert again.code is grpc.StatusCode.OK and again.samples > 0


async def test_killing_the_engine_under_eight_calls(model: Path) -> None:
    async with running(model) as service:
        calls = await speaking(service, 8)
        killed, at = service.supervisor.pid or 0, time.monotonic()
        os.kill(killed, signal.SIGKILL)
        for heard in await asyncio.gather(*calls):
            assert heard.code is grpc.StatusCode.UNAVAILABLE, heard.details
            assert "being started again" in heard.details and hint_ms(heard) >= 1000
            assert heard.kinds[0] == "started" and heard.audio and "done" not in heard.kinds
            heard.check_contiguous()
        await service.until_serving(False)
        for name in ("", "oscine.v1.SpeechService"):
            assert not await service.healthy(name)
        refused = await converse(service.speech, [config(), *text("Hello.")])
        assert refused.code is grpc.StatusCode.UNAVAILABLE
        assert "SIGKILL" in refused.details and hint_ms(refused) > 0
        unknown = await converse(service.speech, [config("nobody"), *text("Hello.")])
        assert unknown.code is grpc.StatusCode.NOT_FOUND
        await service.until_serving()
        # Far above what it takes; `python -m bench.chaos` tells that.
        assert time.monotonic() - at < 60
        assert service.supervisor.pid != killed
        for heard in await asyncio.gather(*(converse(service.speech, [config(), *text("Hello.")]) for _ in range(8))):
            assert heard.code is grpc.StatusCode.OK and heard.samples > 0
        await service.idle()


async def test_a_stopped_engine_is_replaced(model: Path) -> None:
    async with running(model, hang=5.0) as service:
        stopped = service.supervisor.pid or 0
        calls = await speaking(service, 2)
        os.kill(stopped, signal.SIGSTOP)
        for heard in await asyncio.gather(*calls):
            assert heard.code is grpc.StatusCode.UNAVAILABLE
            assert "has not answered for 5 s" in heard.details
        await gone(stopped)
        await service.until_serving(False)  # health may lag behind
        await service.until_serving()
        assert (await converse(service.speech, [config(), *text("Hello.")])).code is grpc.StatusCode.OK


async def test_the_service_does_not_wait_for_its_engine(model: Path) -> None:
    async with running(model, streams=2) as service:
        calls = await speaking(service, 2)
        pid = service.supervisor.pid or 0
        os.kill(pid, signal.SIGSTOP)
        try:
            # All of these are answered while the engine stands still.
            async with asyncio.timeout(10):
                assert await service.healthy()
                full = await converse(service.speech, [config(), *text("Hello.")])
                assert full.code is grpc.StatusCode.RESOURCE_EXHAUSTED and hint_ms(full) > 0
                for refused in ([config("nobody")], [config(seed=2**63)], [*text("Hello.")]):
                    heard = await converse(service.speech, refused)
                    assert heard.code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)
                for call in calls:
                    call.cancel()
                await asyncio.wait(calls)
        finally:
            os.kill(pid, signal.SIGCONT)
        await service.idle()
        assert service.supervisor.pid == pid
        assert (await converse(service.speech, [config(), *text("Hello.")])).code is grpc.StatusCode.OK


async def test_cancelled_calls_free_the_engine_and_their_places(model: Path) -> None:
    async with running(model, streams=4) as service:
        for _ in range(3):
            calls = await speaking(service, 4)
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            # The places are free for whoever comes next, at once.
            after = await asyncio.gather(*(converse(service.speech, [config(), *text("Hello.")]) for _ in range(4)))
            assert [heard.code for heard in after] == [grpc.StatusCode.OK] * 4
        await service.idle()


@pytest.mark.slow
async def test_a_slow_reader_holds_the_engine_back(model: Path) -> None:
    async with running(model) as service:
        call = service.speech.Synthesize(iter([config(), *text(LONG * 20)]))
        assert (await call.read()).HasField("started")
        pages = -1
        async with asyncio.timeout(60):
            while (beat := await service.supervisor.beat()).pages != pages:
                pages = beat.pages
                await asyncio.sleep(2)
        assert beat.streams == 1
        call.cancel()
        await service.idle()


async def test_a_service_that_closes_starts_no_other_engine_and_promises_none(model: Path) -> None:
    async with running(model) as service:
        calls = await speaking(service, 2)
        service.supervisor.close()
        killed = service.supervisor.pid or 0
        os.kill(killed, signal.SIGKILL)
        for heard in await asyncio.gather(*calls):
            assert heard.code is grpc.StatusCode.UNAVAILABLE
            assert "stopping" in heard.details and "retry-after-ms" not in heard.trailing
        await service.until_serving(False)
        refused = await converse(service.speech, [config(), *text("Hello.")])
        assert refused.code is grpc.StatusCode.UNAVAILABLE
        assert "stopping" in refused.details and "retry-after-ms" not in refused.trailing
        assert service.supervisor.state is State.STOPPED
    assert service.supervisor.pid == killed


async def test_whoever_is_in_a_hurry_does_not_wait_for_the_engine(model: Path) -> None:
    supervisors = []

    async def hurried() -> None:
        async with unit(EngineSettings(model=model, utilisation=math.inf)) as started:
            supervisors.extend(started.engines.supervisors)
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await hurried()
    (supervisor,) = supervisors
    assert supervisor._current.trouble == "was killed by SIGKILL"
    assert supervisor.state is State.STOPPED


SERVE = "import sys; from oscine_service.cli import main; sys.exit(main())"


def engine_of(service: int) -> int:
    """0 while there is none."""
    children = Path(f"/proc/{service}/task/{service}/children").read_text().split()
    engines = (int(each) for each in children if b"oscine_service.unit" in Path(f"/proc/{each}/cmdline").read_bytes())
    return next(engines, 0)


def orphan(model: Path, before: Callable[[int], object]) -> int:
    """The engine of a service that was killed, once `before` was done to it."""
    command = [sys.executable, "-c", SERVE, "serve", "--port", "0", "--model", str(model)]
    with Command(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline().startswith(b"serving on")
        engine = engine_of(process.pid)
        before(engine)
        process.kill()
    return engine


def test_a_stopping_service_ends_with_its_engine(model: Path) -> None:
    command = [sys.executable, "-c", SERVE, "serve", "--port", "0", "--model", str(model)]
    with Command(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[2].rstrip(",")
        with grpc.insecure_channel(address, (("grpc.enable_http_proxy", 0),)) as channel:
            call = SpeechServiceStub(channel).Synthesize(iter([config(), *text(LONG * 60)]))
            assert next(call).HasField("started")
            engine = engine_of(process.pid)
            process.terminate()
            assert b"HTTP" in process.stdout.readline() and b"stopping" in process.stdout.readline()
            os.kill(engine, signal.SIGKILL)
            with pytest.raises(grpc.RpcError) as lost:
                list(call)
        assert lost.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "stopping" in lost.value.details()
        assert "retry-after-ms" not in dict(lost.value.trailing_metadata())
        assert process.wait(60) == 0


async def test_a_service_that_is_killed_while_its_engine_loads_leaves_no_folder(model: Path) -> None:
    def kill_early() -> int:
        command = [sys.executable, "-c", SERVE, "serve", "--port", "0", "--model", str(model)]
        with Command(command, stdout=subprocess.PIPE) as process:
            while not (engine := engine_of(process.pid)):
                time.sleep(0.01)
            process.kill()
        return engine

    before = folders()
    await gone(await asyncio.to_thread(kill_early))
    assert folders() <= before


@pytest.mark.parametrize("name", [None, signal.SIGSTOP], ids=["running", "stopped"])
async def test_an_orphaned_engine_ends(model: Path, name: signal.Signals | None) -> None:
    before = folders()
    engine = await asyncio.to_thread(orphan, model, lambda pid: name is None or os.kill(pid, name))
    await gone(engine)
    assert folders() <= before


BREAKABLE = """
import atexit, signal, sys
from oscine_engine.runtime.core import Core
from oscine_service.unit.__main__ import main
def fails(self): raise ZeroDivisionError
signal.signal(signal.SIGUSR1, lambda *_: setattr(Core, "turn", fails))
atexit.register(print, "taken down", file=sys.stderr)
sys.exit(main())
"""


async def test_an_engine_whose_loop_fails_is_replaced(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings = EngineSettings(model=model, utilisation=math.inf)

    def breakable(socket: Path) -> list[str]:
        arguments = command(settings, socket)
        return [sys.executable, "-c", BREAKABLE, *arguments[arguments.index("--socket") :]]

    async with Supervisor(breakable, Times(beat=0.2)) as supervisor:
        events: asyncio.Queue[PortEvent] = asyncio.Queue()
        await supervisor.port.open(StreamOptions("synthetic", 1), events.put_nowait)
        broken = supervisor.pid or 0
        os.kill(broken, signal.SIGUSR1)
        async with asyncio.timeout(60):
            assert isinstance(await events.get(), Unavailable)
        await gone(broken)

        async def serving() -> bool:
            return supervisor.port.serving

        await until(serving)
        assert supervisor.pid != broken
    said = capfd.readouterr().err
    assert "ZeroDivisionError" in said
    # The second one was only asked to end: it goes at once, without what Python does at an end.
    assert "taken down" not in said and "did not end" not in said
