"""The cluster's files, as kubectl renders them, against Kubernetes' schemas and against the service that they start."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate

from oscine_service.config.sources import resolve
from oscine_service.grpc.server import LIVENESS, READINESS
from oscine_service.observe.engine_metrics import EngineCollector, EngineState
from tests.service.unit.test_figures_wire import FIGURES

HERE = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ("cpu", "gpu")
VERSIONS = ("1.30", "1.34", "1.37")
"""1.30 is the first where a pause before the end needs no command in the container."""

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not here, which renders deploy/kubernetes; install it"
)


@cache
def rendered(folder: Path) -> tuple[dict[str, Any], ...]:
    told = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=True).stdout
    return tuple(yaml.safe_load_all(told))


def one(overlay: str, kind: str) -> dict[str, Any]:
    (found,) = [each for each in rendered(HERE / "overlays" / overlay) if each["kind"] == kind]
    return found


def pod(overlay: str) -> dict[str, Any]:
    template: dict[str, Any] = one(overlay, "Deployment")["spec"]["template"]
    return template


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_applied_is_what_kubernetes_takes(overlay: str, version: str) -> None:
    objects = rendered(HERE / "overlays" / overlay)
    assert len(objects) == 8
    for each in objects:
        validate(each, version, strict=True)


def test_a_field_that_is_none_is_found() -> None:
    with pytest.raises(Exception, match="terminationGrace"):
        validate(one("cpu", "Deployment") | {"spec": {"terminationGrace": 1}}, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_settings_are_the_services_own_and_files_they_name_are_mounted(overlay: str) -> None:
    told = one(overlay, "ConfigMap")["data"]
    resolved = resolve(None, told)
    assert resolved.warnings == ()
    (container,) = pod(overlay)["spec"]["containers"]
    mounted = [Path(each["mountPath"]) for each in container["volumeMounts"]]
    settings = resolved.settings
    for file in (settings.security.keys, settings.security.token_secret, settings.engine.model):
        assert file is None or any(file.is_relative_to(folder) for folder in mounted)
    assert [each["containerPort"] for each in container["ports"]] == [settings.server.port, settings.server.http_port]
    assert {each["name"] for each in pod(overlay)["spec"]["volumes"]} == {
        each["name"] for each in container["volumeMounts"]
    }
    assert (settings.engine.device == ("cuda",)) == ("nvidia.com/gpu" in container["resources"]["limits"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_unit_that_goes_has_time_to_finish_what_it_says(overlay: str) -> None:
    spec = pod(overlay)["spec"]
    grace = resolve(None, one(overlay, "ConfigMap")["data"]).settings.server.grace
    pause = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] >= pause + grace + 10


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_probes_ask_what_the_service_answers(overlay: str) -> None:
    (container,) = pod(overlay)["spec"]["containers"]
    asked = {name: container[name]["grpc"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    port = container["ports"][0]["containerPort"]
    assert {name: each["service"] for name, each in asked.items()} == {
        "startupProbe": LIVENESS,
        "livenessProbe": LIVENESS,
        "readinessProbe": READINESS,
    }
    assert {each["port"] for each in asked.values()} == {port}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_of_a_pod_is_more_than_it_needs(overlay: str) -> None:
    spec = pod(overlay)["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["image"] in ("oscine:cpu", "oscine:cuda")
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_all_that_select_pods_select_these(overlay: str) -> None:
    objects = rendered(HERE / "overlays" / overlay)
    labels = pod(overlay)["metadata"]["labels"]
    selectors = [each["spec"].get("selector") or each["spec"].get("podSelector") for each in objects if "spec" in each]
    found = [each.get("matchLabels", each) for each in selectors if each]
    assert len(found) == 5  # deployment, two services, disruption budget, network policy
    assert all(each == labels for each in found)


def test_what_the_autoscaler_goes_by_is_told_and_is_of_metrics_that_there_are() -> None:
    (rule,) = yaml.safe_load((HERE / "prometheus-adapter.yaml").read_text())["rules"]["custom"]
    for overlay in OVERLAYS:
        (metric,) = one(overlay, "HorizontalPodAutoscaler")["spec"]["metrics"]
        assert metric["pods"]["metric"]["name"] == rule["name"]["as"]
    asked = set(re.findall(r"\boscine_\w+", rule["seriesQuery"] + rule["metricsQuery"]))
    told = {each.name for each in EngineCollector(lambda: [EngineState(True, 0, FIGURES, 2, 1)]).collect()}
    assert asked == {"oscine_engine_streams", "oscine_engine_places"} <= told


def test_shared_voices_add_a_bucket_and_the_way_to_it(tmp_path: Path) -> None:
    shutil.copytree(HERE, tmp_path / "kubernetes")
    file = tmp_path / "kubernetes" / "overlays" / "cpu" / "kustomization.yaml"
    file.write_text(file.read_text().replace("# components:", "components:"))
    objects = {each["kind"]: each for each in rendered(file.parent)}
    for each in objects.values():
        validate(each, VERSIONS[-1], strict=True)
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"][-1] == {"secretRef": {"name": "oscine-bucket"}}
    told = objects["ConfigMap"]["data"] | {"OSCINE_VOICES": "s3://bucket/voices"}
    settings = resolve(None, told).settings.engine
    mounted = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]
    assert any(Path(str(settings.voices_copy)).is_relative_to(folder) for folder in mounted)
    ports = [port["port"] for rule in objects["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]]
    assert 443 in ports
