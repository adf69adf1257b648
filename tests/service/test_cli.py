"""The `oscine` command as a user meets it: real processes, pipes, signals and sockets."""

import os
import re
import shutil
import signal
import subprocess
import sys
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
import soundfile

from oscine_engine.scheduler.admission import UTILISATION
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.cli.main import main
from tests.service.calls import config, text
from tests.service.commands import Command

COMMAND = (sys.executable, "-c", "import sys; from oscine_service.cli import main; sys.exit(main())")
SENTENCE = "This goes on and on, as long as anybody cares to listen to it, and then some more. "
LONG = SENTENCE * 4
PATIENCE_S = 60


def run(*arguments: "str | bytes | Path", **options: object) -> "subprocess.CompletedProcess[bytes]":
    options = {"stdin": subprocess.DEVNULL, **options} if "input" not in options else options
    return subprocess.run((*COMMAND, *arguments), capture_output=True, timeout=PATIENCE_S, **options)  # type: ignore[call-overload,no-any-return]


def start(*arguments: "str | Path", **options: object) -> "Command[bytes]":
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A shell that runs the tests in the background has SIGINT ignored, and children inherit that.
    options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    return Command((*COMMAND, *arguments), **{**pipes, **options})  # type: ignore[call-overload,no-any-return]


def files(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def check_failed(done: "subprocess.CompletedProcess[bytes]", status: int, *words: str) -> None:
    """One line that says all of `words`, and the exit status."""
    message = done.stderr.decode()
    assert done.returncode == status, message
    assert message.startswith("oscine") and message.count("\n") == 1
    assert all(word in message for word in words), message


@pytest.mark.parametrize("arguments", [("say", "Hello."), ("serve", "--port", "0")])
def test_a_gpu_that_is_not_there_is_named(arguments: "tuple[str, ...]", tmp_path: Path) -> None:
    output = ("-o", tmp_path / "x.wav") if arguments[0] == "say" else ()
    done = run(*arguments, *output, "--device", "cuda:31")
    assert done.returncode == 1 and b"cuda:31 is not there" in done.stderr and b"Traceback" not in done.stderr
    assert files(tmp_path) == set()


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    check_failed(run("say", "Hello.", "-o", tmp_path / "x.aac"), 2, ".wav", ".ogg", ".opus", "x.aac")
    check_failed(run("serve", "--port", "65536"), 2, "65536", "65535")
    check_failed(run("serve", "--max-streams", "0"), 2, "--max-streams")
    check_failed(run("serve", "--idle-timeout", "0"), 2, "--idle-timeout", "above 0")
    check_failed(run("serve", "--hang-timeout", "0"), 2, "--hang-timeout", "above 0")
    check_failed(run("serve", "--utilisation", "0"), 2, "--utilisation", "above 0")
    check_failed(run("serve", "--grace", "-1"), 2, "--grace", "above 0")
    check_failed(run("serve", "--device", "gpu"), 2, "'gpu'", "cuda:N")
    check_failed(run("say", "Hello.", "--precision", "int4"), 2, "--precision", "bfloat16")
    check_failed(run("say"), 2, "text")
    check_failed(run("say", "Hi.", "--server", "http://here:1"), 2, "--server", "HOST:PORT")
    check_failed(run("say", "Hi.", "--server", "::1"), 2, "--server", "brackets")
    check_failed(run("say", "Hi.", "--server", "here:99999"), 2, "--server", "65535")
    both = run("say", "Hi.", "--server", "here", "--model", tmp_path, "--lm-file", "llm.rl")
    check_failed(both, 2, "--model, --lm-file", "--server", "here:50051")
    check_failed(run("serve", "--pause-timeout", "0"), 2, "--pause-timeout", "above 0")
    assert files(tmp_path) == set()


SWITCHES = {"--side-by-side"}
HEEDED_BY_A_CLIENT = {"--help", "--output", "--server", "--voice", "--seed", "--mode", "--speed", "--language"}
HEEDED_BY_A_CLIENT |= {
    "--key",
    "--tls",
    "--ca",
    "--instruction",
    "--lexicon",
    "--reference",
    "--transcript",
    "--temperature",
    "--top-p",
    "--top-k",
}


def test_whatever_a_service_has_settled_is_refused_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Every option of `say`, also with the value that it has anyway, but for those that a client heeds."""
    with pytest.raises(SystemExit):
        main(["say", "--help"])
    flags = set(re.findall(r"^  (?:-\w \w+, )?(--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
    settled = sorted(flags - HEEDED_BY_A_CLIENT)
    assert {"--model", "--device", "--precision", "--lm-file", "--max-streams"} <= set(settled)
    values = {"--device": "cpu", "--precision": "float32", "--lm-file": "llm", "--max-streams": "8"}
    for flag in settled:
        value = [] if flag in SWITCHES else [values.get(flag, "1")]
        with pytest.raises(SystemExit) as ended:
            main(["say", "Hi.", "--server", "here", flag, *value])
        assert ended.value.code == 2
        message = capsys.readouterr().err
        assert f"{flag}: without meaning beside --server" in message and "here:50051" in message


def test_help_tells_the_default_that_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        f"inf counts calls only (default {UTILISATION:g})",
        "port of gRPC; 0 picks a free one (default 50051)",
    ):
        assert words in shown


def test_what_cannot_be_spoken_is_said_in_one_line(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    half, blocked = tmp_path / "half", tmp_path / "file"
    half.mkdir()
    (half / "cosyvoice3.yaml").write_bytes((model / "cosyvoice3.yaml").read_bytes())
    blocked.touch()
    out = ("-o", str(tmp_path / "x.wav"))
    cases = [
        (("Hi.", *out, "--model", tmp_path / "no"), ("no model directory", str(tmp_path / "no"))),
        (("Hi.", *out, "--model", half), ("llm.safetensors", str(half))),
        (("Hi.", *out, "--model", model, "--voice", "bob"), ("'bob'", "synthetic")),
        (("?! …🙂", *out, "--model", model), ("nothing to speak",)),
        ((os.fsdecode(b"good \xff\xfe"), *out, "--model", model), ("UTF-8", "byte 5 (0xff)")),
        (("Hi.", "-o", blocked / "x.wav", "--model", model), ("cannot write", str(blocked / "x.wav"))),
        (("Hi.", "--model", model), ("no player", "-o speech.wav")),
    ]
    monkeypatch.setenv("PATH", str(half))
    for arguments, words in cases:
        assert main(["say", *map(str, arguments)]) == 1
        message = capsys.readouterr().err
        assert message.startswith("oscine: ") and message.count("\n") == 1
        assert all(word in message for word in words), message
    assert files(tmp_path) == {"half", "file"}


def test_what_cannot_be_read_or_served_is_said_in_one_line(model: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(model, tmp_path / "broken")
    (broken / "llm.safetensors").write_bytes(b"not a model")
    out = ("-o", tmp_path / "x.wav")
    cases = [
        (("say", "-", *out, "--model", model), {"input": b"\xe9 au lait"}, ("standard input", "UTF-8", "byte 0")),
        (("say", "-", *out, "--model", model), {"input": "… 好".encode()[:-1]}, ("standard input", "UTF-8", "byte 4")),
        (("say", "-", *out, "--model", model), {"preexec_fn": lambda: os.close(0)}, ("standard input is closed",)),
        (("serve", "--model", model, "--host", "no.such.host"), {}, ("cannot listen on no.such.host",)),
        (("serve", "--port", "0", "--model", tmp_path / "no"), {}, ("no model directory", str(tmp_path / "no"))),
        (("serve", "--port", "0", "--in-process", "--model", broken), {}, (str(broken / "llm.safetensors"),)),
        (("serve", "--port", "0", "--model", broken), {}, (str(broken / "llm.safetensors"),)),
    ]
    with ThreadPoolExecutor(2) as pool:
        ended = pool.map(lambda case: run(*case[0], **case[1]), cases)
        for (_, _, words), done in zip(cases, ended, strict=True):
            check_failed(done, 1, *words)
    assert files(tmp_path) == {"broken"}


def test_a_text_becomes_a_file(model: Path, tmp_path: Path) -> None:
    spoken = run("say", "Hello there.", "-o", tmp_path / "new" / "x.wav", "--model", model, "--seed", "1")
    assert spoken.returncode == 0, spoken.stderr
    with wave.open(str(tmp_path / "new" / "x.wav")) as file:
        seconds = file.getnframes() / 24000
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24000, 1, 2)
    assert seconds > 0.2
    first, last = spoken.stderr.decode().splitlines()
    assert first.startswith("first packet after ") and first.endswith(" ms")
    assert f"{seconds:.1f} s of speech, real-time factor " in last and last.startswith(first)

    piped = run("say", "-", "-o", tmp_path / "x.opus", "--model", model, "--seed", "1", input=b"Hello there.")
    assert piped.returncode == 0, piped.stderr
    assert soundfile.info(tmp_path / "x.opus").duration == pytest.approx(seconds)
    assert files(tmp_path) == {"new", "x.opus"} and files(tmp_path / "new") == {"x.wav"}


def test_letters_that_are_left_out_are_mentioned(model: Path, tmp_path: Path) -> None:
    spoken = run("say", "Yes, да.", "-o", tmp_path / "x.wav", "--model", model)
    assert spoken.returncode == 0, spoken.stderr
    assert spoken.stderr.decode().splitlines()[-1].startswith("left out: 2 letters")


def test_a_running_service_speaks_for_say(model: Path, tmp_path: Path) -> None:
    assert run("say", "Hello there.", "-o", tmp_path / "near.wav", "--model", model, "--seed", "1").returncode == 0
    # Nothing that could compute is there for the client.
    without = (sys.executable, "-c", f"import sys; sys.modules['torch'] = None; {COMMAND[2]}")

    def far(*arguments: "str | Path", **options: object) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            (*without, "say", *arguments), capture_output=True, timeout=PATIENCE_S, **options
        )

    with start("serve", "--port", "0", "--model", model) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[2].rstrip(",")
        at = ("--server", address)
        spoken = far("Hello there.", "-o", tmp_path / "far.wav", "--seed", "1", *at)
        assert spoken.returncode == 0, spoken.stderr
        line = spoken.stderr.decode()
        assert line.startswith("first packet after ") and "s of speech, real-time factor " in line
        near, rate = soundfile.read(tmp_path / "near.wav")
        heard, far_rate = soundfile.read(tmp_path / "far.wav")
        assert rate == far_rate == 24000
        assert heard == pytest.approx(near, abs=2e-2)
        piped = far("-", "-o", tmp_path / "far.ogg", "--mode", "sentence", "--seed", "1", *at, input=b"Hello there.")
        assert piped.returncode == 0, piped.stderr
        assert soundfile.info(tmp_path / "far.ogg").duration == pytest.approx(near.size / rate)
        (tmp_path / "near.wav").unlink()
        out = ("-o", tmp_path / "x.wav", *at)
        check_failed(far("Hi.", *out, "--voice", "bob"), 1, address, "NOT_FOUND", "'bob'", "synthetic")
        check_failed(far("?! …🙂", *out), 1, "INVALID_ARGUMENT", "nothing to speak")
        check_failed(far("-", *out, input=b"... \xe9 au lait"), 1, "standard input", "UTF-8", "byte 4 (0xe9)")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    check_failed(far("Hi.", *out), 1, f"no service answers at {address}", "oscine serve")
    assert files(tmp_path) == {"far.wav", "far.ogg"}


def test_a_machine_without_libopus_is_told_what_to_install(model: Path, tmp_path: Path) -> None:
    without = (sys.executable, "-c", f"import ctypes.util; ctypes.util.find_library = lambda name: None; {COMMAND[2]}")
    for arguments in (("say", "Hi.", "-o", tmp_path / "x.opus"), ("demo", "-o", tmp_path / "x.wav")):
        done = subprocess.run((*without, *arguments, "--model", model), capture_output=True, timeout=PATIENCE_S)
        check_failed(done, 1, "apt-get install libopus0")
        assert b"loading" not in done.stdout
    assert files(tmp_path) == set()
    with subprocess.Popen(
        (*without, "serve", "--port", "0", "--model", model), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"serving on")
        process.terminate()
        assert "Opus is not served" in (line := next(lines(process))) and "libopus0" in line


def lines(process: "subprocess.Popen[bytes]") -> Iterator[str]:
    assert process.stderr is not None
    return (line.decode() for line in process.stderr)


def test_speech_begins_while_standard_input_is_open(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.wav"
    out.write_bytes(b"old")
    with start("say", "-", "-o", out, "--model", model, bufsize=0) as process:
        assert process.stdin is not None
        process.stdin.write(b"Hello there, this goes on, and on, and ")
        assert next(lines(process)).startswith("first packet after ")
        assert out.read_bytes() == b"old"
        assert len(files(tmp_path)) == 2
        process.stdin.write("naïve".encode()[:3])
        process.stdin.write("naïve".encode()[3:] + b" it ends.")
        process.stdin.close()
        assert "s of speech, real-time factor" in next(lines(process))
    assert process.returncode == 0
    assert files(tmp_path) == {"x.wav"}
    assert soundfile.info(out).frames > 24000


def test_what_was_read_before_a_fault_is_spoken(model: Path, tmp_path: Path) -> None:
    good = run("say", "-", "-o", tmp_path / "good.wav", "--model", model, "--seed", "1", input=SENTENCE.encode())
    with start("serve", "--port", "0", "--model", model) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[2].rstrip(",")
        for number, how in enumerate((("--model", model), ("--server", address))):
            out = tmp_path / f"{number}.wav"
            spoken = run("say", "-", "-o", out, *how, "--seed", "1", input=SENTENCE.encode() + b"\xff and more.")
            assert spoken.returncode == 1
            last = spoken.stderr.decode().splitlines()[-1]
            assert last.startswith(f"oscine: standard input is not valid UTF-8 at byte {len(SENTENCE)} (0xff)")
            assert soundfile.info(out).frames == soundfile.info(tmp_path / "good.wav").frames
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert good.returncode == 0
    assert files(tmp_path) == {"good.wav", "0.wav", "1.wav"}


@pytest.mark.parametrize(("name", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_without_a_trace(model: Path, tmp_path: Path, name: signal.Signals, status: int) -> None:
    with start("say", "-", "-o", tmp_path / "x.ogg", "--model", model, bufsize=0) as process:
        assert process.stdin is not None
        process.stdin.write((LONG * 5).encode())
        assert next(lines(process)).startswith("first packet after ")
        process.send_signal(name)
        assert process.wait(PATIENCE_S) == status
        assert list(lines(process)) == []
    assert files(tmp_path) == set()


def test_a_player_gets_the_samples_and_may_fail(model: Path, tmp_path: Path) -> None:
    player, played = tmp_path / "aplay", tmp_path / "played"
    path = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    player.touch(mode=0o755)
    player.write_text(f"#!/bin/sh\nexec cat > {played}\n")
    spoken = run("say", "Hello there.", "--model", model, "--seed", "1", env=path)
    assert spoken.returncode == 0, spoken.stderr
    assert played.stat().st_size > 2 * 0.2 * 24000
    player.write_text("#!/bin/sh\nexit 3\n")
    failed = run("say", "Hello there.", "--model", model, env=path)
    assert failed.returncode == 1
    assert failed.stderr.decode().splitlines()[-1].startswith("oscine: aplay stopped playing (status 3)")


@pytest.mark.parametrize(
    "how", [pytest.param((), id="unit"), pytest.param(("--in-process",), id="in process", marks=pytest.mark.slow)]
)
def test_serving_ends_after_the_call_that_runs(model: Path, how: tuple[str, ...]) -> None:
    with start("serve", "--port", "0", "--model", model, *how) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[2].rstrip(",")
        busy = run("serve", "--port", address.rpartition(":")[2], "--model", model)
        check_failed(busy, 1, f"cannot listen on {address}")
        with grpc.insecure_channel(address, (("grpc.enable_http_proxy", 0),)) as channel:
            call = SpeechServiceStub(channel).Synthesize(iter([config(), *text(LONG)]))
            assert next(call).HasField("started")
            process.send_signal(signal.SIGTERM)
            assert b"HTTP" in process.stdout.readline() and b"stopping" in process.stdout.readline()
            *_, last = call
            assert last.HasField("done")
        assert process.wait(PATIENCE_S) == 0
        assert list(lines(process)) == []


def test_a_call_ends_though_nobody_reads_what_the_service_says(model: Path) -> None:
    """As when its terminal is closed."""
    with start("serve", "--port", "0", "--model", model) as process:
        assert process.stdout is not None and process.stderr is not None
        address = process.stdout.readline().decode().split()[2].rstrip(",")
        process.stdout.close()
        process.stderr.close()
        with grpc.insecure_channel(address, (("grpc.enable_http_proxy", 0),)) as channel:
            call = SpeechServiceStub(channel).Synthesize(iter([config(), *text(LONG)]))
            assert next(call).HasField("started")
            process.send_signal(signal.SIGHUP)
            *_, last = call
            assert last.HasField("done")
        assert process.wait(PATIENCE_S) == 0


def test_nohup_is_heeded(model: Path) -> None:
    with start(
        "serve", "--port", "0", "--model", model, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[2].rstrip(",")
        process.send_signal(signal.SIGHUP)
        with grpc.insecure_channel(address, (("grpc.enable_http_proxy", 0),)) as channel:
            *_, last = SpeechServiceStub(channel).Synthesize(iter([config(), *text("Hello.")]))
            assert last.HasField("done")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_a_second_signal_cuts_running_calls_off(model: Path) -> None:
    with start("serve", "--port", "0", "--model", model) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[2].rstrip(",")
        with grpc.insecure_channel(address, (("grpc.enable_http_proxy", 0),)) as channel:
            call = SpeechServiceStub(channel).Synthesize(iter([config(), *text(LONG * 50)]))
            assert next(call).HasField("started")
            process.send_signal(signal.SIGTERM)
            assert b"HTTP" in process.stdout.readline() and b"stopping" in process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 143
        assert list(lines(process)) == []


def test_running_calls_get_no_longer_than_they_may_take(model: Path) -> None:
    with start("serve", "--port", "0", "--model", model, "--grace", "0.2") as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[2].rstrip(",")
        with grpc.insecure_channel(address, (("grpc.enable_http_proxy", 0),)) as channel:
            call = SpeechServiceStub(channel).Synthesize(iter([config(), *text(LONG * 50)]))
            assert next(call).HasField("started")
            process.send_signal(signal.SIGTERM)
            with pytest.raises(grpc.RpcError, match=r"the service is stopping; \d+ samples"):
                list(call)
            assert call.code() is grpc.StatusCode.UNAVAILABLE
        assert process.wait(PATIENCE_S) == 0
        assert list(lines(process)) == []


def test_the_demo_speaks_before_its_text_has_ended(model: Path, tmp_path: Path) -> None:
    shown = run("demo", "-o", tmp_path / "demo.wav", "--model", model)
    assert shown.returncode == 0, shown.stderr
    assert "while words were still being written" in shown.stdout.decode()
    assert soundfile.info(tmp_path / "demo.wav").duration > 1
    assert files(tmp_path) == {"demo.wav"}


def test_voices_are_listed(model: Path) -> None:
    listed = run("voices", "--model", model)
    assert listed.stdout.decode() == "synthetic  en  random numbers in the shape of a voice\n"
