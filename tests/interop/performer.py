"""One client in its own environment and process, told what to do and asked what came of it."""

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from oscine_codecs import pcm
from tests.codecs.signals import Samples
from tests.interop.environments import python

CLIENTS = Path(__file__).parent / "clients"
PATIENCE_S = 300.0
"""With one answer, on a machine that does much else."""


class Fault(AssertionError):
    """A client failed; the first line says how."""


@dataclass(frozen=True)
class Heard:
    """words: each with its start in seconds, and its end where the client tells it."""

    samples: Samples
    rate: int
    words: list[list[Any]]

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


class Performer:
    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process, self._folder = process, folder
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def speak(self, text: str) -> Heard:
        return self._heard(do="speak", text=text)

    def interrupt(self, long: str, text: str) -> Heard:
        """What is heard behind the interruption of a long text."""
        return self._heard(do="interrupt", long=long, text=text)

    def vanish(self, long: str) -> None:
        """Begin to speak, and from the first sound on be as a machine that has lost its power: nothing is closed, read
        or answered any more."""
        self._ask(do="abandon", text=long)
        self.answer()
        self._process.send_signal(signal.SIGSTOP)

    def answer(self) -> dict[str, Any]:
        """Raises Fault."""
        try:
            line = self._answers.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise Fault(f"no answer within {PATIENCE_S:g} s") from None
        if not line:
            raise Fault(f"it has ended: {self._said()}")
        told: dict[str, Any] = json.loads(line)
        if "fault" in told:
            raise Fault(f"{told['fault']}\n{told['trace']}\n{self._said()}")
        return told

    def _heard(self, **command: str) -> Heard:
        path = self._folder / "heard"
        self._ask(to=str(path), **command)
        told = self.answer()
        if told["encoding"] == "pcm":
            samples, rate = pcm.decode(path.read_bytes()), told["rate"]
        else:
            samples, rate = soundfile.read(path, dtype="float32")
        return Heard(np.asarray(samples), rate, told["words"])

    def _ask(self, **command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _said(self) -> str:
        return (self._folder / "client.err").read_text()[-3000:]


@contextmanager
def performing(environment: str, script: str, folder: Path, **asked: str) -> Iterator[Performer]:
    """A client of `clients/`, until the block is left. Raises Fault if it does not come up."""
    authority = {"SSL_CERT_FILE": asked["authority"]} if "authority" in asked else {}
    variables = {
        key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG", "TMPDIR")
    } | authority  # proxies, above all, are left out
    with (
        (folder / "client.err").open("w") as errors,
        subprocess.Popen(
            (python(environment), CLIENTS / f"{script}.py", json.dumps(asked)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=variables,
        ) as process,
    ):
        try:
            performer = Performer(process, folder)
            performer.answer()
            yield performer
        finally:
            process.kill()
