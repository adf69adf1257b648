"""Prometheus as Debian packs it, unpacked beside the tests: what it says of rules, and a server of it."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus"
PROGRAMS = ROOT / ".venv/prometheus/usr/bin"
PATIENCE_S = 240.0
"""Generous: a rule looks at half a minute at most, but engines start on a machine that has other things to do."""
FASTER = 30
"""By so much ranges of rules are shortened, so that five minutes are ten seconds."""


def quickened(rules: str) -> str:
    """Rules that see in seconds what they are written to see in minutes; what they look for stays the same."""
    shorter = re.sub(r"\[(\d+)m\]", lambda found: f"[{int(found[1]) * 60 // FASTER}s]", rules)
    return re.sub(r"\bfor: \w+", "for: 2s", shorter)


@dataclass(frozen=True, slots=True)
class Prometheus:
    address: str

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer. Raises OSError while it does not answer, and where it says no."""
        address = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Mapping[str, Any]]:
        """What an expression has now."""
        return list(self.ask("query", query=expression)["result"])

    def firing(self, name: str) -> list[Mapping[str, str]]:
        """Labels of the alerts of a name that fire."""
        return [
            alert["labels"]
            for alert in self.ask("alerts")["alerts"]
            if alert["labels"]["alertname"] == name and alert["state"] == "firing"
        ]

    async def until(self, name: str, *, fires: bool = True) -> list[Mapping[str, str]]:
        """Raises TimeoutError for an alert that does not get there."""
        async with asyncio.timeout(PATIENCE_S):
            while bool(found := await asyncio.to_thread(self.firing, name)) is not fires:
                await asyncio.sleep(0.3)
        return found

    async def until_seen(self, expression: str) -> None:
        """Wait until an expression has something. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            while not await asyncio.to_thread(self.query, expression):
                await asyncio.sleep(0.3)


@contextmanager
def watching(folder: Path, *targets: str, **scrape: Any) -> Iterator[Prometheus]:
    """One that scrapes `targets` each second, by our rules. scrape: more of the job's configuration."""
    for name in ("recording.yml", "alerts.yml"):
        (folder / name).write_text(quickened((RULES / name).read_text()))
    config = yaml.safe_load((RULES / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"}
    (job,) = config["scrape_configs"]
    job.update(static_configs=[{"targets": list(targets)}], **scrape)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{_free_port()}"
    command = [PROGRAMS / "prometheus", f"--config.file={folder / 'prometheus.yml'}", "--log.level=warn"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("w") as log, subprocess.Popen(command, stderr=log, cwd=folder) as process:
        try:
            started = Prometheus(address)
            _until_ready(started, process, folder)
            yield started
        finally:
            process.terminate()


def _until_ready(started: Prometheus, process: subprocess.Popen[bytes], folder: Path) -> None:
    while process.poll() is None:
        try:
            if started.ask("alerts") is not None:
                return
        except OSError:
            continue
    raise RuntimeError((folder / "prometheus.log").read_text())


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
