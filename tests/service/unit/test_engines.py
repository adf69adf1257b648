"""Several engines behind one port: where calls go, and what the loss of one leaves alone."""

import asyncio
import math
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from oscine_engine.errors import Cancelled, CheckpointError, Overloaded, Unavailable
from oscine_engine.events import Done
from oscine_engine.port import PortEvent, StreamOptions
from oscine_engine.settings import EngineSettings
from oscine_proto.oscine.unit.v1.unit_pb2_grpc import EngineServiceStub
from oscine_service.unit.attempt import Command
from oscine_service.unit.control import Failed, write
from oscine_service.unit.engines import Engines
from oscine_service.unit.process import command
from oscine_service.unit.remote import Connection
from oscine_service.unit.states import State
from oscine_service.unit.supervisor import Supervisor
from oscine_service.unit.times import Times
from tests.service.calls import Heard, config, converse, text
from tests.service.unit.conftest import Running, running
from tests.service.waiting import until

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. " * 60


async def speak(service: Running, seed: int) -> asyncio.Task[Heard]:
    """A call that has sounded and has far more to say."""
    sounded = asyncio.Event()
    call = asyncio.create_task(converse(service.speech, [config(seed=seed), *text(LONG)], on_audio=sounded.set))
    async with asyncio.timeout(60):
        await sounded.wait()
    return call


def admitted(engines: Engines) -> list[int]:
    return [supervisor.port.admitted for supervisor in engines.supervisors]


async def until_ready(engines: Engines, count: int) -> None:
    async def ready() -> bool:
        return engines.ready == count

    await until(ready)


async def test_calls_are_spread_and_one_engine_that_is_killed_takes_only_its_own(model: Path) -> None:
    async with running(model, streams=2, engines=2) as service:
        engines = service.engines
        await until_ready(engines, 2)
        calls = [await speak(service, seed) for seed in range(4)]
        # One after the other to the one with fewer: 0, 1, 0, 1.
        assert admitted(engines) == [2, 2]
        assert [(await each.beat()).streams for each in engines.supervisors] == [2, 2]
        full = await asyncio.gather(*(converse(service.speech, [config(), *text("Hello.")]) for _ in range(3)))
        assert {heard.code for heard in full} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert len({heard.trailing["retry-after-ms"] for heard in full}) == 3, "told to come back together"

        first, second = engines.supervisors
        killed = first.pid or 0
        os.kill(killed, signal.SIGKILL)
        for heard in await asyncio.gather(calls[0], calls[2]):
            assert heard.code is grpc.StatusCode.UNAVAILABLE, heard.details
            assert "others take calls" in heard.details and int(heard.trailing["retry-after-ms"]) <= 100
        await until_ready(engines, 1)
        assert await service.healthy()
        assert not calls[1].done() and not calls[3].done()
        # The other one has no place; once it has, it is taken while the first is still away.
        refused = await converse(service.speech, [config(), *text("Hello.")])
        assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        calls[3].cancel()
        await asyncio.wait([calls[3]])
        heard = await converse(service.speech, [config(), *text("Hello.")])
        assert heard.code is grpc.StatusCode.OK and heard.samples > 0
        assert not calls[1].done()

        await until_ready(engines, 2)
        assert first.pid != killed
        later = [await speak(service, seed) for seed in (5, 6)]
        assert admitted(engines) == [2, 1], "the emptier one is not taken first"
        # Without any engine health says so, and the hint is that of a start.
        for supervisor in (first, second):
            os.kill(supervisor.pid or 0, signal.SIGKILL)
        ends = await asyncio.gather(calls[1], *later)
        assert {heard.code for heard in ends} == {grpc.StatusCode.UNAVAILABLE}
        await service.until_serving(False)
        refused = await converse(service.speech, [config(), *text("Hello.")])
        assert refused.code is grpc.StatusCode.UNAVAILABLE and int(refused.trailing["retry-after-ms"]) >= 1000


def engine(settings: EngineSettings) -> Command:
    return lambda socket: command(settings, socket)


async def test_an_engine_that_refuses_or_hangs_is_passed_over(model: Path) -> None:
    settings = EngineSettings(model=model, utilisation=math.inf)
    # The first takes one stream, for one is always let in; the second takes two.
    busy, small = replace(settings, utilisation=1e-9), replace(settings, max_streams=2)
    events: asyncio.Queue[PortEvent] = asyncio.Queue()
    async with Engines([engine(busy), engine(small)], Times(beat=0.1, hang=30.0)) as engines:
        await until_ready(engines, 2)
        streams = []
        for seed, expected in enumerate([[1, 0], [1, 1], [1, 2]]):
            streams.append(await engines.open(StreamOptions("synthetic", seed), events.put_nowait))
            assert admitted(engines) == expected
        with pytest.raises(Overloaded, match="keep this engine busy") as refusal:
            await engines.open(StreamOptions("synthetic", 9), events.put_nowait)
        assert 0 < refusal.value.retry_after_s <= 30

        for stream in streams:
            stream.stop(Cancelled("enough"))

        async def empty() -> bool:
            return engines.admitted == 0

        await until(empty)
        first = engines.supervisors[0]
        os.kill(first.pid or 0, signal.SIGSTOP)
        try:

            async def quiet() -> bool:
                return first.quiet

            await until(quiet)
            async with asyncio.timeout(10):
                await engines.open(StreamOptions("synthetic", 0), events.put_nowait)
            assert (engines.ready, admitted(engines)) == (2, [0, 1])
        finally:
            os.kill(first.pid or 0, signal.SIGCONT)

        async def answers() -> bool:
            return not first.quiet

        await until(answers)


async def test_an_engine_that_is_lost_while_it_is_asked_is_not_called_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has missed it yet, and there is nothing at the other end of the socket."""
    monkeypatch.setattr(Supervisor, "quiet", False)
    engines = Engines([engine(EngineSettings())])
    port = engines.supervisors[0].port
    async with grpc.aio.insecure_channel(f"unix:{tmp_path / 'nobody'}") as channel, asyncio.timeout(60):
        stub = EngineServiceStub(channel)
        port.connect(Connection(stub, 4, lambda: Unavailable("the engine was lost", 0.5)))
        events: asyncio.Queue[PortEvent] = asyncio.Queue()
        with pytest.raises(Unavailable, match="the engine was lost") as lost:
            await engines.open(StreamOptions("synthetic", 1), events.put_nowait)
        assert lost.value.retry_after_s == 0.5 and port.serving


async def test_an_engine_that_cannot_start_ends_the_start_of_all(model: Path) -> None:
    line = write(Failed(CheckpointError("there is no such model")))

    def broken(socket: Path) -> list[str]:
        return [sys.executable, "-c", f"print({line!r}, end='')"]

    engines = Engines([engine(EngineSettings(model=model)), broken])
    with pytest.raises(CheckpointError, match="no such model"):
        await engines.__aenter__()
    assert {supervisor.state for supervisor in engines.supervisors} == {State.STOPPED}


@pytest.mark.slow
async def test_calls_do_not_wait_for_the_last_engine_which_may_take_its_time(model: Path, tmp_path: Path) -> None:
    flag, starts = tmp_path / "flag", []
    waits = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)\nsys.exit(3)"

    def late(socket: Path) -> list[str]:
        starts.append(socket)
        return [sys.executable, "-c", waits, str(flag)]

    events: asyncio.Queue[PortEvent] = asyncio.Queue()
    async with Engines([late, engine(EngineSettings(model=model))], Times(end=0.5)) as engines:
        assert (engines.serving, engines.ready) == (True, 1)
        stream = await engines.open(StreamOptions("synthetic", 1), events.put_nowait)
        flag.touch()

        async def again() -> bool:
            return len(starts) > 1

        await until(again)
        assert (engines.serving, admitted(engines)) == (True, [0, 1])
        engines.close()
        stream.speak([], end=True)
        # What runs comes to its end after `close`.
        async with asyncio.timeout(30):
            while not isinstance(await events.get(), Done):
                pass
