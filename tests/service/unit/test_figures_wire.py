"""What an engine has done, from one process to the other."""

import asyncio
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError

from oscine_engine.figures import BATCH_BOUNDS, PACKET_BOUNDS, TICK_BOUNDS, WAIT_BOUNDS, Counts, Figures, Standing
from oscine_engine.scheduler.views import Stage
from oscine_engine.settings import EngineSettings
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb
from oscine_service.unit import figures_wire
from oscine_service.unit.front import unit
from oscine_service.unit.times import Times


def counts(bounds: tuple[float, ...], *values: float) -> Counts:
    made = Counts(bounds)
    for value in values:
        made.add(value)
    return made


FIGURES = Figures(
    ticks={stage: counts(TICK_BOUNDS, 0.001 * (stage + 1), 9.0).read() for stage in Stage},
    batches={stage: counts(BATCH_BOUNDS, 3, 3, 200).read() for stage in Stage},
    queued=counts(WAIT_BOUNDS, 0.3).read(),
    first_packets=counts(PACKET_BOUNDS, 0.07, 0.08).read(),
    stood={standing: 1.5 * standing for standing in Standing},
    streams=3,
    expecting=1,
    segments=12,
    audio_s=4.25,
    speech_ids=1 << 40,
    reads=7,
    underruns=2,
    underrun_s=0.5,
    starved=1,
    starved_s=0.25,
    chances=(0.7, 0.5),
    flow_pages=100,
    held_pages={"lm": 4, "flow": 9, "voices": 2},
)


def test_nothing_is_lost_on_the_way() -> None:
    sent = figures_wire.message(FIGURES).SerializeToString()
    assert figures_wire.figures(pb.Figures.FromString(sent)) == FIGURES


def test_a_message_of_another_release_is_refused() -> None:
    message = figures_wire.message(FIGURES)
    message.queued.counts.append(1)
    with pytest.raises(ValueError, match="a histogram of"):
        figures_wire.figures(message)
    with pytest.raises(DecodeError):
        pb.Figures.FromString(b"\xff")


async def test_figures_of_another_release_do_not_end_the_watch(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[pb.Figures] = []
    fault: type[Exception] = ValueError

    def strange(message: pb.Figures) -> Figures:
        told.append(message)
        raise fault("a histogram of 3 counts for 5 bounds")

    monkeypatch.setattr(figures_wire, "figures", strange)
    settings = EngineSettings(model=model, max_streams=2, utilisation=float("inf"))
    async with unit(settings, Times(beat=0.02)) as started, asyncio.timeout(60):
        (supervisor,) = started.engines.supervisors
        while len(told) < 4:
            await asyncio.sleep(0.01)
        assert supervisor.figures is None and supervisor.starts == 0
        assert sum("another release" in record.getMessage() for record in caplog.records) == 1
        # Whatever else goes wrong in watching it, an engine that nobody watches is given up.
        fault = ZeroDivisionError
        while supervisor.starts == 0:
            await asyncio.sleep(0.01)


async def test_an_engine_process_tells_what_it_has_done(model: Path) -> None:
    settings = EngineSettings(model=model, max_streams=2, utilisation=float("inf"))
    async with unit(settings, Times(beat=0.05)) as started:
        (supervisor,) = started.engines.supervisors
        assert supervisor.starts == 0
        async with await started.front.open() as session:
            await session.append("Hello there, and good morning.")
            await session.finish()
            audio_s = [event async for event in session][-1].stats.audio_s  # type: ignore[union-attr]
        async with asyncio.timeout(10):
            while (told := supervisor.figures) is None or not told.segments or told.streams:
                await asyncio.sleep(0.01)
        assert told.audio_s == pytest.approx(audio_s) and told.segments == 1
        assert sum(told.first_packets.counts) == sum(told.queued.counts) == 1
        assert all(sum(told.ticks[stage].counts) > 0 for stage in Stage)
