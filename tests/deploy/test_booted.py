"""The units in a system that boots: systemd in a container, with what the image holds, and a network of its own."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.conftest import Image
from tests.deploy.test_units import UNITS

pytestmark = pytest.mark.deploy

PATIENCE_S = 300
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PLACES = {
    "oscine@.service": "etc/systemd/system",
    "oscine.target": "etc/systemd/system",
    "oscine-mps.service": "etc/systemd/system",
    "oscine.sysusers": "etc/sysusers.d/oscine.conf",
    "oscine.tmpfiles": "etc/tmpfiles.d/oscine.conf",
    "main.env": "etc/oscine/main.env",
}


@dataclass(frozen=True)
class System:
    """leader: the process here that is number 1 there."""

    leader: int

    def run(self, *command: str, patience_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Run `command` in it, as root."""
        inside = ["nsenter", f"--target={self.leader}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        environment = {"PATH": PATH, "LANG": "C"}
        return subprocess.run(
            [*inside, *command], capture_output=True, text=True, timeout=patience_s, check=False, env=environment
        )

    def shown(self, name: str) -> str:
        """A property of the service."""
        return self.run("systemctl", "show", "--value", f"--property={name}", "oscine@main").stdout.strip()

    def told(self) -> str:
        return self.run("journalctl", "--no-pager", "--unit=oscine@main", "--lines=50").stdout


def buildah(*arguments: str) -> str:
    return subprocess.run(["buildah", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@contextmanager
def root(image: Image) -> Iterator[Path]:
    """A folder with what is in the image, systemd, and our units."""
    container = buildah("from", "--pull=never", image.name)
    try:
        install = "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends"
        step = ["run", "--isolation", "chroot", "--user", "root", container, "--", "sh", "-c"]
        buildah(
            *step, f"export PATH={PATH} && userdel oscine && {install} systemd systemd-sysv dbus procps >/dev/null 2>&1"
        )
        folder = Path(buildah("mount", container))
        for name, place in PLACES.items():
            target = folder / place / name if place.endswith("system") else folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(UNITS / name, target)
        yield folder
    finally:
        buildah("rm", container)


def booted(process: "subprocess.Popen[bytes]") -> System:
    """Its number 1 is a child of systemd-nspawn, and not the first."""
    until = time.monotonic() + PATIENCE_S
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while True:
        assert process.poll() is None and time.monotonic() < until
        for child in children.read_text().split():
            system = System(int(child))
            if system.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"):
                return system
        time.sleep(0.5)


@pytest.fixture(scope="module")
def system(image: Image) -> Iterator[System]:
    """It has booted."""
    with root(image) as folder:
        command = ["systemd-nspawn", f"--directory={folder}", "--register=no", "--keep-unit", "--private-network"]
        with subprocess.Popen(
            [*command, "--console=pipe", "--boot"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ) as process:
            try:
                yield booted(process)
            finally:
                process.terminate()  # powers it off
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()


def test_starting_ends_when_calls_are_taken(system: System) -> None:
    started = system.run("systemctl", "start", "oscine@main")
    assert started.returncode == 0, started.stderr + system.told()
    assert system.run("/opt/oscine/bin/oscine", "ready").stdout == "ready\n"
    assert system.shown("StatusText") == "serving on 127.0.0.1:50051"
    said = system.run("/opt/oscine/bin/oscine", "say", "--server", "127.0.0.1", "It speaks.", "-o", "/tmp/said.wav")
    assert said.returncode == 0, said.stderr + system.told()


def test_it_is_confined(system: System) -> None:
    main = system.shown("MainPID")
    status = system.run("cat", f"/proc/{main}/status").stdout
    user = system.run("id", "-u", "oscine").stdout.strip()
    assert f"Uid:\t{user}\t{user}\t{user}\t{user}" in status and user != "0"
    assert "CapBnd:\t0000000000000000" in status and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status


def test_an_engine_that_is_killed_is_replaced_and_the_service_stays(system: System) -> None:
    main = system.shown("MainPID")
    engines = system.run("pgrep", "--parent", main, "--full", "oscine_service.unit").stdout.split()
    assert len(engines) == 1
    system.run("kill", "-KILL", engines[0])
    until = time.monotonic() + PATIENCE_S
    while system.run("pgrep", "--parent", main, "--full", "oscine_service.unit").stdout.split() in (engines, []):
        assert time.monotonic() < until
        time.sleep(0.5)
    while system.run("/opt/oscine/bin/oscine", "ready").returncode:
        assert time.monotonic() < until, system.told()
        time.sleep(0.5)
    assert system.shown("MainPID") == main and system.shown("NRestarts") == "0"


def test_a_service_that_is_killed_is_started_again(system: System) -> None:
    main = int(system.shown("MainPID"))
    system.run("kill", "-KILL", str(main))
    until = time.monotonic() + PATIENCE_S
    while (system.shown("ActiveState"), system.shown("NRestarts")) != ("active", "1"):
        assert time.monotonic() < until, system.told()
        time.sleep(0.5)
    assert system.shown("MainPID") != str(main)


def test_stopping_lets_it_end(system: System) -> None:
    """The last test of this system."""
    stopped = system.run("systemctl", "stop", "oscine.target", "oscine@main")
    assert stopped.returncode == 0, stopped.stderr
    assert system.shown("Result") == "success" and system.shown("ActiveState") == "inactive"
    assert "stopping: running calls may end" in system.told()


def test_a_wrong_setting_is_not_tried_again(system: System) -> None:
    system.run("sh", "-c", "echo OSCINE_PORT=many >> /etc/oscine/main.env")
    assert system.run("systemctl", "start", "oscine@main").returncode != 0
    assert system.shown("ActiveState") == "failed" and system.shown("ExecMainStatus") == "2"
    assert "OSCINE_PORT" in system.told()
