"""systemd's units, by systemd's own checks. tests/deploy/test_booted.py runs them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from oscine_service.config.model import SETTINGS
from oscine_service.config.sources import FILE_VARIABLE

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNITS = DEPLOY / "systemd"
FOLLOWER = DEPLOY / "nginx" / "oscine-follow-units.service"
PROGRAMS = (
    "opt/oscine/bin/oscine",
    "usr/bin/nvidia-cuda-mps-control",
    "bin/sh",
    "usr/local/bin/follow_units.py",
)
"""What the units start, on a machine that has it."""
OTHERS = {"CUDA_MPS_PIPE_DIRECTORY"}

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here: `make deploy` installs it"
)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A root folder that has the units, and what they start."""
    for name in PROGRAMS:
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    shutil.copytree(UNITS, tmp_path / "etc/systemd/system")
    shutil.copy(FOLLOWER, tmp_path / "etc/systemd/system")
    return tmp_path


def verified(machine: Path) -> str:
    """What is wrong with the units."""
    command = ["systemd-analyze", "verify", f"--root={machine}", "--man=no", "--recursive-errors=no"]
    units = ["oscine@main.service", "oscine-mps.service", "oscine.target", FOLLOWER.name]
    return subprocess.run([*command, *units], capture_output=True, text=True, check=False).stderr


@needs_systemd
def test_systemd_finds_nothing_wrong(machine: Path) -> None:
    assert verified(machine) == ""


@needs_systemd
def test_systemd_would_find_what_is_wrong(machine: Path) -> None:
    unit = machine / "etc/systemd/system/oscine@.service"
    unit.write_text(unit.read_text().replace("ProtectClock=yes", "ProtectClocks=yes"))
    (machine / PROGRAMS[1]).unlink()
    found = verified(machine)
    assert "ProtectClocks" in found and "nvidia-cuda-mps-control" in found


@needs_systemd
@pytest.mark.parametrize(("unit", "most"), [("oscine@.service", 2.0), ("oscine-mps.service", 4.0)])
def test_a_unit_may_do_little(machine: Path, unit: str, most: float) -> None:
    """Of 10, by `systemd-analyze security`: what a service may do without any of these settings is 9.6."""
    threshold = ["--offline=yes", f"--threshold={round(most * 10)}"]
    command = ["systemd-analyze", "security", "--no-pager", *threshold, str(machine / "etc/systemd/system" / unit)]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout + judged.stderr


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd is not here: `make deploy` installs it")
def test_the_user_and_the_folder_are_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for tool, name in (("systemd-sysusers", "sysusers"), ("systemd-tmpfiles", "tmpfiles")):
        options = ["--create"] if name == "tmpfiles" else []
        made = [tool, f"--root={tmp_path}", *options, str(UNITS / f"oscine.{name}")]
        told = subprocess.run(made, capture_output=True, text=True, check=False)
        if told.returncode and "Operation not permitted" in told.stderr:
            pytest.skip("only root may give a folder away")
        assert told.returncode == 0, told.stderr
    users = (tmp_path / "etc/passwd").read_text().splitlines()
    assert any(user.startswith("oscine:") and user.endswith(":/var/lib/oscine:/usr/sbin/nologin") for user in users)
    assert (tmp_path / "etc/oscine").stat().st_mode & 0o777 == 0o750


def test_every_setting_in_the_environment_file_is_one() -> None:
    lines = [line.lstrip("#") for line in (UNITS / "main.env").read_text().splitlines()]
    named = {line.partition("=")[0] for line in lines if "=" in line and " " not in line.partition("=")[0]}
    assert named - OTHERS <= {FILE_VARIABLE, *(setting.variable for setting in SETTINGS.values())}
    assert {"OSCINE_DEVICE", "OSCINE_GRACE"} <= named


def test_a_service_is_killed_later_than_its_calls_are_cut_off() -> None:
    unit, environment = (UNITS / "oscine@.service").read_text(), (UNITS / "main.env").read_text()
    stop = next(line for line in unit.splitlines() if line.startswith("TimeoutStopSec="))
    grace = next(line for line in environment.splitlines() if line.startswith("OSCINE_GRACE="))
    assert int(stop.partition("=")[2]) >= int(grace.partition("=")[2]) + 10
