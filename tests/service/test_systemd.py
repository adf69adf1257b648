"""What a service manager is told, by a socket as systemd has it, and what `oscine ready` says of the same service."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oscine_engine.errors import InvalidInput
from oscine_service.cli import ready
from oscine_service.cli.ready import NotReady
from oscine_service.config.model import Server, Settings
from oscine_service.systemd import Manager
from tests.service.commands import Command

COMMAND = (sys.executable, "-c", "import sys; from oscine_service.cli import main; sys.exit(main())")
PATIENCE_S = 120


@pytest.fixture
def told(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(PATIENCE_S)
        yield listening


def until(told: socket.socket, beginning: str) -> list[str]:
    """What comes, up to what begins so."""
    heard = [told.recv(4096).decode()]
    while not heard[-1].startswith(beginning):
        heard.append(told.recv(4096).decode())
    return heard


def asked(port: int, **more: object) -> Settings:
    return replace(Settings(), server=Server(http_port=port, **more))  # type: ignore[arg-type]


def test_a_service_tells_when_it_is_ready_that_it_lives_and_when_it_stops(
    model: Path, tmp_path: Path, told: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
    command = (*COMMAND, "serve", "--in-process", "--model", str(model), "--port", "0", "--http-port", "0")
    with Command(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert until(told, "READY")[-1].startswith("READY=1\nSTATUS=serving on 127.0.0.1:")
        assert process.stdout.readline().startswith("serving on")
        port = int(process.stdout.readline().rpartition(":")[2])
        assert until(told, "WATCHDOG")[-1] == "WATCHDOG=1"
        asyncio.run(ready.ready(asked(port)))
        assert capsys.readouterr().out == "ready\n"
        process.send_signal(signal.SIGTERM)
        until(told, "STOPPING=1")
        assert process.wait(PATIENCE_S) == 0
    with pytest.raises(NotReady, match=f"nobody answers at 127.0.0.1:{port}"):
        asyncio.run(ready.ready(asked(port, host="0.0.0.0")))


def test_what_cannot_be_asked_is_said() -> None:
    with pytest.raises(InvalidInput, match="--http-port 0 is any port"):
        asyncio.run(ready.ready(asked(0)))


def test_nobody_is_told_where_nobody_asks() -> None:
    assert Manager.of({}) == Manager()
    assert Manager.of({"NOTIFY_SOCKET": "vsock:2:1", "WATCHDOG_USEC": "1"}) == Manager()
    Manager().ready("in silence")


def test_who_asks_is_taken_from_the_environment() -> None:
    environment = {"NOTIFY_SOCKET": "@some", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1", "HOME": "/"}
    assert Manager.of(environment) == Manager("\0some", None)  # another process is watched
    assert environment == {"HOME": "/"}
    assert Manager.of({"NOTIFY_SOCKET": "/run/some", "WATCHDOG_USEC": "30000000"}) == Manager("/run/some", 30.0)


def test_a_manager_that_is_gone_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Manager(str(tmp_path / "none")).ready("to nobody")
    assert "the service manager was not told" in caplog.text
