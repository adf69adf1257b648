"""The rules as they are shipped, by Prometheus's own checker."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.operating.prometheus import PROGRAMS, RULES, quickened

pytestmark = pytest.mark.operating
CASES = Path(__file__).with_name("rules_test.yml")


def promtool(*arguments: str) -> None:
    done = subprocess.run((PROGRAMS / "promtool", *arguments), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def alerts() -> set[str]:
    groups = yaml.safe_load((RULES / "alerts.yml").read_text())["groups"]
    return {rule["alert"] for group in groups for rule in group["rules"]}


def test_they_can_be_loaded_with_the_configuration() -> None:
    promtool("check", "config", str(RULES / "prometheus.yml"))


def test_they_fire_when_they_should_and_not_before() -> None:
    promtool("test", "rules", str(CASES))


def test_each_alert_is_tried_both_ways() -> None:
    cases = [case for each in yaml.safe_load(CASES.read_text())["tests"] for case in each["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == alerts()
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == alerts()


def test_only_time_is_shortened() -> None:
    shipped, quick = (RULES / "alerts.yml").read_text(), quickened((RULES / "alerts.yml").read_text())
    assert "[30s]" in quick and "[15m]" not in quick and "for: 2s" in quick
    assert len(shipped.splitlines()) == len(quick.splitlines())
