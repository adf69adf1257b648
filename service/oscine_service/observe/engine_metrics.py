"""Prometheus metrics of what engines have done, made from their figures whenever somebody looks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from oscine_engine.figures import Figures, Histogram, Standing
from oscine_engine.scheduler.views import Stage

STANDING = {
    Standing.COMPUTING: "computing",
    Standing.TEXT: "waiting_for_text",
    Standing.LISTENER: "waiting_for_listener",
    Standing.IDLE: "idle",
}


@dataclass(frozen=True, slots=True)
class EngineState:
    """figures: None before they are known. starts: processes that followed the first one. places: streams that it
    admits at most, 0 while it takes none; None for an engine in this process, as is resident: bytes of its process."""

    serving: bool
    starts: int
    figures: Figures | None
    places: int | None = None
    resident: int | None = None


class EngineCollector(Collector):
    """states: of each engine, by its number."""

    def __init__(self, states: Callable[[], Sequence[EngineState]]) -> None:
        self._states = states

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are known only by collecting, and engines may not have been asked yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        states = [(str(number), state) for number, state in enumerate(self._states())]
        up = GaugeMetricFamily("oscine_engine_up", "Whether the engine takes calls", labels=("engine",))
        starts = CounterMetricFamily("oscine_engine_restarts", "Engine processes started again", labels=("engine",))
        for engine, state in states:
            up.add_metric((engine,), float(state.serving))
            starts.add_metric((engine,), state.starts)
        yield from (up, starts)
        yield from _processes(states)
        known = [(engine, state.figures) for engine, state in states if state.figures is not None]
        yield from _gauges(known)
        yield from _counters(known)
        yield from _histograms(known)


Known = Sequence[tuple[str, Figures]]


def _processes(states: Sequence[tuple[str, EngineState]]) -> Iterator[Metric]:
    places = GaugeMetricFamily("oscine_engine_places", "Streams that the engine admits at most", labels=("engine",))
    resident = GaugeMetricFamily("oscine_engine_resident_bytes", "Memory of the engine's process", labels=("engine",))
    for engine, state in states:
        if state.places is not None:
            places.add_metric((engine,), state.places)
        if state.resident is not None:
            resident.add_metric((engine,), state.resident)
    yield from (places, resident)


def _gauges(known: Known) -> Iterator[Metric]:
    streams = GaugeMetricFamily("oscine_engine_streams", "Streams that are open", labels=("engine",))
    expecting = GaugeMetricFamily(
        "oscine_engine_streams_expecting", "Of them, those whose first packet is being made", labels=("engine",)
    )
    held = GaugeMetricFamily(
        "oscine_engine_pages",
        "Pages of keys and values in use; voices' are among the flow's",
        labels=("engine", "pool"),
    )
    pages = GaugeMetricFamily("oscine_engine_flow_pages", "Pages of the flow's pool in all", labels=("engine",))
    chance = GaugeMetricFamily(
        "oscine_engine_guess_chance",
        "Of each guess of a draft, that it comes true if those before it did",
        labels=("engine", "guess"),
    )
    for engine, figures in known:
        streams.add_metric((engine,), figures.streams)
        expecting.add_metric((engine,), figures.expecting)
        pages.add_metric((engine,), figures.flow_pages)
        for pool, count in figures.held_pages.items():
            held.add_metric((engine, pool), count)
        for place, value in enumerate(figures.chances, 1):
            chance.add_metric((engine, str(place)), value)
    yield from (streams, expecting, held, pages, chance)


def _counters(known: Known) -> Iterator[Metric]:
    stood = CounterMetricFamily(
        "oscine_engine_stream_seconds",
        "Time of open streams by what it goes by with: something to compute, or waiting for text or for the listener",
        labels=("engine", "state"),
    )
    for engine, figures in known:
        for standing, seconds in figures.stood.items():
            stood.add_metric((engine, STANDING[standing]), seconds)
    yield stood
    plain: Sequence[tuple[str, str, Callable[[Figures], float]]] = (
        ("underruns", "Times that a listener ran dry for want of computing", lambda figures: figures.underruns),
        ("underrun_seconds", "For how long", lambda figures: figures.underrun_s),
        ("starved", "Times that a listener ran dry for want of text", lambda figures: figures.starved),
        ("starved_seconds", "For how long", lambda figures: figures.starved_s),
        ("audio_seconds", "Seconds of speech that were made", lambda figures: figures.audio_s),
        ("segments", "Sentences that were spoken", lambda figures: figures.segments),
        ("speech_ids", "Ids that the language model said", lambda figures: figures.speech_ids),
        (
            "reads",
            "Streams in all its steps; a step says as many ids as ids have of these",
            lambda figures: figures.reads,
        ),
    )
    for name, what, value in plain:
        counter = CounterMetricFamily(f"oscine_engine_{name}", what, labels=("engine",))
        for engine, figures in known:
            counter.add_metric((engine,), value(figures))
        yield counter


def _histograms(known: Known) -> Iterator[Metric]:
    ticks = HistogramMetricFamily("oscine_engine_tick_seconds", "What ticks took", labels=("engine", "stage"))
    batches = HistogramMetricFamily("oscine_engine_batch_streams", "Streams in a tick", labels=("engine", "stage"))
    queued = HistogramMetricFamily(
        "oscine_engine_queue_seconds", "From a stream's first text to the first step that read it", labels=("engine",)
    )
    packets = HistogramMetricFamily(
        "oscine_engine_first_packet_seconds",
        "From a stream's first text to the first samples that left the engine",
        labels=("engine",),
    )
    for engine, figures in known:
        for stage in Stage:
            _add(ticks, (engine, stage.name.lower()), figures.ticks[stage])
            _add(batches, (engine, stage.name.lower()), figures.batches[stage])
        _add(queued, (engine,), figures.queued)
        _add(packets, (engine,), figures.first_packets)
    yield from (ticks, batches, queued, packets)


def _add(family: HistogramMetricFamily, labels: Sequence[str], histogram: Histogram) -> None:
    names = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    buckets = list(zip(names, map(float, accumulate(histogram.counts)), strict=True))
    family.add_metric(labels, buckets, histogram.total)
