"""How many replicas there are to be: by the streams that all of them have. Pure."""

import math
from collections.abc import Mapping
from typing import Any

STREAMS, PLACES = "streams", "places"


class ByStreams:
    """An autoscaling policy of Ray Serve. share: of the places of all replicas, that are to be taken at most."""

    def __init__(self, share: float = 0.7) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share {share}: it must be above 0, and 1 at most")
        self._share = share

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        told: Mapping[str, Mapping[Any, float]] = context.aggregated_metrics or {}
        streams, places = told.get(STREAMS, {}), told.get(PLACES, {})
        wanted = replicas(list(streams.values()), list(places.values()), self._share, context.target_num_replicas)
        most, least = context.capacity_adjusted_max_replicas, context.capacity_adjusted_min_replicas
        return min(most, max(least, wanted)), {}


def replicas(streams: list[float], places: list[float], share: float, now: int) -> int:
    """streams, places: of each replica that has told. now: how many there are to be so far, which stays while none has
    told of a place: that of a unit whose engine is being started."""
    known = [each for each in places if each > 0]
    if not known:
        return now
    return math.ceil(sum(streams) / (share * sum(known) / len(known)))
