"""What a service manager is told, by a socket as systemd has it, and what `oscine ready` says of the same service."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import trustme

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.errors import InvalidInput
from oscine_service.cli import ready
from oscine_service.cli.ready import NotReady
from oscine_service.config.model import Security, Server, Settings
from oscine_service.systemd import Manager
from tests.service.commands import Command
from tests.service.conftest import running

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


async def test_without_http_it_is_asked_over_grpc(checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(checkpoint) as service:
        settings = replace(Settings(), server=Server(port=int(service.address.rpartition(":")[2]), http_port=None))
        await ready.ready(settings)
    assert capsys.readouterr().out == "ready\n"
    with pytest.raises(NotReady, match="nobody answers"):
        await ready.ready(settings)


class Stopping(BaseHTTPRequestHandler):
    """What /readyz of a service says that stops."""

    def do_GET(self) -> None:
        self.send_response(503 if self.path == "/readyz" else 404)
        self.end_headers()
        self.wfile.write(b'{"status":"stopping"}')

    def log_message(self, *given: object) -> None:
        pass


def test_over_tls_it_need_not_be_called_by_its_name(tmp_path: Path) -> None:
    own = trustme.CA().issue_cert("speech.example.com")
    own.private_key_pem.write_to_path(tmp_path / "key")
    own.cert_chain_pems[0].write_to_path(tmp_path / "cert")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.configure_cert(context)
    with HTTPServer(("127.0.0.1", 0), Stopping) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        settings = replace(
            asked(server.server_port), security=Security(tls_cert=tmp_path / "cert", tls_key=tmp_path / "key")
        )
        with pytest.raises(NotReady, match="takes no calls: stopping"):
            asyncio.run(ready.ready(settings))
        server.shutdown()
    unasked = replace(settings, server=Server(http_port=None))
    with pytest.raises(InvalidInput, match="HTTP port, which is turned off"):
        asyncio.run(ready.ready(unasked))


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
