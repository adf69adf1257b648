"""Dashboards of Grafana, read from their files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.operating.prometheus import ROOT

DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))


def panels(path: Path) -> Iterator[dict[str, Any]]:
    """Those that show something."""
    for panel in json.loads(path.read_text())["panels"]:
        if panel["type"] != "row":
            yield panel


def expressions(path: Path) -> list[tuple[str, str]]:
    """What its panels and variables ask Prometheus for, for all services at all times, by their names."""
    found = [(panel["title"], target["expr"]) for panel in panels(path) for target in panel["targets"]]
    variables = json.loads(path.read_text())["templating"]["list"]
    found += [(each["name"], each["query"]["query"]) for each in variables if each["type"] == "query"]
    return [(name, _filled(each)) for name, each in found]


def _filled(expression: str) -> str:
    """As Grafana fills in its variables where all is chosen."""
    if expression.startswith("label_values("):
        expression = expression.removeprefix("label_values(").rpartition(",")[0]
    return expression.replace("$__rate_interval", "30s").replace('"$instance"', '".*"')
