"""`oscine batch`: a list of texts, said offline into a folder; what is there already is not said again."""

import argparse
import asyncio
import hashlib
import math
import time
from collections.abc import Iterator
from contextlib import aclosing, closing, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oscine_engine.errors import OscineError, UnknownVoice
from oscine_service.batch import lists
from oscine_service.batch.journal import NAME, Journal, key
from oscine_service.batch.lists import Line
from oscine_service.cli.progress import Bar
from oscine_service.config import parse

if TYPE_CHECKING:
    from oscine_engine.settings import EngineSettings
    from oscine_engine.voices.catalogue import Catalogue
    from oscine_service.batch.packing import Job, Said

HELP = "speak a list of texts into a folder, many at a time; carries on where it was interrupted"
ON_CPU, ON_GPU = 8, 32
"""Texts at a time."""


class SomeFailed(OscineError):
    """Lines of the list could not be said; the others were."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "list",
        type=Path,
        metavar="LIST",
        help="a text a line; or id|text, id|voice|text, id|transcript|recording|text (as Seed-TTS has it), or JSON "
        "objects",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", required=True, help="folder for speech and results")
    parser.add_argument("--format", choices=["wav", "ogg"], default="wav", help="of the files (default %(default)s)")
    parser.add_argument("--voice", help="for lines that name none (default: the model's first)")
    parser.add_argument("--seed", type=int, default=0, help="of lines that name none (default %(default)s)")
    parser.add_argument(
        "--mode",
        choices=["sentence", "interleaved", "auto"],
        default="sentence",
        help="how lines are read that do not say (default %(default)s)",
    )
    parser.add_argument(
        "--together", type=parse.count, metavar="N", help=f"texts at a time (default {ON_CPU}, on a GPU {ON_GPU})"
    )


@dataclass(frozen=True, slots=True)
class Ready:
    """A line, and the digest of what decides how it sounds."""

    line: Line
    key: str


async def batch(options: argparse.Namespace, settings: "EngineSettings") -> None:
    """Say what has not been said yet. Raises InvalidInput for a list that is none, SomeFailed where lines failed."""
    from oscine_codecs import opus

    lines = lists.read(options.list)
    if options.format == "ogg":
        opus.require()
    with Journal(options.output) as journal:
        ready = await asyncio.to_thread(_prepare, lines, options, settings)
        left = [each for each in ready if journal.done(each.line.id, each.key) is None]
        summary = Summary(len(lines), len(lines) - len(left))
        if left:
            await _say(left, options, settings, journal, summary)
    print(summary.words(options.output))
    if summary.failed:
        raise SomeFailed(f"{summary.failed} of {len(lines)} lines failed; {options.output / NAME} says why")


async def _say(
    ready: "list[Ready]",
    options: argparse.Namespace,
    settings: "EngineSettings",
    journal: Journal,
    summary: "Summary",
) -> None:
    from oscine_engine.engine import Engine
    from oscine_service.batch.packing import speak_all
    from oscine_service.recordings import decode

    together = options.together or (ON_CPU if settings.device == "cpu" else ON_GPU)
    recordings = any(each.line.recording is not None for each in ready)
    # Nobody listens, so nobody can run dry: places are all that there is to admit by.
    settings = replace(settings, max_streams=together, utilisation=math.inf, references=recordings)
    by_id = {each.line.id: each for each in ready}
    async with (
        Engine.load(settings, decode=decode) as engine,
        aclosing(speak_all(engine, _jobs(ready, options), together)) as results,
    ):
        bar, began = Bar(len(ready)), time.monotonic()
        try:
            async for said in results:
                entry = await asyncio.to_thread(_keep, said, by_id[said.job.name], options, engine.sample_rate)
                journal.add(entry)
                seconds, failed = float(entry.get("seconds", 0.0)), "error" in entry
                summary.count(seconds, failed, time.monotonic() - began)
                bar.step(seconds, failed=failed)
        finally:
            bar.end()


@dataclass(slots=True)
class Summary:
    """there: lines that an earlier run has said."""

    lines: int
    there: int
    said: int = 0
    failed: int = 0
    seconds: float = 0.0
    wall_s: float = 0.0

    def count(self, seconds: float, failed: bool, wall_s: float) -> None:
        self.failed += failed
        self.said += not failed
        self.seconds += seconds
        self.wall_s = wall_s

    def words(self, folder: Path) -> str:
        parts = [f"{self.said} of {self.lines} lines said"]
        if self.there:
            parts.append(f"{self.there} were there already")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.wall_s and self.seconds:
            pace = self.seconds / self.wall_s
            parts.append(f"{self.seconds:.1f} s of speech in {self.wall_s:.1f} s, {pace:.2f} times real time")
        return f"{', '.join(parts)}: {folder}"


def _prepare(lines: list[Line], options: argparse.Namespace, settings: "EngineSettings") -> list[Ready]:
    from oscine_engine.voices.catalogue import Catalogue

    model, ready = _fingerprint(settings), []

    @cache
    def heard(path: Path) -> str | None:
        """None for one that cannot be read, which its line is told when its turn has come."""
        try:
            return hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            return None

    with closing(Catalogue(settings.voices)) if settings.voices is not None else nullcontext() as store:
        for line in lines:
            decisive = {**_settled(line, options), "model": model, "format": options.format}
            if line.recording is not None:
                decisive["recording"] = heard(line.recording)
            elif store is not None and decisive["voice"] is not None:
                decisive["stored"] = _digest(store, decisive["voice"])
            ready.append(Ready(line, key(decisive)))
    return ready


def _settled(line: Line, options: argparse.Namespace) -> dict[str, Any]:
    """What the line says, and the command where it does not; without the recording."""
    settled = {**asdict(line), "seed": options.seed if line.seed is None else line.seed}
    settled["mode"] = line.mode or options.mode
    if line.recording is None:
        settled["voice"] = line.voice or options.voice
    del settled["id"], settled["recording"]
    return settled


def _fingerprint(settings: "EngineSettings") -> list[Any]:
    """Other weights in the same folder are another model."""
    from oscine_engine.checkpoint import layout

    files = layout.find(settings.model, settings.lm_file)
    weights = [path.stat() for path in (files.lm, files.flow, files.vocoder)]
    where = "embedded" if settings.model is None else str(settings.model.resolve())
    return [where, settings.lm_file, settings.precision, *((each.st_size, each.st_mtime_ns) for each in weights)]


def _digest(store: "Catalogue", voice: str) -> str | None:
    """What a voice of the store sounds like just now; None for one that it does not have."""
    try:
        return store.find(voice).digest
    except UnknownVoice:
        return None


def _jobs(ready: list[Ready], options: argparse.Namespace) -> "Iterator[Job]":
    from oscine_engine.events import Mode
    from oscine_service.batch.asking import request
    from oscine_service.batch.packing import Job

    for each in ready:
        ask = partial(request, each.line, voice=options.voice, mode=Mode(options.mode), seed=options.seed)
        yield Job(each.line.id, each.line.text, ask)


def _told(each: Ready, options: argparse.Namespace) -> dict[str, Any]:
    line = each.line
    settled = _settled(line, options)
    told = {"id": line.id, "key": each.key, "text": line.text, "seed": settled["seed"], "mode": str(settled["mode"])}
    told |= {"recording": str(line.recording)} if line.recording is not None else {"voice": settled["voice"]}
    return told


def _keep(said: "Said", each: Ready, options: argparse.Namespace, rate: int) -> dict[str, Any]:
    """Write the speech, and return what the journal is told."""
    from oscine_service.cli.sinks import open_sink

    told = _told(each, options)
    if said.error is not None:
        return {**told, "error": str(said.error)}
    path = options.output / f"{each.line.id}.{options.format}"
    with open_sink(path, rate) as sink:
        sink.write(said.samples)
    return {
        **told,
        "file": path.name,
        "seconds": round(len(said.samples) / rate, 3),
        "segments": said.stats.segments if said.stats else 0,
        "wall_s": round(said.wall_s, 3),
    }
