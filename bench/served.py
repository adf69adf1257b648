"""`oscine serve` in a process of its own, until the block is left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path


class ServerFailed(RuntimeError):
    """The server did not come up; it has said why on standard error."""


@dataclass(frozen=True, slots=True)
class Served:
    """grpc, http: where it listens, http None where it does not."""

    process: subprocess.Popen[str]
    grpc: str
    http: str | None

    @property
    def pid(self) -> int:
        return self.process.pid


@contextmanager
def served(
    *flags: str,
    module: str = "oscine_service.cli",
    model: Path | None = None,
    http: bool = False,
    before: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[Served]:
    """On free ports, asked to end afterwards. Raises ServerFailed if it does not come up.

    module: what is run in the place of the command. before: a command that becomes the server, such as
    `ip netns exec NAME`. environment: beside this process's own. log: the file that its standard error goes to.
    """
    command = [*before, sys.executable, "-m", module, "serve", "--port", "0"]
    command += ["--http-port", "0" if http else "none", *flags]
    command += [] if model is None else ["--model", str(model)]
    told = None if environment is None else {**os.environ, **environment}
    with ExitStack() as stack:
        errors = None if log is None else stack.enter_context(log.open("ab", buffering=0))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=told) as process:
            try:
                listening = _address(process, "serving on")
                yield Served(process, listening, _address(process, "WebSocket on") if http else None)
            finally:
                process.terminate()


def _address(process: subprocess.Popen[str], behind: str) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if behind not in line:
        raise ServerFailed("the server did not start")
    return line.partition(behind)[2].split()[0].rstrip(",")
