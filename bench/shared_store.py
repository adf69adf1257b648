"""How soon is a voice that one machine makes there on another? Part of `python -m bench store --shared`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bench import bucket
from bench.figures import ranks
from oscine_engine.errors import UnknownVoice
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.shelf import Shelf
from oscine_service.storage.address import Address
from oscine_service.storage.bucket import opened
from oscine_service.storage.copy import Copy
from oscine_service.storage.mirror import Mirror
from oscine_service.storage.shared import SharedVoices
from oscine_service.storage.voice_store import SharedVoiceStore

LIMIT_MS = 2000.0
PATIENCE_S = 60.0
WRITERS = 8
PAUSE_S = 0.13
"""Between two changes: not in step with how often a machine looks."""


def measure(folder: Path, kind: str, voices: int, voice: Callable[[int], VoicePrompt], changes: int) -> dict[str, Any]:
    """kind: "s3" or "file". voice: makes the one of that number."""
    with _source(folder, kind) as address:
        shared = SharedVoices(opened(address))
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(lambda number: SharedVoiceStore(shared).add(voice(number)), range(voices)))
        with ExitStack() as machines:
            began = time.perf_counter()
            machines.enter_context(_machine(address, folder / "there"))
            first_copy_s = time.perf_counter() - began
            machines.enter_context(_machine(address, folder / "here"))
            here, there = Copy(folder / "here", str(address)), Shelf(folder / "there")
            if (count := len(there.list())) != voices:
                raise RuntimeError(f"{count} of {voices} voices were copied")
            store, added, seen, gone = SharedVoiceStore(shared, here), [], [], []
            for number in range(voices, voices + changes):
                one = voice(number)
                before = time.perf_counter()
                stored = store.add(one)
                done = time.perf_counter()
                added.append(done - before)
                _until(lambda name=stored.name: _has(there, name))
                seen.append(time.perf_counter() - done)
                time.sleep(PAUSE_S)
                store.remove(stored.name)
                done = time.perf_counter()
                _until(lambda name=stored.name: not _has(there, name))
                gone.append(time.perf_counter() - done)
                time.sleep(PAUSE_S)
            with closing(here):
                before = time.perf_counter()
                Mirror(shared, here).look()
                look_s = time.perf_counter() - before
    return {
        "shared": kind,
        "voices": voices,
        "changes": changes,
        "first_copy_s": round(first_copy_s, 1),
        "look_ms": round(1e3 * look_s, 1),
        "add_ms": _milliseconds(added),
        "seen_ms": _milliseconds(seen),
        "gone_ms": _milliseconds(gone),
        "limit_ms": LIMIT_MS,
        "ok": 1e3 * max(*seen, *gone) < LIMIT_MS,
    }


@contextmanager
def _source(folder: Path, kind: str) -> Iterator[Address]:
    with bucket.serving(folder / "server") if kind == "s3" else nullcontext() as server:
        if server is None:
            (folder / "shared").mkdir()
            yield Address("file", "", str(folder / "shared"))
        else:
            os.environ.update(server.environment)
            yield Address("s3", bucket.BUCKET, "measured")


@contextmanager
def _machine(address: Address, folder: Path) -> Iterator[None]:
    """A copy that is kept up to date as a service has it kept."""
    Copy(folder, str(address)).close()
    command = [sys.executable, "-P", "-m", "oscine_service.storage", "--source", str(address), "--copy", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            if error := json.loads(process.stdout.readline())["error"]:
                raise RuntimeError(error)
            yield
        finally:
            process.stdin.close()


def _has(shelf: Shelf, name: str) -> bool:
    try:
        shelf.packed(shelf.find(name))
    except UnknownVoice:
        return False
    return True


def _until(true: Callable[[], bool]) -> None:
    end = time.perf_counter() + PATIENCE_S
    while not true():
        if time.perf_counter() > end:
            raise RuntimeError(f"nothing was seen in {PATIENCE_S:g} s")
        time.sleep(0.005)


def _milliseconds(times: list[float]) -> dict[str, float | None]:
    return ranks(times, 50, 99, 100, scale=1e3, digits=1)
