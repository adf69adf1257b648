"""A process of a benchmark's that answers what it is asked on its standard input, each time with a line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 30.0
"""For its end, once its standard input is closed."""


class Asked:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process, self._asking, self._answers = process, process.stdin, process.stdout

    @property
    def ended(self) -> int | None:
        """Its exit status, once it has one."""
        return self._process.poll()

    def tell(self) -> Any:
        """What it has seen since it was asked before."""
        print("tell", file=self._asking, flush=True)
        return self.read()

    def read(self) -> Any:
        """Its next line. Raises RuntimeError if it ends instead."""
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"a process of the benchmark has ended, with status {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """Nothing more is asked."""
        self._asking.close()


@contextmanager
def asked(module: str, *arguments: str) -> Iterator[Asked]:
    """`python -m module arguments`, until the block is left."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        running = Asked(process)
        try:
            yield running
        finally:
            running.close()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
