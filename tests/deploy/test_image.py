"""The image as it is run: by nobody, with a root that cannot be written to, without a capability or a way out."""

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.deploy.conftest import Image

pytestmark = pytest.mark.deploy

PATIENCE_S = 300
GRACE_S = 60
LIMIT = "4096:4096"
"""Of files and processes: one that every machine may set."""


def podman(*arguments: str) -> subprocess.CompletedProcess[str]:
    # runc knows control groups of both versions and their mixture.
    return subprocess.run(["podman", "--runtime", "runc", *arguments], capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Container:
    name: str

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run `command` in it, as its user."""
        return podman("exec", self.name, *command)

    def told(self) -> str:
        logs = podman("logs", self.name)
        return logs.stdout + logs.stderr


@pytest.fixture(scope="module")
def container(image: Image) -> Iterator[Container]:
    """A service that takes calls."""
    limits = ["--ulimit", f"nofile={LIMIT}", "--ulimit", f"nproc={LIMIT}"]
    given = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    started = podman("run", "--detach", *limits, *given, "--network", "none", image.name)
    assert started.returncode == 0, started.stderr
    made = Container(started.stdout.strip())
    try:
        until = time.monotonic() + PATIENCE_S
        while (asked := made.run("oscine", "ready")).returncode != 0:
            assert time.monotonic() < until, asked.stderr + made.told()
            time.sleep(1)
        yield made
    finally:
        podman("rm", "--force", "--time", "5", made.name)


def test_its_health_check_says_that_it_is_well(container: Container) -> None:
    assert podman("healthcheck", "run", container.name).returncode == 0


def test_it_speaks_over_grpc(container: Container, tmp_path: Path) -> None:
    said = container.run("oscine", "say", "--server", "127.0.0.1", "Good morning to all.", "-o", "/tmp/said.wav")
    assert said.returncode == 0, said.stderr
    heard = tmp_path / "said.wav"
    copied = subprocess.run(
        ["podman", "--runtime", "runc", "exec", container.name, "cat", "/tmp/said.wav"], capture_output=True, check=True
    )
    heard.write_bytes(copied.stdout)
    samples, rate = soundfile.read(heard)
    assert rate == 24000 and len(samples) > rate / 2 and np.abs(samples).max() > 0.05


def test_it_may_do_nothing_else(container: Container) -> None:
    status = container.run("cat", "/proc/1/status").stdout
    assert "Uid:\t10001\t10001\t10001\t10001" in status
    assert "CapEff:\t0000000000000000" in status and "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    refused = container.run("sh", "-c", "echo > /opt/oscine/x || echo > /var/lib/oscine/x || echo > /etc/x")
    assert refused.returncode != 0 and refused.stderr.count("Read-only file system") == 3


def test_the_doctor_finds_no_fault(container: Container) -> None:
    """But that the ports are taken, which is by the service itself."""
    found = json.loads(container.run("oscine", "doctor", "--json").stdout)["findings"]
    assert {each["about"] for each in found if each["level"] == "fault"} <= {"ports"}
    assert {"opus", "memory", "sockets"} <= {each["about"] for each in found if each["level"] == "good"}


def test_nothing_is_in_it_that_only_builds_or_tests(container: Container) -> None:
    for tool in ("cc", "gcc", "ld", "make", "pip", "pip3", "git", "curl"):
        assert container.run("sh", "-c", f"command -v {tool}").returncode != 0, tool
    packages = "/opt/oscine/lib/python3*/site-packages"
    for wrong in (
        "-type d -name tests",
        "-type d -name test",
        "-name *.a",
        "-maxdepth 1 -name pip*",
        "-maxdepth 1 -name setuptools*",
        "-maxdepth 1 -name pytest*",
        "-path */torch/include",
    ):
        listed = container.run("sh", "-c", f"set -f; find $(set +f; echo {packages}) {wrong}")
        assert (listed.returncode, listed.stdout) == (0, ""), listed.stderr


def test_nothing_of_the_machine_that_built_it_is_in_it(container: Container) -> None:
    """But places to mount it at, which buildah leaves empty."""
    found = container.run("sh", "-c", "find /etc/pip.conf /run/pip /source -type f -size +0")
    assert found.stdout == ""


def test_it_is_small(image: Image) -> None:
    """torch alone is 0.7 GB."""
    assert image.bytes < 1.5e9


def test_it_ends_well_when_it_is_told_to(container: Container) -> None:
    """The last test of this container."""
    stopped = podman("stop", "--time", str(GRACE_S), container.name)
    assert stopped.returncode == 0, stopped.stderr
    state = json.loads(podman("inspect", container.name).stdout)[0]["State"]
    assert state["ExitCode"] == 0, container.told()
    assert "stopping: running calls may end" in container.told()
