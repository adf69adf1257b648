"""Prometheus metrics of the calls that a service takes. docs/operations.md has a table of them all."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from oscine_engine.events import SessionRequest, Stats
from oscine_engine.figures import PACKET_BOUNDS
from oscine_service.observe.outcomes import VANISHED, outcome
from oscine_service.visits import Visit

CONTENT_TYPE = CONTENT_TYPE_LATEST
disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, which nobody asks for
REFUSALS, ENDS = ("overloaded", "unavailable"), ("ok", "overloaded", "unavailable", "internal", "stalled")
"""Outcomes that are told from a protocol's first call on, though there are none yet: Prometheus sees no rise in what
was not there before."""
LASTING = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


class Metrics:
    """A desk that counts, and what it has counted. Each service has a registry of its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.clock = clock
        where, how = ("protocol",), ("protocol", "outcome")

        def counter(name: str, what: str, labels: tuple[str, ...] = where) -> Counter:
            return Counter(name, what, labels, registry=self.registry)

        def histogram(name: str, what: str, bounds: tuple[float, ...]) -> Histogram:
            return Histogram(name, what, where, buckets=bounds, registry=self.registry)

        self.open = Gauge("oscine_calls_open", "Calls that speak or may", where, registry=self.registry)
        self.calls = counter("oscine_calls", "Calls that have ended, by how", how)
        self.refused = counter("oscine_refused", "Of them, those that were refused before any sound, by why", how)
        self.lasted = histogram("oscine_call_seconds", "How long calls lasted", LASTING)
        self.first_packet = histogram(
            "oscine_first_packet_seconds",
            "From a call's first text to the first sound that was handed to its connection",
            PACKET_BOUNDS,
        )
        self.characters = counter("oscine_characters", "Characters of text that were taken")
        self.audio = counter("oscine_audio_seconds", "Seconds of speech of calls that were spoken to their end")
        self.frames = counter("oscine_frames", "Frames of audio that were handed to connections")
        self._series: dict[str, Series] = {}
        ProcessCollector(registry=self.registry)
        Info("oscine_build", "What runs", registry=self.registry).info({"version": version("oscine")})

    def attend(self, visit: Visit, request: SessionRequest) -> "Count":
        return Count(self, self._of(visit.protocol))

    def _of(self, protocol: str) -> "Series":
        """Looked up once: to find them again with each packet takes longer than to count it."""
        found = self._series.get(protocol)
        if found is None:
            for word in ENDS:
                self.calls.labels(protocol, word)
            for word in REFUSALS:
                self.refused.labels(protocol, word)
            found = self._series[protocol] = Series(
                protocol,
                self.open.labels(protocol),
                self.lasted.labels(protocol),
                self.first_packet.labels(protocol),
                self.characters.labels(protocol),
                self.audio.labels(protocol),
                self.frames.labels(protocol),
            )
        return found

    def turned_away(self, protocol: str, code: str) -> None:
        """A call was refused at the door, before it was anybody's."""
        self.calls.labels(protocol, code).inc()
        self.refused.labels(protocol, code).inc()

    def page(self) -> bytes:
        """All metrics, in Prometheus's text format."""
        return generate_latest(self.registry)


@dataclass(frozen=True, slots=True)
class Series:
    """What is counted of one protocol, but for what is counted by outcome."""

    protocol: str
    open: Gauge
    lasted: Histogram
    first_packet: Histogram
    characters: Counter
    audio: Counter
    frames: Counter


class Count:
    """One call's attendant."""

    def __init__(self, metrics: Metrics, series: Series) -> None:
        self._metrics, self._series = metrics, series
        self._began = metrics.clock()
        self._first_text: float | None = None
        self._sounded = False
        series.open.inc()

    def text(self, characters: int) -> None:
        if self._first_text is None and characters:
            self._first_text = self._metrics.clock()
        self._series.characters.inc(characters)

    def sent(self, samples: int, frames: int) -> None:
        if not self._sounded:
            self._sounded = True
            if self._first_text is not None:
                self._series.first_packet.observe(self._metrics.clock() - self._first_text)
        self._series.frames.inc(frames)

    def ended(self, stats: Stats | None, error: BaseException | None) -> None:
        metrics, series, word = self._metrics, self._series, outcome(stats, error)
        series.open.dec()
        metrics.calls.labels(series.protocol, word).inc()
        if error is not None and not self._sounded and word != VANISHED:
            metrics.refused.labels(series.protocol, word).inc()
        series.lasted.observe(metrics.clock() - self._began)
        if stats is not None:
            series.audio.inc(stats.audio_s)
