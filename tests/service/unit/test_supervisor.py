"""The supervisor with real processes that are no engines: what it makes of those that do not come up."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oscine_engine.errors import CheckpointError, InvalidInput, Unavailable
from oscine_service.unit.control import Failed, Ready, read, write
from oscine_service.unit.states import State
from oscine_service.unit.supervisor import Supervisor
from oscine_service.unit.times import Times
from tests.service.unit.conftest import folders

STAYS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def script(text: str) -> Callable[[Path], list[str]]:
    return lambda socket: [sys.executable, "-c", text, str(socket)]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def enter(supervisor: Supervisor) -> None:
    async with asyncio.timeout(30), supervisor:
        pytest.fail("it has started")


async def test_the_reason_that_a_process_gives_is_raised() -> None:
    line = write(Failed(CheckpointError("there is no such model")))
    with pytest.raises(CheckpointError, match="there is no such model"):
        await enter(Supervisor(script(f"print({line!r}, end='')")))


async def test_a_process_that_ends_without_a_reason_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unavailable, match="ended with status 3"):
        await enter(Supervisor(script("import sys; print('no memory', file=sys.stderr); sys.exit(3)")))
    assert capfd.readouterr().err == "engine: no memory\n"


async def test_a_process_that_is_killed_is_told_so() -> None:
    with pytest.raises(Unavailable, match="killed by SIGKILL"):
        await enter(Supervisor(script("import os; os.kill(os.getpid(), 9)")))
    with pytest.raises(Unavailable, match="killed by signal 40"):
        await enter(Supervisor(script("import os; os.kill(os.getpid(), 40)")))


async def test_what_cannot_be_started_is_told() -> None:
    with pytest.raises(Unavailable, match="No such file"):
        await enter(Supervisor(lambda socket: ["/no/such/program", str(socket)]))


async def test_no_room_for_the_socket_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    async with asyncio.timeout(10):
        with pytest.raises(Unavailable, match="cannot be started: No such file"):
            await enter(Supervisor(script("")))


async def test_a_fault_in_watching_is_an_attempt_that_failed() -> None:
    def broken(_: Path) -> list[str]:
        raise ZeroDivisionError("no command")

    async with asyncio.timeout(10):
        with pytest.raises(Unavailable, match="lost sight of: no command"):
            await enter(Supervisor(broken))


@pytest.mark.parametrize("text", [STAYS, f"print('ready', flush=True); {STAYS}"], ids=["silent", "no socket"])
async def test_a_process_that_does_not_get_ready_is_killed(text: str) -> None:
    before = folders()
    supervisor = Supervisor(script(text), Times(load=1.0))
    with pytest.raises(Unavailable, match=r"not ready after 1 s|did not answer"):
        await enter(supervisor)
    assert supervisor.pid is not None and gone(supervisor.pid)
    assert folders() <= before


async def test_giving_up_while_it_loads_leaves_nothing() -> None:
    before = folders()
    supervisor = Supervisor(script(STAYS), Times(end=0.2))
    entering = asyncio.create_task(enter(supervisor))
    async with asyncio.timeout(30):
        while supervisor._attempt is None or supervisor.pid is None:
            await asyncio.sleep(0.01)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
    assert supervisor.state is State.STOPPED
    assert gone(supervisor.pid)
    assert folders() <= before


async def test_long_lines_of_logs_arrive_whole(capfd: pytest.CaptureFixture[str]) -> None:
    text = "import os; os.write(2, b'x' * 300_000 + b'\\nlast, without an end')"
    with pytest.raises(Unavailable):
        await enter(Supervisor(script(text)))
    first, last = capfd.readouterr().err.splitlines()
    assert first == "engine: " + "x" * 300_000
    assert last == "engine: last, without an end"


async def test_logs_that_cannot_be_written_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a pipe takes: whoever stopped reading at the first line would let the process wait for ever."""
    text = "import os, sys; [os.write(2, b'x' * 999 + b'\\n') for _ in range(1000)]; sys.exit(5)"
    with open("/dev/full", "w") as full:  # noqa: ASYNC230
        monkeypatch.setattr(sys, "stderr", full)
        with pytest.raises(Unavailable, match="status 5"):
            await enter(Supervisor(script(text)))
        # What is left in its buffer could not be written when it is closed, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


async def test_a_child_that_keeps_the_pipes_does_not_keep_the_supervisor() -> None:
    text = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(8)']); sys.exit(4)"
    began = time.monotonic()
    with pytest.raises(Unavailable, match="status 4"):
        await enter(Supervisor(script(text)))
    assert time.monotonic() - began < 7


def test_control_lines() -> None:
    assert read(write(Ready())) == Ready()
    failed = read(write(Failed(CheckpointError("two\nlines, and 'quotes'"))))
    assert isinstance(failed, Failed) and isinstance(failed.error, CheckpointError)
    assert failed.error.message == "two\nlines, and 'quotes'"
    assert read("a library says hello") is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_patience_is_a_positive_time(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="hang"):
        Times(hang=seconds)
