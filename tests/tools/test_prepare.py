"""tools/prepare.sh where something is missing; apt-get and id are stand-ins: a test must not change the system."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "prepare.sh"


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A PATH with only what the script needs; each test adds the rest."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "env"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    return folder


def prepare(bin_folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(bin_folder), **variables}
    command = ["/bin/sh", str(SCRIPT), *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def test_root_gets_libopus_through_apt(bin_folder: Path, tmp_path: Path) -> None:
    without_opus = program(bin_folder, "python-without-opus", "exit 1")
    program(bin_folder, "id", "echo 0")
    program(bin_folder, "apt-get", f'echo "$@" >> {tmp_path}/apt.log')
    result = prepare(bin_folder, "opus", PYTHON=str(without_opus))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "apt.log").read_text().splitlines() == [
        "-qq update",
        "-qq install -y --no-install-recommends libopus0",
    ]


def test_a_user_without_rights_is_told_what_to_type(bin_folder: Path) -> None:
    without_opus = program(bin_folder, "python-without-opus", "exit 1")
    program(bin_folder, "id", "echo 1000")
    program(bin_folder, "apt-get", "exit 100")
    result = prepare(bin_folder, "opus", PYTHON=str(without_opus))
    assert result.returncode == 1
    assert "apt-get install -y libopus0' as root" in result.stderr


def test_a_failing_apt_stops_everything(bin_folder: Path) -> None:
    without_opus = program(bin_folder, "python-without-opus", "exit 1")
    program(bin_folder, "id", "echo 0")
    program(bin_folder, "apt-get", "exit 100")
    assert prepare(bin_folder, "opus", PYTHON=str(without_opus)).returncode != 0


def test_a_system_without_apt_is_told_what_is_missing(bin_folder: Path) -> None:
    without_opus = program(bin_folder, "python-without-opus", "exit 1")
    result = prepare(bin_folder, "opus", PYTHON=str(without_opus))
    assert result.returncode == 1
    assert "missing: libopus0" in result.stderr


def test_an_old_python_is_refused_by_version(bin_folder: Path, tmp_path: Path) -> None:
    old = 'if [ "$1" = --version ]; then echo Python 3.9.2; else exit 1; fi'
    program(bin_folder, "python3", old)
    result = prepare(bin_folder, "venv", str(tmp_path / "venv"))
    assert result.returncode == 1
    assert "needs Python 3.11 or newer, found Python 3.9.2" in result.stderr


def test_a_newer_python_beside_an_old_one_is_found(bin_folder: Path, tmp_path: Path) -> None:
    program(bin_folder, "python3", "exit 1")
    # The real interpreter, minus the seconds that installing pip takes.
    without_pip = 'case "$*" in "-m venv "*) shift 2; set -- -m venv --without-pip "$@";; esac'
    program(bin_folder, "python3.12", f'{without_pip}\nexec {sys.executable} "$@"')
    result = prepare(bin_folder, "venv", str(tmp_path / "venv"))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "venv" / "bin" / "python").exists()
    assert "keeping" in prepare(bin_folder, "venv", str(tmp_path / "venv")).stderr


def test_usage(bin_folder: Path) -> None:
    result = prepare(bin_folder, "something")
    assert result.returncode == 1
    assert "usage" in result.stderr
