"""Starting an engine process and talking to it through its standard files."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from oscine_engine.settings import EngineSettings
from oscine_service.observe import logs
from oscine_service.unit import control
from oscine_service.unit.pipes import Reading, pipe

_READ_BYTES = 65536
_LAST_WORDS_S = 1.0

OnLine = Callable[[control.Line], None]


def command(settings: EngineSettings, socket: Path) -> list[str]:
    """What starts an engine process of this installation. `-P`: whatever lies in the working directory is not ours."""
    arguments = [
        sys.executable,
        "-P",
        "-m",
        "oscine_service.unit",
        "--socket",
        str(socket),
        "--parent",
        str(os.getpid()),
    ]
    arguments += ["--lm-file", settings.lm_file, "--device", settings.device, "--threads", str(settings.threads)]
    arguments += ["--precision", settings.precision]
    arguments += ["--max-streams", str(settings.max_streams), "--max-waiting", str(settings.max_waiting_s)]
    arguments += ["--utilisation", str(settings.utilisation), "--voice-bytes", str(settings.voice_bytes)]
    arguments += ["--log-level", logging.getLevelName(logging.getLogger().getEffectiveLevel())]
    arguments += ["--log-format", logs.format_now()]
    if settings.voices is not None:
        arguments += ["--voices", str(settings.voices)]
    if settings.references:
        arguments += ["--references"]
    if settings.side_by_side:
        arguments += ["--side-by-side"]
    if settings.vllm is not None:
        arguments += ["--vllm", str(settings.vllm)]
    return arguments if settings.model is None else [*arguments, "--model", str(settings.model)]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended. `code` as subprocess has it: a negative one is the signal that killed it."""

    code: int

    def __str__(self) -> str:
        if self.code >= 0:
            return f"ended with status {self.code}"
        names = {each.value: each.name for each in signal.Signals}
        return f"was killed by {names.get(-self.code, f'signal {-self.code}')}"


class EngineProcess:
    """A running engine process. `on_line` gets its control lines; its logs go to standard error behind `name`.

    Its standard files are pipes made here: asyncio's own would hold back the news of its end until every child of its
    own has closed them too.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, held: int, says: Reading, errors: Reading, on_line: OnLine, name: str
    ) -> None:
        self._process = process
        self._held: int | None = held
        self._readings = (says, errors)
        self._reading = (
            asyncio.create_task(_listen(says.stream, on_line)),
            asyncio.create_task(_log(errors.stream, name)),
        )

    @classmethod
    async def start(cls, arguments: Sequence[str], on_line: OnLine, name: str = "engine") -> "EngineProcess":
        """Start it from the main thread: on Linux it ends with the thread that started it."""
        with ExitStack() as undo:
            (given, held), (heard, said), (read, logged) = (pipe(undo) for _ in range(3))
            process = await asyncio.create_subprocess_exec(*arguments, stdin=given, stdout=said, stderr=logged)
            undo.pop_all()
        for end in (given, said, logged):
            os.close(end)
        return cls(process, held, await Reading.of(heard), await Reading.of(read), on_line, name)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ended(self) -> Ended:
        """Wait for its end, and for the last of what it said."""
        code = await self._process.wait()
        _, late = await asyncio.wait(self._reading, timeout=_LAST_WORDS_S)
        for task in late:
            task.cancel()
        for reading in self._readings:
            reading.transport.close()
        self.dismiss()
        return Ended(code)

    def dismiss(self) -> None:
        """Ask it to end."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def kill(self) -> None:
        """End it, even if it is stopped or hangs."""
        with suppress(ProcessLookupError):
            self._process.kill()


async def _listen(says: asyncio.StreamReader, on_line: OnLine) -> None:
    async for data in says:
        line = control.read(data.decode())
        if line is not None:
            on_line(line)


async def _log(errors: asyncio.StreamReader, name: str) -> None:
    """Whole lines, however long: a half one waits for its end, so that lines of both processes do not mix."""
    begun: list[bytes] = []
    while data := await errors.read(_READ_BYTES):
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join(begun) + lines[0]
            begun.clear()
            _print(lines, name)
        begun.append(rest)
    if any(begun):
        _print([b"".join(begun)], name)


def _print(lines: Sequence[bytes], name: str) -> None:
    # A full disk must not keep them from being read: the engine would wait for its pipe, and with it every call.
    with suppress(OSError):
        sys.stderr.buffer.write(logs.relay(lines, name))
        sys.stderr.buffer.flush()
