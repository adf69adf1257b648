"""What Prometheus reads, by its own parser."""

import asyncio
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.websockets import WebSocketDisconnect

from oscine_engine.errors import InternalError, Overloaded, UnknownVoice
from oscine_engine.events import SessionRequest, Stats
from oscine_engine.figures import Standing
from oscine_engine.scheduler.views import Stage
from oscine_service.observe.desks import Desks
from oscine_service.observe.engine_metrics import EngineCollector, EngineState
from oscine_service.observe.metrics import Metrics
from oscine_service.security.errors import QuotaExceeded
from oscine_service.visits import Attendant, Visit
from tests.service.unit.test_figures_wire import FIGURES

STATS = Stats(audio_s=2.5, segments=1, speech_tokens=60, first_packet_s=0.1, busy_s=1.0)
CALL = Visit(protocol="grpc")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def read(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels."""
    families = text_string_to_metric_families(metrics.page().decode())
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(clock)


def test_a_call_is_counted(metrics: Metrics, clock: Clock) -> None:
    call = metrics.attend(CALL, SessionRequest())
    assert read(metrics)["oscine_calls_open", "grpc"] == 1
    clock.now += 5  # a client that thinks before it writes has not waited for anything
    call.text(7)
    clock.now += 0.07
    call.sent(480, 1)
    clock.now += 1
    call.text(5)
    call.sent(960, 2)
    call.ended(STATS, None)
    told = read(metrics)
    assert told["oscine_calls_open", "grpc"] == 0
    assert told["oscine_calls_total", "ok", "grpc"] == 1
    assert told["oscine_characters_total", "grpc"] == 12
    assert told["oscine_frames_total", "grpc"] == 3
    assert told["oscine_audio_seconds_total", "grpc"] == 2.5
    assert told["oscine_first_packet_seconds_sum", "grpc"] == pytest.approx(0.07)
    assert told["oscine_first_packet_seconds_bucket", "0.08", "grpc"] == 1
    assert told["oscine_first_packet_seconds_bucket", "0.06", "grpc"] == 0
    assert told["oscine_call_seconds_sum", "grpc"] == pytest.approx(6.07)
    assert not any(told[name] for name in told if name[0] == "oscine_refused_total")
    # Told before it has happened: whoever reads rises only would miss the first one.
    assert told["oscine_refused_total", "overloaded", "grpc"] == told["oscine_calls_total", "stalled", "grpc"] == 0


@pytest.mark.parametrize(
    ("error", "sounded", "word", "refused"),
    [
        (None, True, "cancelled", False),
        (asyncio.CancelledError(), True, "vanished", False),
        (ConnectionResetError(), False, "vanished", False),
        (WebSocketDisconnect(1001), True, "vanished", False),
        (Overloaded("full", 1.0), False, "overloaded", True),
        (QuotaExceeded("enough", 1.0), True, "quota_exceeded", False),
        (UnknownVoice("who?"), False, "unknown_voice", True),
        (InternalError("broken"), True, "internal", False),
        (ZeroDivisionError(), False, "bug", True),
        (ExceptionGroup("several", [UnknownVoice("who?")]), False, "unknown_voice", True),
    ],
)
def test_how_a_call_ended_is_counted_in_a_word(
    metrics: Metrics, error: BaseException | None, sounded: bool, word: str, refused: bool
) -> None:
    call = metrics.attend(CALL, SessionRequest())
    if sounded:
        call.sent(480, 1)
    call.ended(None, error)
    told = read(metrics)
    assert told["oscine_calls_total", word, "grpc"] == 1
    assert bool(told.get(("oscine_refused_total", word, "grpc"))) == refused
    assert told["oscine_calls_open", "grpc"] == 0


def test_who_is_turned_away_at_the_door_is_counted(metrics: Metrics) -> None:
    metrics.turned_away("websocket", "unauthenticated")
    told = read(metrics)
    assert told["oscine_refused_total", "unauthenticated", "websocket"] == 1
    assert told["oscine_calls_total", "unauthenticated", "websocket"] == 1


def test_what_engines_have_done_is_told_of_each(metrics: Metrics) -> None:
    states = [
        EngineState(True, 0, FIGURES),
        EngineState(False, 3, None),
        EngineState(True, 0, replace(FIGURES, streams=9)),
    ]
    metrics.registry.register(EngineCollector(lambda: states))
    told = read(metrics)
    assert [told["oscine_engine_up", str(number)] for number in range(3)] == [1, 0, 1]
    assert told["oscine_engine_restarts_total", "1"] == 3
    assert (told["oscine_engine_streams", "0"], told["oscine_engine_streams", "2"]) == (3, 9)
    assert ("oscine_engine_streams", "1") not in told
    assert told["oscine_engine_stream_seconds_total", "0", "waiting_for_text"] == FIGURES.stood[Standing.TEXT]
    assert told["oscine_engine_stream_seconds_total", "0", "computing"] == FIGURES.stood[Standing.COMPUTING]
    assert told["oscine_engine_pages", "0", "voices"] == 2
    assert told["oscine_engine_guess_chance", "0", "2"] == 0.5
    assert told["oscine_engine_underruns_total", "0"] == 2
    assert told["oscine_engine_starved_seconds_total", "0"] == 0.25
    assert told["oscine_engine_speech_ids_total", "0"] / told["oscine_engine_reads_total", "0"] == (1 << 40) / 7
    assert told["oscine_engine_tick_seconds_sum", "0", "flow"] == FIGURES.ticks[Stage.FLOW].total
    assert told["oscine_engine_tick_seconds_bucket", "0", "0.002", "flow"] == 1
    assert told["oscine_engine_tick_seconds_bucket", "0", "+Inf", "flow"] == 2
    assert told["oscine_engine_tick_seconds_count", "0", "flow"] == 2
    assert told["oscine_engine_batch_streams_bucket", "0", "3", "lm"] == 2
    assert told["oscine_engine_queue_seconds_count", "0"] == 1


class Watcher:
    """Remembers; refuses what it is told to."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses, self.heard = refuses, []  # type: ignore[var-annotated]

    def attend(self, visit: Visit, request: SessionRequest) -> Attendant:
        if self.refuses == "attend":
            raise QuotaExceeded("no", 1.0)
        self.heard.append("attend")
        return self

    def text(self, characters: int) -> None:
        if self.refuses == "text":
            raise QuotaExceeded("no", 1.0)
        self.heard.append(f"text {characters}")

    def sent(self, samples: int, frames: int) -> None:
        self.heard.append(f"sent {samples} {frames}")

    def ended(self, stats: Stats | None, error: BaseException | None) -> None:
        self.heard.append(f"ended {type(error).__name__}")


def test_who_only_watches_hears_of_a_refusal() -> None:
    watching, refusing, behind = Watcher(), Watcher("attend"), Watcher()
    with pytest.raises(QuotaExceeded):
        Desks(watching, refusing, behind).attend(CALL, SessionRequest())
    assert watching.heard == ["attend", "ended QuotaExceeded"]
    assert refusing.heard == behind.heard == []


def test_text_that_is_refused_has_not_come() -> None:
    watching, refusing = Watcher(), Watcher("text")
    call = Desks(watching, refusing).attend(CALL, SessionRequest())
    with pytest.raises(QuotaExceeded):
        call.text(5)
    call.sent(480, 1)
    call.ended(None, None)
    assert watching.heard == refusing.heard == ["attend", "sent 480 1", "ended NoneType"]
