"""Prometheus metrics of this machine's copy of shared voices, made whenever somebody looks."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oscine_service.storage.keeping import CopyState


class SharedVoicesCollector(Collector):
    """state: of the copy, as it is now."""

    def __init__(self, state: Callable[[], CopyState]) -> None:
        self._state = state

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        yield GaugeMetricFamily(
            "oscine_shared_voices_up", "Whether the shared voice store could be read lately", float(state.up)
        )
        yield GaugeMetricFamily("oscine_shared_voices", "Voices in this machine's copy of it", state.voices)
        yield GaugeMetricFamily("oscine_shared_voices_failing", "Voices of it that could not be copied", state.failing)
        if state.age_s is not None:
            yield GaugeMetricFamily(
                "oscine_shared_voices_age_seconds", "Since the copy was last seen to be up to date", state.age_s
            )
