"""Two units as replicas of a real Ray Serve; what is looked at is measured by bench.ray_serve."""

from typing import Any

import pytest
import yaml

from bench.ray_serve.__main__ import faults, measure
from oscine_service.config.sources import resolve
from oscine_service.ray_serve.scaling import ByStreams
from tests.fleet.environments import MISSING, ROOT, program

DEPLOYED = ROOT / "deploy" / "ray" / "serve.yaml"


def test_what_is_deployed_names_what_there_is() -> None:
    told = yaml.safe_load(DEPLOYED.read_text())
    (application,) = told["applications"]
    (unit,) = application["deployments"]
    policy = unit["autoscaling_config"]["policy"]
    assert policy["policy_function"] == f"{ByStreams.__module__}:{ByStreams.__name__}"
    ByStreams(**policy["policy_kwargs"])
    environment = unit["ray_actor_options"]["runtime_env"]["env_vars"]
    assert all(isinstance(each, str) for each in environment.values())
    resolved = resolve(None, environment)
    assert resolved.warnings == ()
    # So that a unit refuses by itself, and says when to come back.
    assert unit["max_ongoing_requests"] > resolved.settings.engine.max_streams


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    if not program("ray").exists():
        pytest.fail(f"the environment of Ray {MISSING}")
    return measure("proxy", ["alone", "crowded", "scaled", "spoken"], clients=10, seconds=6.0, calls=20)


@pytest.mark.fleet
def test_nothing_is_lost_that_is_not_to_be(run: dict[str, Any]) -> None:
    assert faults(run) == []


@pytest.mark.fleet
def test_all_doors_lead_to_both_replicas(run: dict[str, Any]) -> None:
    assert run["through_ms"].keys() == {"grpc", "websocket", "http"}
    assert all(told["calls"] == 20 for told in run["through_ms"].values())
    assert len(run["shares"]) == 2
    assert min(run["shares"]) > 0
    assert run["split"] == 0


@pytest.mark.fleet
def test_a_replica_that_goes_finishes_what_it_says(run: dict[str, Any]) -> None:
    drained = run["drained"]
    assert drained["speaking"] > 0
    assert drained["lost"] == {}
    assert drained["new"] > 0


@pytest.mark.fleet
def test_a_killed_replica_takes_only_its_own_calls_with_it_and_is_replaced(run: dict[str, Any]) -> None:
    killed = run["killed"]
    assert killed["lost"] == killed["speaking"] > 0
    assert killed["untouched"]["lost"] == {}
    assert killed["two_again_s"] > 0


@pytest.mark.fleet
def test_replicas_are_added_for_streams_and_taken_away_again(run: dict[str, Any]) -> None:
    assert run["scaled"]["failed"] == {}
    assert run["scaled"]["up_s"] > 0


@pytest.mark.fleet
def test_replicas_with_engines_speak_and_refuse_as_a_service_does(run: dict[str, Any]) -> None:
    spoken = run["spoken"]
    assert spoken["deployed"] == "Replica"
    assert spoken["same"]["equal"]
    assert spoken["same"]["bytes"] > 48_000
    assert spoken["refused"]["code"] == "NOT_FOUND"
    assert spoken["refused"]["oscine-code"] == "unknown_voice"
    assert spoken["full"]["code"] == "RESOURCE_EXHAUSTED"
    assert int(spoken["full"]["retry-after-ms"]) > 0
    assert [told["code"] for told in spoken["engine_killed"]["told"]] == ["UNAVAILABLE"] * 2
    assert all("retry-after-ms" in told for told in spoken["engine_killed"]["told"])
    assert spoken["voices"] > 0
