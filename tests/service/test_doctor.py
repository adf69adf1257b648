"""`oscine doctor`: what it finds on this machine, and on ones that are not well."""

import asyncio
import datetime
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trustme

from oscine_engine.front import Front, VoiceInfo, read_front_end
from oscine_service.cli.doctor import line
from oscine_service.cli.main import main
from oscine_service.config.model import Engine, Security, Server, Settings
from oscine_service.conversation import Calls
from oscine_service.doctor import machine, service, speaking
from oscine_service.doctor.finding import Finding, Level, fault, good
from oscine_service.grpc.server import serving as grpc_serving
from oscine_service.http.app import application
from oscine_service.http.server import serving as http_serving
from oscine_service.limits import Limits
from oscine_service.observe.memory import Memory
from oscine_service.security import keys, tls
from oscine_service.security.keys import Key
from oscine_service.security.tls import Files
from tests.engine.ports import HandPort

OK = Settings()


@dataclass(frozen=True)
class Told:
    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    def run(*arguments: str) -> Told:
        status = main(["doctor", "--port", "0", "--http-port", "0", *arguments])
        said = capsys.readouterr()
        return Told(status, said.out, said.err)

    return run


def levels(found: Iterator[Finding], about: str = "") -> list[Level]:
    return [finding.level for finding in found if about in ("", finding.about)]


def mends(found: Iterator[Finding]) -> str:
    """What is to be done about whatever is not good, which must be something."""
    wrong = [finding for finding in found if finding.level is not Level.GOOD]
    assert wrong and all(finding.mend for finding in wrong)
    return "\n".join(f"{finding.what} -> {finding.mend}" for finding in wrong)


def test_this_machine_can_run_the_service(run: Callable[..., Told], model: Path) -> None:
    told = run("--json", "--model", str(model))
    found = json.loads(told.out)
    assert (told.status, told.err) == (0, "") and found["well"], told
    about = {each["about"] for each in found["findings"]}
    assert {"settings", "python", "opus", "cpu", "memory", "sockets", "torch", "model", "ports"} <= about


@pytest.mark.slow
def test_this_machine_speaks(run: Callable[..., Told], model: Path) -> None:
    *_, speech = json.loads(run("--json", "--model", str(model), "--speak").out)["findings"]
    # How fast is up to what else runs here.
    assert speech["about"] == "speech" and "first sound after" in speech["what"]


def test_an_engine_that_cannot_be_started_is_a_finding(
    run: Callable[..., Told], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*told: object, **more: object) -> object:
        raise OSError("no room on the disk")

    monkeypatch.setattr(speaking, "unit", full)
    told = run("--json", "--model", str(model), "--speak")
    *_, speech = json.loads(told.out)["findings"]
    assert (told.status, speech["level"]) == (1, "fault") and "no room" in speech["what"]


def test_what_is_wrong_is_said_with_what_to_do_and_the_rest_is_looked_at_all_the_same(
    run: Callable[..., Told], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSCINE_PROT", "1")
    told = run("--model", str(tmp_path), "--keys", str(tmp_path / "none"))
    lines = told.out.splitlines()
    assert told.status == 1 and "2 of" in told.err
    assert any(each.startswith("FAULT  model") and "->" in each for each in lines)
    assert any(each.startswith("FAULT  keys") and "oscine keys add" in each for each in lines)
    assert any(each.startswith("advice settings") and "OSCINE_PORT?" in each for each in lines)
    assert any(each.startswith("good   opus") for each in lines)


def test_settings_that_cannot_be_read_are_a_finding(run: Callable[..., Told], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSCINE_MAX_STREAMS", "none")
    told = run()
    assert told.status == 1
    assert told.out.startswith("FAULT  settings  OSCINE_MAX_STREAMS: 'none'") and "->" in told.out


def test_a_port_that_is_taken_is_found() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = list(service.ports(replace(OK, server=Server(port=0, http_port=port))))
    assert levels(iter(found)) == [Level.GOOD, Level.FAULT]
    assert str(port) in mends(iter(found)) and "ss -ltnp" in mends(iter(found))
    assert "--http-port" in mends(iter(found))


async def test_ports_of_a_service_that_runs_are_no_fault(model: Path) -> None:
    front, calls, limits = (
        Front(HandPort(), read_front_end(model), {"anna": VoiceInfo("en", "")}, 24000),
        Calls(),
        Limits(),
    )
    async with (
        grpc_serving(front, "127.0.0.1", 0, limits=limits, calls=calls) as grpc_served,
        http_serving(application(front, limits, calls), "127.0.0.1", 0, calls=calls) as http_address,
    ):
        port, http_port = (int(each.rpartition(":")[2]) for each in (grpc_served.address, http_address))
        settings = replace(OK, server=Server(port=port, http_port=http_port))
        found = await asyncio.to_thread(lambda: list(service.ports(settings)))
        swapped = replace(OK, server=Server(port=http_port, http_port=port))
        wrong = await asyncio.to_thread(lambda: list(service.ports(swapped)))
    assert levels(iter(found)) == [Level.GOOD, Level.GOOD]
    assert all("in use, by a service that answers as Oscine" in each.what for each in found)
    assert levels(iter(wrong)) == [Level.FAULT, Level.FAULT]


def test_a_machine_without_libraries_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install ffmpeg" in mends(machine.codecs(OK))
    # As on a machine that has no libopus; a process that has loaded it would find it again.
    program = (
        "import ctypes.util; ctypes.util.find_library = lambda name: None\n"
        "from oscine_service.doctor import machine\n"
        "for finding in machine.codecs(None): print(finding.level, finding.about, finding.mend)"
    )
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, timeout=120)
    assert "fault opus apt-get install libopus0\n" in done.stdout, done.stderr


def test_memory_and_cores_of_a_container_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text("50000 100000\n")
    monkeypatch.setattr(machine, "_QUOTA", quota)
    monkeypatch.setattr(machine, "tightest", lambda: Memory(used=1 << 28, limit=3 << 28))
    assert "0.5 cores" in mends(machine.processors(OK))
    assert "0.5 GiB free" in mends(machine.memory(OK))
    quota.write_text("max 100000\n")
    monkeypatch.setattr(machine, "tightest", lambda: Memory(used=1 << 28, limit=1 << 36))
    assert levels(machine.memory(OK)) == [Level.GOOD]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)))
    assert levels(machine.processors(OK)) == [Level.GOOD]


def test_a_folder_without_room_for_a_socket_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tempfile

    assert levels(machine.sockets(OK)) == [Level.GOOD]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    if len(str(tmp_path / "none")) <= 80:
        assert "TMPDIR" in mends(machine.sockets(OK))


def test_a_gpu_that_is_not_there_is_found() -> None:
    asked = replace(OK, engine=Engine(device=("cuda:7",)))
    assert levels(machine.devices(asked))[0] is Level.FAULT and mends(machine.devices(asked))


def test_an_open_door_is_advised_against() -> None:
    assert list(service.exposure(OK)) == []
    outside = replace(OK, server=Server(host="0.0.0.0"))
    assert levels(service.exposure(outside)) == [Level.ADVICE, Level.ADVICE]
    closed = replace(outside, security=Security(keys=Path("k"), tls_cert=Path("c"), tls_key=Path("p")))
    assert list(service.exposure(closed)) == []


def test_keys_are_looked_at(tmp_path: Path) -> None:
    file, secret = tmp_path / "keys.json", tmp_path / "secret"
    with keys.changing(file) as found:
        found["anna"] = Key("anna", keys.digest("one"))
        found["old"] = Key("old", keys.digest("two"), expires="2001-01-01")
    secret.write_text("s" * 32)
    secret.chmod(0o644)
    told = mends(service.credentials(replace(OK, security=Security(keys=file, token_secret=secret))))
    assert "expired: old" in told and f"chmod g-wx,o= {secret}" in told and str(file) not in told
    secret.chmod(0o640)
    # A group may read it: the service is another user than its owner.
    assert levels(service.credentials(replace(OK, security=Security(token_secret=secret)))) == [Level.GOOD]
    file.chmod(0o644)
    with keys.changing(file) as found:
        del found["anna"]
    assert "nobody can call" in mends(service.credentials(replace(OK, security=Security(keys=file))))
    secret.write_text("short")
    assert "openssl rand" in mends(service.credentials(replace(OK, security=Security(token_secret=secret))))


@pytest.mark.parametrize(("days", "level"), [(400, Level.GOOD), (3, Level.ADVICE), (-1, Level.FAULT)])
def test_a_certificate_that_ends_is_found(tmp_path: Path, days: int, level: Level) -> None:
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days, hours=1)
    made = trustme.CA().issue_cert("localhost", not_before=until - datetime.timedelta(days=500), not_after=until)
    files = Files(tmp_path / "cert.pem", tmp_path / "key.pem", None)
    made.cert_chain_pems[0].write_to_path(str(files.certificate))
    made.private_key_pem.write_to_path(str(files.key))
    files.key.chmod(0o600)
    settings = replace(OK, security=Security(tls_cert=files.certificate, tls_key=files.key))
    assert levels(service.certificates(settings)) == [level]
    expires = tls.expires(files)
    assert (expires is None) == (days < 0)
    if expires is not None:
        assert expires == pytest.approx(until.timestamp(), abs=1)
    assert levels(service.certificates(replace(OK, security=Security(tls_cert=files.certificate)))) == [Level.FAULT]


def test_a_line_says_how_bad_it_is() -> None:
    assert line(good("opus", "is there"), colour=False) == "good   opus      is there"
    assert line(fault("opus", "is missing", "install it"), colour=False) == "FAULT  opus      is missing -> install it"
    assert line(fault("opus", "is missing", "install it"), colour=True).startswith("\x1b[31mFAULT")


def test_a_reader_that_leaves_and_a_terminal_of_few_letters_end_in_no_traceback() -> None:
    command = f"{sys.executable} -m oscine_service.cli doctor"
    left = subprocess.run(f"{command} | head -1", shell=True, capture_output=True, text=True, timeout=60)
    assert left.stdout.startswith("good") and left.stderr == ""
    few = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for given in ((), ("--json",)):
        arguments = (*command.split(), "--config", "\u00e9.toml", *given)
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, env=few)
        assert done.returncode == 1 and "Traceback" not in done.stderr and "e9.toml" in done.stdout
