"""The process that reads recordings, where it does not live to read one."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oscine_engine.errors import InternalError, InvalidInput
from oscine_service.event_loop import new_event_loop
from oscine_service.voices import frames
from oscine_service.voices.worker import Worker, _exchange


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "ours"])
def test_one_that_has_ended_is_no_fault_of_the_service(tmp_path: Path, loop: type[asyncio.AbstractEventLoop]) -> None:
    async def ask() -> None:
        worker = Worker(tmp_path, None)
        worker._command = (sys.executable, "-c", "")
        process = await worker._started()
        await process.wait()
        with pytest.raises(BrokenPipeError):
            await _exchange(process, bytes(1 << 20))
        for _ in range(3):
            with pytest.raises(InternalError, match="ended; send another recording"):
                await worker.ask("add", {}, bytes(1 << 20))
        await worker.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(ask())


def test_what_a_decoder_prints_of_a_broken_file_is_in_no_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def ask() -> None:
        worker = Worker(tmp_path, None)
        asked = {"name": "a", "transcript": "", "language": None, "description": "", "owner": "", "replace": False}
        with pytest.raises(InvalidInput, match="not a readable audio file"):
            await worker.ask("add", asked, b"\xff\xfb\x90\x00" + bytes(20_000))
        await worker.close()

    asyncio.run(ask())
    assert capfd.readouterr() == ("", "")


def test_it_ends_quietly_when_its_service_was_killed(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "oscine_service.voices", "--store", str(tmp_path))
    asked = frames.pack({"verb": "remove", "name": "nobody", "owner": ""})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write(asked)
        process.stdin.flush()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_grpc_leaves_children_alone() -> None:
    """It would run in them before they become another program, and some die there."""
    code = "import os, oscine_service.grpc.server; print(os.environ['GRPC_ENABLE_FORK_SUPPORT'])"
    told = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=told, check=True)
    assert done.stdout == "false\n"
