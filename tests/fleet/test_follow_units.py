"""deploy/nginx/follow_units.py: which units nginx is told to send calls to."""

import importlib.util
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
import trustme

FOLDER = Path(__file__).parents[2] / "deploy" / "nginx"
SCRIPT = FOLDER / "follow_units.py"
UNITS = "one 10.0.0.1:50051 10.0.0.1:8080\ntwo 10.0.0.2:50051 10.0.0.2:8080 # the old machine\n"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("follow_units", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def test_the_files_that_are_shipped_say_what_the_script_would_write(script: ModuleType) -> None:
    units = script.parse((FOLDER / "oscine" / "units").read_text())
    for door in ("grpc", "http"):
        shipped = (FOLDER / "oscine" / f"units-{door}.conf").read_text().splitlines()
        written = script.servers(units, units, door).splitlines()
        assert [line for line in shipped if line[0] != "#"] == [line.partition(" #")[0] for line in written[1:]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no units"),
        ("# one a:1 a:2\n", "no units"),
        ("one 10.0.0.1:50051\n", "line 1: write NAME"),
        ("one a:1 a:2 gone\n", "line 1: write NAME"),
        ("one a:1 a\n", "line 1: a is not HOST:PORT"),
        ("one a:1 a:2;\n", "line 1: a:2; is not HOST:PORT"),
        ("one a:1 a:2\n\none b:1 b:2\n", "line 3: there are two"),
    ],
)
def test_a_file_that_says_nothing_is_refused_with_the_line(script: ModuleType, text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        script.parse(text)


@pytest.mark.parametrize(
    ("draining", "ready", "taking"),
    [
        ("", "ab", "ab"),
        ("", "a", "a"),
        ("", "", "ab"),
        ("a", "ab", "b"),
        ("a", "a", "b"),
        ("ab", "ab", "ab"),
        ("ab", "b", "b"),
    ],
)
def test_somebody_always_takes_calls(script: ModuleType, draining: str, ready: str, taking: str) -> None:
    units = [script.Unit(name, f"{name}:1", f"{name}:2", name in draining) for name in "ab"]
    chosen = script.chosen(units, {name: name in ready for name in "ab"})
    assert [unit.name for unit in chosen] == list(taking)


def test_a_no_counts_at_once_and_silence_after_three_times(script: ModuleType) -> None:
    readiness = script.Readiness()
    assert readiness.of("a")

    def heard(*answers: bool | None) -> bool:
        for answer in answers:
            readiness.hear("a", answer)
        return bool(readiness.of("a"))

    assert not heard(False) and heard(True)
    assert heard(None, None) and not heard(None)
    assert heard(True, None, None, True, None, None)
    assert not heard(False, None)


@contextmanager
def answering(status: int, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Something that says so of itself, at an address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def follow(folder: Path, reload: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(folder), "--once", "--reload", reload, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_units_are_asked_and_nginx_is_told(tmp_path: Path) -> None:
    reload = f"touch {tmp_path / 'reloaded'}"
    with answering(200) as well, answering(503) as stopping:
        lines = [f"{name} 127.0.0.1:1 {http}" for name, http in (("well", well), ("stops", stopping))]
        (tmp_path / "units").write_text("\n".join([*lines, "gone 127.0.0.1:2 127.0.0.1:2"]))
        done = follow(tmp_path, reload)
    assert (done.returncode, done.stdout, done.stderr) == (0, "new calls go to well\n", "")
    assert (tmp_path / "reloaded").exists()
    told = [line for line in (tmp_path / "units-http.conf").read_text().splitlines() if line[0] != "#"]
    assert [" down;" in line for line in told] == [False, True, True]
    assert f"server {well} max_fails=1" in told[0]
    assert (tmp_path / "units-grpc.conf").read_text().count("down") == 2


def test_units_with_certificates_are_asked_over_tls(tmp_path: Path) -> None:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with answering(200, tls) as well:
        (tmp_path / "units").write_text(f"well 127.0.0.1:1 {well}\ngone 127.0.0.1:2 127.0.0.1:2\n")
        assert follow(tmp_path, "true", "--ca", str(tmp_path / "ca.pem")).stdout == "new calls go to well\n"
        assert follow(tmp_path, "true").stdout == "no unit says that it is ready; new calls go to well, gone\n"
    wrong = follow(tmp_path, "true", "--ca", "absent.pem")
    assert wrong.returncode == 1 and wrong.stderr.startswith("follow_units: --ca absent.pem: ")


def test_what_is_wrong_is_told_in_a_line(tmp_path: Path) -> None:
    absent = follow(tmp_path, "true")
    assert absent.returncode == 1 and "No such file" in absent.stderr and absent.stderr.count("\n") == 1
    (tmp_path / "units").write_text(UNITS.replace("10.0.0.1:8080", "here"))
    wrong = follow(tmp_path, "true")
    assert wrong.returncode == 1 and "here is not HOST:PORT" in wrong.stderr
    (tmp_path / "units").write_text("gone 127.0.0.1:2 127.0.0.1:2")
    failed = follow(tmp_path, "false")
    assert failed.returncode == 0 and "nginx was not reloaded" in failed.stderr


def test_what_stays_wrong_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "units").write_text("gone 127.0.0.1:2 127.0.0.1:2")
    command = [sys.executable, str(SCRIPT), str(tmp_path), "--every", "0.02", "--reload", "false"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
        assert (
            following.stdout is not None
            and following.stdout.readline() == "no unit says that it is ready; new calls go to gone\n"
        )
        (tmp_path / "units").write_text("gone")
        time.sleep(0.5)
        following.terminate()
        told = following.communicate(timeout=60)[1].splitlines()
    assert ["not reloaded" in line for line in told] == [True, False] and "the units before count on" in told[1]
