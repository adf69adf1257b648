"""`oscine serve` as whoever starts and stops it meets it: real processes, signals and sockets."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
import torch

from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from tests.service.calls import config, text
from tests.service.commands import Command

LONG = "This goes on and on, as long as anybody cares to listen to it, and then some more. "
COMMAND = (sys.executable, "-c", "import sys; from oscine_service.cli import main; sys.exit(main())", "serve")
PATIENCE_S = 60
TWO_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def start(*arguments: "str | Path") -> "Command[str]":
    return Command(
        (*COMMAND, "--port", "0", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background has SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def failed(*arguments: "str | Path", status: int | None = None) -> str:
    done = subprocess.run((*COMMAND, *arguments), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode in ((1, 2) if status is None else (status,)) and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def engines_of(service: int) -> list[int]:
    children = Path(f"/proc/{service}/task/{service}/children").read_text().split()
    return [int(each) for each in children if b"oscine_service.unit" in Path(f"/proc/{each}/cmdline").read_bytes()]


@pytest.mark.parametrize("devices", ["cpu,cpu", pytest.param("cuda:0,cuda:1", marks=TWO_GPUS)])
def test_two_engines_serve_behind_one_port_and_end_after_the_calls_that_run(model: Path, devices: str) -> None:
    # On a busy machine an engine may find itself too slow for a call.
    with start("--model", model, "--device", devices, "--utilisation", "inf") as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith("serving on ") and " of 2 ready" in line
        engines = engines_of(process.pid)
        assert len(engines) == 2
        with grpc.insecure_channel(line.split()[2].rstrip(","), (("grpc.enable_http_proxy", 0),)) as channel:
            stub = SpeechServiceStub(channel)
            calls = [stub.Synthesize(iter([config(seed=seed), *text(LONG)])) for seed in range(2)]
            assert all(next(call).HasField("started") for call in calls)
            process.send_signal(signal.SIGTERM)
            assert "HTTP" in process.stdout.readline() and "stopping" in process.stdout.readline()
            for call in calls:
                *_, last = call
                assert last.HasField("done")
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == ""
    for engine in engines:
        with pytest.raises(ProcessLookupError):
            os.kill(engine, 0)


def listens_to(process: int, name: signal.Signals) -> bool:
    line = next(each for each in Path(f"/proc/{process}/status").read_text().splitlines() if each.startswith("SigCgt"))
    return bool(int(line.split()[1], 16) >> (name - 1) & 1)


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("when", ["libraries load", "the engine loads"])
def test_a_signal_before_it_serves_ends_it_cleanly(model: Path, name: signal.Signals, when: str) -> None:
    with start("--model", model) as process:
        assert process.stdout is not None and process.stderr is not None
        # Python itself listens to SIGINT as well: SIGTERM tells that the command does.
        while not (engines_of(process.pid) if when == "the engine loads" else listens_to(process.pid, signal.SIGTERM)):
            time.sleep(0.01)
        process.send_signal(name)
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout.read() == "stopped before it was serving\n"
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_a_model_without_voices_is_served_with_a_warning(model: Path, tmp_path: Path) -> None:
    silent = shutil.copytree(model, tmp_path / "silent")
    (silent / "spk2info.pt").unlink()
    with start("--model", silent) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith("serving on ") and line.endswith("voices: none\n")
        warning = process.stderr.readline()
        assert "no voices" in warning and "spk2info.pt" in warning
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_why_it_cannot_listen_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in failed("--port", str(port))
    assert "Cannot assign requested address" in failed("--host", "192.0.2.1")


def test_devices_that_make_no_sense_together_are_named() -> None:
    assert "twice" in failed("--device", "cuda,cuda:0")
    assert "a CPU and a GPU" in failed("--device", "cpu,cuda:0")
    assert "'gpu'" in failed("--device", "cuda:0,gpu")


def test_settings_that_contradict_each_other_end_it_with_the_status_that_is_not_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for given, says in (
        (("--device", "cpu,cpu", "--in-process"), "--in-process has one engine"),
        (("--port", port, "--http-port", port), f"--port and --http-port are both {port}"),
        (("--tls-cert", "none.pem"), "--tls-key is missing"),
        (("--tls-client-ca", "none.pem"), "--tls-cert is missing"),
        (("--public-url", "http://voice.example.com"), "does not begin with wss://"),
        (("--carrier-key", "ann"), "without --keys"),
        (("--rtp-public", "192.0.2.1"), "without --rtp-host"),
        (("--voices-copy", "/tmp", "--voices", "/tmp"), "name its address by --voices"),
    ):
        assert says in failed(*given, status=2)
