"""How services stand, from two readings of their metrics each. Pure."""

from dataclasses import dataclass

from oscine_service.top.samples import Span

STAGES = ("lm", "flow", "vocoder")
FAULTS = ("internal", "bug", "unavailable", "run_away", "checkpoint", "store")
"""Outcomes that are a fault of the service; deploy/prometheus/recording.yml has the same."""


@dataclass(frozen=True, slots=True)
class Stage:
    """ticks: a second. tick_s: of one, and streams in it, on average; None where there was none. share: of the time."""

    stage: str
    ticks: float
    tick_s: float | None
    batch: float | None
    share: float


@dataclass(frozen=True, slots=True)
class Engine:
    """up: takes calls. streams: open; expecting: of them, whose first packet is being made; places: at most.

    computing, waiting_for_text, waiting_for_listener, idle: streams, on average. speech: seconds made a second.
    first_packet: from text that suffices to the first samples, seconds. underruns, starved: times that a listener ran
    dry for want of computing, and of text. restarts: since the service started. pages: share of the flow's that are
    held. memory: bytes of the process. What is not told is None.
    """

    engine: str
    up: bool
    streams: float | None
    places: float | None
    expecting: float | None
    computing: float
    waiting_for_text: float
    waiting_for_listener: float
    idle: float
    speech: float
    first_packet_p50: float | None
    first_packet_p95: float | None
    underruns: float
    starved: float
    restarts: float
    pages: float | None
    memory: float | None
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Service:
    """trouble: why nothing is known of it, and then there is nothing else. seconds: how long was looked at.

    ended, refused, failed: calls a second; those that failed did so by its own fault. first_packet: from a call's first
    text to the first sound, seconds. late: of its event loop, p99, seconds. memory: bytes of its process; memory_share:
    of all that there is for it, what is in use.
    """

    service: str
    trouble: str | None = None
    seconds: float = 0.0
    calls: float = 0.0
    ended: float = 0.0
    refused: float = 0.0
    failed: float = 0.0
    first_packet_p50: float | None = None
    first_packet_p95: float | None = None
    late: float | None = None
    memory: float | None = None
    memory_share: float | None = None
    engines: tuple[Engine, ...] = ()


def service(name: str, span: Span) -> Service:
    now = span.now
    used, limit = now.one("oscine_memory_used_bytes"), now.one("oscine_memory_limit_bytes")
    return Service(
        service=name,
        seconds=span.seconds,
        calls=now.total("oscine_calls_open"),
        ended=span.rate("oscine_calls_total"),
        refused=span.rate("oscine_refused_total"),
        failed=sum(span.rate("oscine_calls_total", outcome=word) for word in FAULTS),
        first_packet_p50=span.quantile(0.5, "oscine_first_packet_seconds"),
        first_packet_p95=span.quantile(0.95, "oscine_first_packet_seconds"),
        late=span.quantile(0.99, "oscine_event_loop_late_seconds"),
        memory=now.one("process_resident_memory_bytes"),
        memory_share=used / limit if used is not None and limit else None,
        engines=tuple(engine(each, span) for each in now.of_label("oscine_engine_up", "engine")),
    )


def engine(number: str, span: Span) -> Engine:
    now = span.now

    def stood(state: str) -> float:
        return span.rate("oscine_engine_stream_seconds_total", engine=number, state=state)

    held, pages = (
        now.one("oscine_engine_pages", engine=number, pool="flow"),
        now.one("oscine_engine_flow_pages", engine=number),
    )
    return Engine(
        engine=number,
        up=bool(now.total("oscine_engine_up", engine=number)),
        streams=now.one("oscine_engine_streams", engine=number),
        places=now.one("oscine_engine_places", engine=number),
        expecting=now.one("oscine_engine_streams_expecting", engine=number),
        computing=stood("computing"),
        waiting_for_text=stood("waiting_for_text"),
        waiting_for_listener=stood("waiting_for_listener"),
        idle=stood("idle"),
        speech=span.rate("oscine_engine_audio_seconds_total", engine=number),
        first_packet_p50=span.quantile(0.5, "oscine_engine_first_packet_seconds", engine=number),
        first_packet_p95=span.quantile(0.95, "oscine_engine_first_packet_seconds", engine=number),
        underruns=span.rise("oscine_engine_underruns_total", engine=number),
        starved=span.rise("oscine_engine_starved_total", engine=number),
        restarts=now.total("oscine_engine_restarts_total", engine=number),
        pages=held / pages if held is not None and pages else None,
        memory=now.one("oscine_engine_resident_bytes", engine=number),
        stages=tuple(
            _stage(name, number, span)
            for name in STAGES
            if now.one("oscine_engine_tick_seconds_count", engine=number, stage=name) is not None
        ),
    )


def _stage(name: str, number: str, span: Span) -> Stage:
    return Stage(
        stage=name,
        ticks=span.rate("oscine_engine_tick_seconds_count", engine=number, stage=name),
        tick_s=span.mean("oscine_engine_tick_seconds", engine=number, stage=name),
        batch=span.mean("oscine_engine_batch_streams", engine=number, stage=name),
        share=span.rate("oscine_engine_tick_seconds_sum", engine=number, stage=name),
    )
