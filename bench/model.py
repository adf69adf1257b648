"""The `--model` of a benchmark: a directory, the embedded voice, or random weights made for the occasion."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oscine_engine.checkpoint import synthetic

TINY = "tiny"
HELP = f"model directory, or {TINY}: random weights of the parity networks' sizes (default: the embedded voice)"


def add_model(parser: argparse.ArgumentParser) -> None:
    """The option itself."""
    parser.add_argument("--model", metavar=f"DIR|{TINY}", help=HELP)


def model_name(model: str | None) -> str:
    """What the printed object calls it."""
    return "embedded" if model is None else TINY if model == TINY else Path(model).resolve().name


@contextmanager
def model_directory(model: str | None) -> Iterator[Path | None]:
    """What the engine loads; random weights live as long as the block."""
    if model != TINY:
        yield None if model is None else Path(model)
        return
    with tempfile.TemporaryDirectory(prefix="oscine-tiny-") as folder:
        yield synthetic.write(folder, synthetic.REFERENCE_TINY)
