"""`oscine serve` with everything on, as it is run."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.security.keys import Key
from tests.service.calls import config, text
from tests.service.security.conftest import keys_file

COMMAND = (sys.executable, "-c", "import sys; from oscine_service.cli import main; sys.exit(main())")
SECRET = "The password is swordfish."
PATIENCE_S = 120


@contextmanager
def serving(model: Path, folder: Path, *more: str) -> Iterator[tuple[str, str, "subprocess.Popen[str]"]]:
    """Both addresses of a service whose settings stand in a file and in the environment."""
    keys = keys_file(folder, one=Key("anna", "0" * 64), watch=Key("watch", "0" * 64, grants=("metrics",)))
    settings = folder / "oscine.toml"
    settings.write_text(f'[server]\nport = 0\nhttp_port = 0\n[security]\nkeys = "{keys.name}"\n')
    environment = {
        **os.environ,
        "OSCINE_CONFIG": str(settings),
        "OSCINE_MODEL": str(model),
        "OSCINE_LOG_FORMAT": "json",
    }
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            (*COMMAND, "serve", "--log-level", "info", *more),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            first, second = process.stdout.readline(), process.stdout.readline()
            yield first.split()[2].rstrip(","), second.split()[-1], process
        finally:
            process.kill()


def fetch(address: str, path: str, key: str = "") -> tuple[int, str]:
    """Status and body."""
    request = urllib.request.Request(f"http://{address}{path}", headers={"Authorization": f"Bearer {key}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def check_drain(rpc: str, web: str, process: "subprocess.Popen[str]") -> None:
    """Told to stop, it ends what runs, and takes nothing new at either port."""
    metadata = (("authorization", "Bearer one"),)
    requests: queue.SimpleQueue[pb.SynthesizeRequest | None] = queue.SimpleQueue()
    with grpc.insecure_channel(rpc, (("grpc.enable_http_proxy", 0),)) as channel:
        running = SpeechServiceStub(channel).Synthesize(iter(requests.get, None), metadata=metadata, timeout=PATIENCE_S)
        requests.put(config())
        assert next(running).HasField("started")
        assert fetch(web, "/readyz")[0] == 200
        process.send_signal(signal.SIGTERM)
        while (told := fetch(web, "/readyz"))[0] == 200:  # a signal takes its time
            pass
        assert told[0] == 503 and "stopping" in told[1] and fetch(web, "/livez")[0] == 200
        with pytest.raises(grpc.RpcError) as refused:
            list(SpeechServiceStub(channel).Synthesize(iter([config()]), metadata=metadata, timeout=PATIENCE_S))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        for request in (*text(SECRET), None):
            requests.put(request)
        assert [response.WhichOneof("response") for response in running][-1] == "done"
    assert process.wait(PATIENCE_S) == 0


def test_a_service_tells_how_it_is_and_not_what_was_said(model: Path, tmp_path: Path) -> None:
    with serving(model, tmp_path) as (rpc, web, process):
        with grpc.insecure_channel(rpc, (("grpc.enable_http_proxy", 0),)) as channel:
            call = SpeechServiceStub(channel).Synthesize(
                iter([config(), *text(SECRET)]), metadata=(("authorization", "Bearer one"),), timeout=PATIENCE_S
            )
            assert [response.WhichOneof("response") for response in call][-1] == "done"
            with pytest.raises(grpc.RpcError) as refused:
                list(SpeechServiceStub(channel).Synthesize(iter([config(), *text(SECRET)]), timeout=PATIENCE_S))
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        _, told = fetch(web, "/metrics", "watch")
        while 'oscine_engine_segments_total{engine="0"} 1.0' not in told:  # an engine tells once a second
            assert process.poll() is None
            _, told = fetch(web, "/metrics", "watch")
        assert 'oscine_calls_total{outcome="ok",protocol="grpc"} 1.0' in told
        assert 'oscine_refused_total{outcome="unauthenticated",protocol="grpc"} 1.0' in told
        assert re.search(r'oscine_engine_tick_seconds_count\{engine="0",stage="flow"\} [1-9]', told)
        check_drain(rpc, web, process)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    first, last = [line for line in lines if line["event"] == "call ended"]
    for ended in (first, last):
        assert (ended["key"], ended["outcome"], ended["characters"]) == ("anna", "ok", len(SECRET))
    assert "swordfish" not in json.dumps(lines)


def test_settings_that_cannot_work_end_it_before_anything_is_loaded(model: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        (*COMMAND, "serve", "--port", "0", "--http-port", "0", "--model", str(model), "--tls-cert", "x.pem"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "oscine: --tls-key is missing: TLS needs a certificate and its key\n"
