"""oscine-client as it is installed: alone, beside each protobuf it may meet, and calling a real service."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oscine_engine.checkpoint.load import Checkpoint
from tests.clients.conftest import running
from tests.service.recordings import recording

CLIENT = Path(__file__).parents[2] / "clients" / "python"
CALL = """
import sys
import google.protobuf, oscine_client as oc
with oc.Client(sys.argv[1]) as client:
    events = list(client.speak(iter("It will rain."), oc.Config(encoding="pcm16", mode="sentence")))
    assert isinstance(events[-1], oc.Done) and events[-1].audio_seconds > 0.1, events
    client.voices.create("anna", sys.argv[2])
    client.voices.delete("anna")
    assert list(client.voices.list())
try:
    import oscine_client.websocket
except ModuleNotFoundError as error:
    assert "oscine-client[websocket]" in str(error)
else:
    raise AssertionError("websockets is here, unasked")
print(google.protobuf.__version__, oc.__file__)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("requirement", "version"), [("protobuf>=6,<7", "6."), ("protobuf>=7,<8", "7.")])
async def test_it_installs_and_calls_beside_protobuf(
    requirement: str, version: str, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    python = await asyncio.to_thread(installed, requirement, tmp_path)
    path = tmp_path / "anna.wav"
    path.write_bytes(recording())
    async with running(checkpoint, tmp_path / "voices") as service:
        variables = {**os.environ, "no_grpc_proxy": "127.0.0.1"}
        variables.pop("PYTHONPATH", None)
        process = await asyncio.create_subprocess_exec(
            *(python, "-I", "-c", CALL, service.address, path),
            stdout=asyncio.subprocess.PIPE,
            env=variables,
            cwd=tmp_path,
        )
        output, _ = await process.communicate()
    assert process.returncode == 0
    used, where = output.decode().split()
    assert used.startswith(version) and str(tmp_path) in where


def installed(requirement: str, folder: Path) -> Path:
    """The interpreter of a new environment with `requirement` and the client, built into a wheel."""
    wheels, environment = folder / "wheels", folder / "environment"
    python = environment / "bin" / "python"
    for command in (
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, CLIENT],
        [sys.executable, "-m", "venv", environment],
        [python, "-m", "pip", "install", "--quiet", requirement, "oscine-client @ file://{wheel}"],
    ):
        wheel = next(wheels.glob("*.whl"), None)
        subprocess.run([str(each).format(wheel=wheel) for each in command], check=True)
    return python


def test_its_stubs_are_those_of_the_service() -> None:
    """What the client carries is what `make proto` made of the same files."""
    proto = Path(__file__).parents[2] / "proto" / "oscine_proto" / "oscine" / "v1"
    for name in ("speech", "voice"):
        ours = (proto / f"{name}_pb2.py").read_text().split("AddSerializedFile(")[1].split("\n")[0]
        theirs = (CLIENT / "oscine_client" / "_stubs" / f"{name}_pb2.py").read_text()
        assert ours in theirs, f"{name}.proto has changed: run make proto, and commit the client's stubs as well"
