"""Prometheus metrics of the calls that a service takes. docs/operations.md has a table of them all."""

import time
from collections.abc import Callable
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
        ProcessCollector(registry=self.registry)
        Info("oscine_build", "What runs", registry=self.registry).info({"version": version("oscine")})

    def attend(self, visit: Visit, request: SessionRequest) -> "Count":
        return Count(self, visit.protocol)

    def turned_away(self, protocol: str, code: str) -> None:
        """A call was refused at the door, before it was anybody's."""
        self.calls.labels(protocol, code).inc()
        self.refused.labels(protocol, code).inc()

    def page(self) -> bytes:
        """All metrics, in Prometheus's text format."""
        return generate_latest(self.registry)


class Count:
    """One call's attendant."""

    def __init__(self, metrics: Metrics, protocol: str) -> None:
        self._metrics, self._protocol = metrics, protocol
        self._began = metrics.clock()
        self._first_text: float | None = None
        self._sounded = False
        metrics.open.labels(protocol).inc()

    def text(self, characters: int) -> None:
        if self._first_text is None and characters:
            self._first_text = self._metrics.clock()
        self._metrics.characters.labels(self._protocol).inc(characters)

    def sent(self, samples: int, frames: int) -> None:
        if not self._sounded:
            self._sounded = True
            if self._first_text is not None:
                waited = self._metrics.clock() - self._first_text
                self._metrics.first_packet.labels(self._protocol).observe(waited)
        self._metrics.frames.labels(self._protocol).inc(frames)

    def ended(self, stats: Stats | None, error: BaseException | None) -> None:
        metrics, word = self._metrics, outcome(stats, error)
        metrics.open.labels(self._protocol).dec()
        metrics.calls.labels(self._protocol, word).inc()
        if error is not None and not self._sounded and word != VANISHED:
            metrics.refused.labels(self._protocol, word).inc()
        metrics.lasted.labels(self._protocol).observe(metrics.clock() - self._began)
        if stats is not None:
            metrics.audio.labels(self._protocol).inc(stats.audio_s)
