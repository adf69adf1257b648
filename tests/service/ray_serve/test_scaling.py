"""How many replicas streams ask for."""

from types import SimpleNamespace
from typing import Any

import pytest

from oscine_service.ray_serve.scaling import PLACES, STREAMS, ByStreams, replicas


@pytest.mark.parametrize(
    ("streams", "places", "wanted"),
    [
        ([0.0, 0.0], [4.0, 4.0], 0),
        ([1.0], [4.0], 1),
        ([2.0], [4.0], 1),
        ([3.0], [4.0], 2),  # 3 are more than half of 4
        ([4.0, 4.0], [4.0, 4.0], 4),
        ([4.0], [4.0, 8.0], 2),  # places of one: 6, the mean
        ([3.0, 0.0], [4.0, 0.0], 2),  # one whose engine is being started
    ],
)
def test_as_many_as_keep_half_of_the_places_free(streams: list[float], places: list[float], wanted: int) -> None:
    assert replicas(streams, places, 0.5, now=7) == wanted


def test_nothing_known_changes_nothing() -> None:
    assert replicas([], [], 0.5, now=3) == replicas([0.0], [0.0], 0.5, now=3) == 3


def told(**more: Any) -> SimpleNamespace:
    about = {"target_num_replicas": 3, "capacity_adjusted_min_replicas": 2, "capacity_adjusted_max_replicas": 5}
    return SimpleNamespace(**{**about, **more})


@pytest.mark.parametrize(
    ("streams", "wanted"), [({"a": 0.0}, 2), ({"a": 4.0, "b": 3.0}, 4), ({"a": 40.0}, 5)], ids=["few", "some", "many"]
)
def test_the_policy_stays_within_the_bounds_of_the_deployment(streams: dict[str, float], wanted: int) -> None:
    metrics = {STREAMS: streams, PLACES: dict.fromkeys(streams, 4.0)}
    assert ByStreams(0.5)(told(aggregated_metrics=metrics)) == (wanted, {})


def test_the_policy_keeps_what_there_is_until_somebody_tells() -> None:
    assert ByStreams()(told(aggregated_metrics=None)) == (3, {})


@pytest.mark.parametrize("share", [0.0, -1.0, 1.1])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        ByStreams(share)
