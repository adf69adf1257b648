"""Whatever dashboards and rules name is told by a service that runs, and `oscine top` shows it."""

import json
import os
import pty
import re
import select
import ssl
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import grpc
import pytest
import trustme
import yaml

from bench.served import Served, served
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.security.keys import Key
from oscine_service.top.samples import Samples, read
from tests.operating.dashboards import DASHBOARDS, expressions
from tests.operating.prometheus import ROOT, RULES
from tests.service.calls import config, text
from tests.service.commands import Command
from tests.service.security.conftest import keys_file

PATIENCE_S = 120
BY_PROMETHEUS = {"up"}
SUFFIXES = ("_bucket", "_count", "_sum")
TOP = (sys.executable, "-m", "oscine_service.cli", "top")


def metrics_of(expression: str) -> set[str]:
    """Names of metrics and of recorded rules in it: words that are no labels, functions or values of labels."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\b(by|without|ignoring|on|group_left|group_right) *\([^)]*\)', "", expression)
    return {word for word in re.findall(r"[a-zA-Z_:][\w:]*", bare) if re.match(r"(oscine|process)_|up$|\w+:", word)}


def rules() -> list[dict[str, str]]:
    found = [yaml.safe_load((RULES / name).read_text()) for name in ("recording.yml", "alerts.yml")]
    return [rule for document in found for group in document["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def house(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A service with all that has metrics: keys, a certificate, a shared store; and the folder of its authority."""
    folder = tmp_path_factory.mktemp("house")
    authority = trustme.CA()
    made = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    made.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    made.private_key_pem.write_to_path(str(folder / "key.pem"))
    speaking, watching = Key("anna", "0" * 64), Key("watch", "0" * 64, grants=("metrics",))
    keys = keys_file(folder, one=speaking, watch=watching)
    (folder / "voices").mkdir()
    flags = ["--utilisation", "inf", "--keys", keys]
    flags += ["--voices", f"file://{folder}/voices", "--voices-copy", folder / "copy"]
    flags += ["--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem"]
    with served(*map(str, flags), model=model, http=True, log=folder / "log") as service:
        credentials = grpc.ssl_channel_credentials((folder / "ca.pem").read_bytes())
        with grpc.secure_channel(service.grpc, credentials, (("grpc.enable_http_proxy", 0),)) as channel:
            metadata = (("authorization", "Bearer one"),)
            call = SpeechServiceStub(channel).Synthesize(iter([config(), *text("Hello.")]), metadata=metadata)
            assert [response.WhichOneof("response") for response in call][-1] == "done"
        yield service, folder


def page(house: tuple[Served, Path]) -> Samples:
    """Once its engine has told what it did."""
    service, folder = house
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(f"https://{service.http}/metrics", headers={"Authorization": "Bearer watch"})
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with opener.open(request, timeout=30) as answer:
            found = read(answer.read().decode(), time.monotonic())
        if found.total("oscine_engine_segments_total") >= 1:
            return found
        time.sleep(0.2)
    raise TimeoutError("the engine has not told what it did")


def test_what_dashboards_and_rules_name_is_there(house: tuple[Served, Path]) -> None:
    told = set(page(house).values)
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    asked = {(f"{path.name}: {name}", each) for path in DASHBOARDS for name, each in expressions(path)}
    asked |= {(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()}
    assert len(asked) > 40
    for where, expression in asked:
        names = metrics_of(expression)
        assert names, f"{where} looks at nothing: {expression}"
        assert names <= told | recorded | BY_PROMETHEUS, f"{where}: {names - told - recorded}"


def test_what_the_docs_say_is_told(house: tuple[Served, Path]) -> None:
    told = set(page(house).values)
    named = set(re.findall(r"`(oscine_\w+)`", (ROOT / "docs/operations.md").read_text()))
    assert len(named) > 30
    assert not {name for name in named if not {name, f"{name}_count"} & told} - {
        "oscine_engine_guess_chance"  # of a model with a draft
    }


def test_each_alert_has_a_page_and_each_page_an_alert() -> None:
    pages = {rule["annotations"]["runbook"] for rule in rules() if "alert" in rule}
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "docs/runbooks").glob("*.md")}
    assert pages == there - {"docs/runbooks/README.md"}
    contents = (ROOT / "docs/runbooks/README.md").read_text()
    for rule in rules():
        if "alert" in rule:
            assert rule["alert"] in (ROOT / rule["annotations"]["runbook"]).read_text()
            assert f"({Path(rule['annotations']['runbook']).name})" in contents and rule["alert"] in contents


def test_top_prints_once(house: tuple[Served, Path]) -> None:
    service, folder = house
    page(house)
    command = [*TOP, str(service.http), "127.0.0.1:1", "--once", "--every", "1.5", "--key", "watch"]
    done = subprocess.run([*command, "--ca", folder / "ca.pem", "--json"], capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    ours, nobody = json.loads(done.stdout)["services"]
    assert ours["trouble"] is None and "refused" in nobody["trouble"]
    (engine,) = ours["engines"]
    assert engine["up"] and (engine["streams"], engine["places"], engine["restarts"]) == (0, 8, 0)
    assert [stage["stage"] for stage in engine["stages"]] == ["lm", "flow", "vocoder"]
    assert 0 < ours["memory_share"] < 1 and engine["memory"] > 1 << 20


def test_top_says_what_keeps_it_out(house: tuple[Served, Path]) -> None:
    service, folder = house
    command = [*TOP, str(service.http), "--once", "--every", "0.1", "--ca", folder / "ca.pem"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, "COLUMNS": "80"}
    )
    assert done.returncode == 1
    assert "wants a key that is granted metrics" in done.stdout and "none of these answers" in done.stderr


def test_top_wants_authorities_in_pem(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing of the sort")
    for path, said in ((tmp_path / "ca.pem", "holds no certificates in PEM"), (tmp_path / "none", "No such file")):
        done = subprocess.run([*TOP, "--ca", path], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 1 and said in done.stderr and str(path) in done.stderr


def test_top_lives_in_a_terminal(house: tuple[Served, Path]) -> None:
    service, folder = house
    page(house)
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    command = [*TOP, str(service.http), "--every", "0.2", "--key", "watch", "--ca", folder / "ca.pem"]
    # A shell may say how large its own terminal is.
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with Command(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment, start_new_session=True
    ) as process:
        shown = b""
        deadline = time.monotonic() + PATIENCE_S
        while shown.count(b"q quits") < 3 and process.poll() is None and time.monotonic() < deadline:
            if select.select([ours], [], [], 1.0)[0]:
                shown += os.read(ours, 1 << 16)
        assert termios.tcgetattr(theirs)[3] != before[3], "keys are waited for until a line of them is there"
        os.write(ours, b"q")
        assert process.wait(PATIENCE_S) == 0, process.stderr and process.stderr.read()
    while select.select([ours], [], [], 0.2)[0]:
        shown += os.read(ours, 1 << 16)
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
    words = shown.decode()
    assert words.startswith("\x1b[?1049h\x1b[?25l") and words.endswith("\x1b[?25h\x1b[?1049l")
    last = words.rpartition("\x1b[H")[2]
    drawn = re.sub(r"\x1b\[[?0-9]*[A-Za-z]", "", last).split("\r\n")
    assert all(len(line) <= 80 for line in drawn) and len(drawn) <= 24
    assert any(line.startswith("SERVICE") and line.endswith("MEMORY") for line in drawn)
    assert any(line.startswith("ENGINE") and "STREAMS" in line and line.endswith("RESTARTS") for line in drawn)
    assert sum(f"{service.http}/0" in line for line in drawn) == 4
