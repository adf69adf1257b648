"""The compose files: by the specification's schema, and that what they name is there."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from oscine_service.config.model import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "compose"
FILES = ("compose.yaml", "cuda.yaml")
SCHEMA = ROOT / ".venv/deploy/compose/usr/lib/python3/dist-packages/compose/config/compose_spec.json"
"""Of Debian's docker-compose, which `make deploy` unpacks."""


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


@pytest.mark.deploy
@pytest.mark.parametrize("name", FILES)
def test_the_schema_takes_it(name: str) -> None:
    schema = json.loads(SCHEMA.read_text())
    checker = jsonschema.Draft201909Validator(schema)
    # The schema is older than the one key that names a project.
    checker.validate({key: value for key, value in read(name).items() if key != "name"})
    with pytest.raises(jsonschema.ValidationError):
        checker.validate({"services": {"oscine": {"read_only": "perhaps", "ports": 8080}}})


@pytest.mark.parametrize("name", FILES)
def test_images_are_built_from_stages_that_there_are(name: str) -> None:
    stages = set(re.findall(r"^FROM .* AS (\S+)$", (ROOT / "deploy/container/Containerfile").read_text(), re.MULTILINE))
    service = read(name)["services"]["oscine"]
    assert service["build"]["target"] in stages
    assert service["image"] == f"oscine:{service['build']['target']}"


def test_what_is_mounted_is_there() -> None:
    """Volumes are declared, and folders exist."""
    held = read("compose.yaml")
    for name, service in held["services"].items():
        for mount in service["volumes"]:
            source = mount.partition(":")[0]
            assert source in held["volumes"] or (FOLDER / source).resolve().is_dir(), (name, mount)
    build = held["services"]["oscine"]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).is_file()


@pytest.mark.parametrize("name", FILES)
def test_every_setting_is_one(name: str) -> None:
    known = {setting.variable for setting in SETTINGS.values()}
    assert set(read(name)["services"]["oscine"]["environment"]) <= known


def test_only_this_machine_reaches_it_and_nobody_may_do_more_than_it_needs() -> None:
    for name, service in read("compose.yaml")["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_prometheus_looks_where_the_service_is() -> None:
    services = read("compose.yaml")["services"]
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["scrape_configs"]
    targets = {target for job in scraped for each in job["static_configs"] for target in each["targets"]}
    assert targets == {"oscine:8080"}
    assert "127.0.0.1:8080:8080" in services["oscine"]["ports"]


def test_a_service_is_killed_later_than_its_calls_are_cut_off() -> None:
    service = read("compose.yaml")["services"]["oscine"]
    assert int(service["stop_grace_period"].removesuffix("s")) >= int(service["environment"]["OSCINE_GRACE"]) + 10
