"""The device loop's bookkeeping, and what it does when it cannot go on."""

import asyncio
import logging
from pathlib import Path

import pytest

from oscine_engine.checkpoint import synthetic
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import Cancelled, InternalError, Unavailable
from oscine_engine.runtime.device_loop import Stream
from oscine_engine.runtime.stages import Lane, Stages
from oscine_engine.scheduler.policy import Stage


def test_a_listener_that_ran_dry_plays_on_from_the_next_packet() -> None:
    stream = Stream("voice", 0, print, arrived=0.0)
    stream.note_sent(24000, 24000, now=10.0)
    stream.note_sent(24000, 24000, now=10.5)
    assert stream.dry_at == 12.0
    stream.note_sent(24000, 24000, now=60.0)
    assert stream.dry_at == 61.0
    assert (stream.packets, stream.sent, stream.first_at, stream.last_at) == (3, 72000, 10.0, 60.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("model"))


async def test_cancelling_between_choice_and_tick_is_no_fault(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ready = Stages.ready
    async with Engine.load(EngineSettings(model=model)) as engine, await engine.open() as session:

        def cancelling(stages: Stages, lane: Lane) -> frozenset[Stage]:
            found = ready(stages, lane)
            if Stage.FLOW in found:
                engine._loop.stop(session._stream, Cancelled("in between"))
            return found

        monkeypatch.setattr(Stages, "ready", cancelling)
        await session.append("Good morning, dear friend. ")
        with pytest.raises(Cancelled, match="in between"):
            async for _ in session:
                pass
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_loop_that_cannot_go_on_tells_everybody(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Engine.load(EngineSettings(model=model)) as engine, await engine.open() as session:

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(Stages, "ready", broken)
        await session.append("Good morning, dear friend. ")
        async with asyncio.timeout(10):
            with pytest.raises(InternalError, match="restart"):
                async for _ in session:
                    pass
        assert engine.failed
        with pytest.raises(Unavailable, match="restart"):
            await engine.open()
