"""A page of metrics, read once. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from oscine_engine.errors import InvalidInput

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Samples:
    """at: when it was read, in seconds of any clock that only goes on. values: of each name, by its labels."""

    at: float
    values: Mapping[str, Mapping[Labels, float]]

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels, whatever others they have; 0 if there are none."""
        return self.one(name, **labels) or 0.0

    def one(self, name: str, **labels: str) -> float | None:
        """The same; None if there are none."""
        wanted = labels.items()
        found = [value for has, value in self.values.get(name, {}).items() if wanted <= set(has)]
        return sum(found) if found else None

    def of_label(self, name: str, label: str) -> list[str]:
        """The values that a label of a metric has, in order."""
        return sorted({value for found in self.values.get(name, {}) for key, value in found if key == label})


def read(page: str, at: float) -> Samples:
    """Raises InvalidInput for what is no page of metrics."""
    values: dict[str, dict[Labels, float]] = {}
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                values.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    except ValueError as error:
        raise InvalidInput(f"this is no page of metrics: {error}") from error
    return Samples(at, values)


@dataclass(frozen=True, slots=True)
class Span:
    """Two readings of a page, one after the other. A process that began again in between counts from 0."""

    before: Samples
    now: Samples

    @property
    def seconds(self) -> float:
        return self.now.at - self.before.at

    def rise(self, name: str, **labels: str) -> float:
        """By how much a counter has grown."""
        new, old = self.now.total(name, **labels), self.before.total(name, **labels)
        return new - old if new >= old else new

    def rate(self, name: str, **labels: str) -> float:
        """The same, a second."""
        return self.rise(name, **labels) / self.seconds if self.seconds > 0 else 0.0

    def mean(self, name: str, **labels: str) -> float | None:
        """Of what a histogram took in; None if that is nothing."""
        count = self.rise(f"{name}_count", **labels)
        return self.rise(f"{name}_sum", **labels) / count if count else None

    def quantile(self, share: float, name: str, **labels: str) -> float | None:
        """Likewise, within a bucket as if values lay evenly in it; the last bound for those beyond."""
        bounds = sorted((float(bound), bound) for bound in self.now.of_label(f"{name}_bucket", "le"))
        counts = [self.rise(f"{name}_bucket", le=text, **labels) for _, text in bounds]
        if not counts or not counts[-1]:
            return None
        wanted = share * counts[-1]
        place = next(index for index, count in enumerate(counts) if count >= wanted)
        upper = bounds[place][0]
        lower = bounds[place - 1][0] if place else 0.0
        if upper == float("inf"):
            return lower
        below = counts[place - 1] if place else 0.0
        inside = counts[place] - below
        return lower + (upper - lower) * ((wanted - below) / inside if inside else 1.0)
