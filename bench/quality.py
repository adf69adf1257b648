"""How good is the speech? One table: python -m bench quality [LIST ...] [--json]

Every voice says every line of a list in every mode, many at a time, which changes nothing that is said. Without LIST:
`bench/sentences`. Voices say lists of their own language; those named with --voice say every LIST. A LIST has the forms
that `oscine batch` takes; of one in that of Seed-TTS (`id|transcript|recording|text`, as its `meta.lst`) each line is
said in the voice of its own recording, which makes one row a mode. Objects may ask for a speed or an instruction.
Nothing is chosen or tried again; a line that fails counts as wholly wrong. Modes: `whole` sentences, `interleaved`,
`auto`, and `sound`, whole sentences of which the model has heard the sound of the recording and not its words (the
cross-lingual form).

Keys of the printed object: `benchmark`, `model`, `host`, `seed`, and `rows`, of each:

* `list`, `voice` (or "recordings"), `language`, `mode`; `lines`, `failed`; `audio_s`;
* `error_rate`: edits over words (English) or characters (Mandarin); `syllables`: Mandarin, the same over syllables
  without tones, which homophones do not count in;
* `similarity`: cosine (Resemblyzer) of each line to its reference: the recording, or the mean of what the voice has
  said in whole sentences, the line itself left out; `mos`: DNSMOS overall, 1 to 5;
* `leading_silence_s`: median until the first window of 10 ms within 40 dB of the loudest;
* `jump_db`, `elsewhere_db`: median spectral jump where chunks of the flow meet, and at all other places; `jump_rank`:
  how often an other place jumps less, `packet_rank`: likewise where packets meet, `click_rank`: likewise of clicks
  there. 0.5 is what places have that nobody can tell from others (`bench/joins.py`); of lines of one segment; `joins`:
  how many.

The exit status is 1 if a line failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench import joins
from bench.asr import Language, MissingPackage, OpinionScore, Recogniser, Samples
from bench.figures import host
from bench.intelligibility import leading_silence
from bench.model import add_model, model_directory, model_name
from bench.speakers import Embedding, Speakers, likeness
from oscine_codecs import files as audio_files
from oscine_codecs.errors import CodecError
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import InvalidInput, OscineError
from oscine_engine.events import Mode
from oscine_service.batch import lists
from oscine_service.batch.asking import request
from oscine_service.batch.lists import Line
from oscine_service.batch.packing import Job, Said, speak_all
from oscine_service.listening.scoring import edits, syllables, units
from oscine_service.recordings import decode
from oscine_service.reward.judge import language_of

SENTENCES = Path(__file__).parent / "sentences"
MODES = {
    "whole": (Mode.SENTENCE, None),
    "interleaved": (Mode.INTERLEAVED, None),
    "auto": (Mode.AUTO, None),
    "sound": (Mode.SENTENCE, True),
}
"""How a text is read, and whether only the sound of a recording is taken, not its words (the cross-lingual form)."""
RECORDINGS = "recordings"
ON_CPU, ON_GPU = 4, 32
"""Lines at a time."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one row of the table is about. voice: None for each line's own recording."""

    list: str
    voice: str | None
    language: Language
    mode: str
    lines: tuple[Line, ...]

    @property
    def name(self) -> str:
        return f"{self.list} {self.voice or RECORDINGS} {self.mode}"


def rows_of(
    paths: Sequence[Path],
    voices: Mapping[str, Language],
    modes: Sequence[str],
    limit: int | None,
    *,
    foreign: bool = False,
) -> Iterator[Row]:
    """Of each list, voice and mode. foreign: voices say lists of other languages, too.

    Raises InvalidInput for a list in a language that no voice has.
    """
    for path, name in zip(paths, names(paths), strict=True):
        lines = tuple(lists.read(path)[:limit])
        language = language_of(" ".join(line.text for line in lines))
        if any((line.recording is None) != (lines[0].recording is None) for line in lines):
            raise InvalidInput(f"{path}: some lines have recordings and some have none; make two lists of it")
        own = lines[0].recording is not None
        speakers = [None] if own else [each for each, spoken in voices.items() if foreign or spoken == language]
        if not speakers:
            raise InvalidInput(f"{path}: the model has no voice of its language ({language}); name one with --voice")
        for voice in speakers:
            for mode in modes:
                yield Row(name, voice, language, mode, lines)


def names(paths: Sequence[Path]) -> list[str]:
    """What lists are called: as short as tells them apart (Seed-TTS calls each of its `meta.lst`)."""
    for called in (lambda path: path.stem, lambda path: f"{path.parent.name}/{path.stem}", str):
        found = [called(path) for path in paths]
        if len(set(found)) == len(found):
            return found
    raise InvalidInput("the same list is named twice; name it once")


def jobs_of(rows: Sequence[Row], seed: int) -> Iterator[Job]:
    for row in rows:
        for line in row.lines:
            mode, cross_lingual = MODES[row.mode]
            # The row says who speaks, and how; the line may ask for anything else.
            plain = replace(line, voice=None, mode=None, seed=None)
            ask = partial(request, plain, voice=row.voice, mode=mode, seed=seed, cross_lingual=cross_lingual)
            yield Job(f"{row.name} {line.id}", line.text, ask)


async def spoken(engine: Engine, rows: Sequence[Row], seed: int, together: int) -> dict[str, Said]:
    found: dict[str, Said] = {}
    count = sum(len(row.lines) for row in rows)
    async with aclosing(speak_all(engine, jobs_of(rows, seed), together)) as results:
        async for said in results:
            found[said.job.name] = said
            print(f"\rspoken {len(found)}/{count}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


class Judges:
    """All that listens, loaded once."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.opinion, self.speakers = OpinionScore(), Speakers()
        self._recognisers: dict[Language, Recogniser] = {}
        self._voices: dict[str, list[tuple[str, Embedding]]] = {}
        """What each voice sounds like in each line that it says whole."""

    def recogniser(self, language: Language) -> Recogniser:
        if language not in self._recognisers:
            self._recognisers[language] = Recogniser(language)
        return self._recognisers[language]

    def learn(self, row: Row, said: Mapping[str, Said]) -> None:
        """Of voices without a recording: what they say in whole sentences is their reference, or else in the first mode
        that there is."""
        if row.mode != "whole" and f"{row.list} {row.voice}" in self._voices:
            return
        heard = [(line.id, said[f"{row.name} {line.id}"]) for line in row.lines]
        sounds = [(name, self.speakers(each.samples, self.rate)) for name, each in heard if _sounds(each)]
        self._voices[f"{row.list} {row.voice}"] = sounds

    def similarity(self, row: Row, line: Line, samples: Samples) -> float | None:
        sound = self.speakers(samples, self.rate)
        if line.recording is not None:
            recorded, rate = audio_files.decode(line.recording.read_bytes())
            return likeness(sound, self.speakers(recorded, rate))
        others = [each for name, each in self._voices.get(f"{row.list} {row.voice}", ()) if name != line.id]
        if not others:
            return None
        mean = np.mean(others, 0)
        return likeness(sound, (mean / np.linalg.norm(mean)).astype(np.float32))


def judged(row: Row, said: Mapping[str, Said], judges: Judges) -> dict[str, Any]:
    """One row's figures."""
    wanted = wrong = wanted_syllables = wrong_syllables = 0
    similarities: list[float] = []
    scores: list[float] = []
    silences: list[float] = []
    pieces: list[joins.Jumps] = []
    failed: dict[str, str] = {}
    audio = 0.0
    for line in row.lines:
        each = said[f"{row.name} {line.id}"]
        heard = ""
        if _sounds(each):
            heard = judges.recogniser(row.language).transcribe(each.samples, judges.rate)
            scores.append(judges.opinion(each.samples, judges.rate))
            silences.append(leading_silence(each.samples, judges.rate))
            if (similarity := judges.similarity(row, line, each.samples)) is not None:
                similarities.append(similarity)
            if each.stats is not None and each.stats.segments == 1:
                pieces.append(joins.measure(each.samples, each.joins))
            audio += len(each.samples) / judges.rate
        else:
            failed[line.id] = str(each.error or "no sound")
        should = units(row.language, line.text)
        wanted += len(should)
        wrong += edits(units(row.language, heard), should)
        if row.language == "zh":
            sounded = syllables(line.text)
            wanted_syllables += len(sounded)
            wrong_syllables += edits(syllables(heard), sounded)
    jumps = joins.together(pieces)
    return {
        "list": row.list,
        "voice": row.voice or RECORDINGS,
        "language": row.language,
        "mode": row.mode,
        "lines": len(row.lines),
        "failed": failed,
        "audio_s": round(audio, 1),
        "error_rate": round(wrong / max(1, wanted), 4),
        "syllables": round(wrong_syllables / wanted_syllables, 4) if wanted_syllables else None,
        "similarity": _rounded(np.mean, similarities, 3),
        "mos": _rounded(np.mean, scores, 2),
        "leading_silence_s": _rounded(np.median, silences, 3),
        "jump_db": _rounded(np.median, jumps.chunk_jump, 1),
        "elsewhere_db": _rounded(np.median, jumps.other_jump, 1),
        "jump_rank": _rank(jumps.chunk_jump, jumps.other_jump),
        "packet_rank": _rank(jumps.packet_jump, jumps.other_jump),
        "click_rank": _rank(jumps.packet_click, jumps.other_click),
        "joins": len(jumps.chunk_jump),
    }


def _sounds(said: Said) -> bool:
    return said.error is None and bool(np.any(said.samples))


def _rounded(mean: Any, values: Any, digits: int) -> float | None:
    return round(float(mean(values)), digits) if len(values) else None


def _rank(values: joins.Values, others: joins.Values) -> float | None:
    found = joins.rank(values, others)
    return None if found is None else round(found, 2)


COLUMNS = {
    "list": "list",
    "voice": "voice",
    "mode": "mode",
    "lines": "lines",
    "error_rate": "errors",
    "syllables": "syllables",
    "similarity": "similarity",
    "mos": "opinion",
    "leading_silence_s": "silence, s",
    "jump_db": "jump, dB",
    "elsewhere_db": "elsewhere",
    "jump_rank": "rank",
    "packet_rank": "of packets",
    "click_rank": "of clicks",
}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """In Markdown."""
    shown = [[_shown(name, row[name]) for name in COLUMNS] for row in rows]
    cells = [list(COLUMNS.values()), ["---"] * len(COLUMNS), *shown]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f} %" if name in ("error_rate", "syllables") else str(value)


def measure(options: argparse.Namespace, model: Path | None) -> dict[str, Any]:
    async def run() -> tuple[list[Row], dict[str, Said], int]:
        on_cpu = options.device == "cpu"
        together = ON_CPU if on_cpu else ON_GPU
        settings = EngineSettings(
            model=model,
            device=options.device,
            precision="float32" if on_cpu else "float16",
            max_streams=together,
            utilisation=math.inf,
            references=True,
        )
        async with Engine.load(settings, decode=decode) as engine:
            known: dict[str, Language] = {
                name: "zh" if voice.language == "zh" else "en" for name, voice in engine.voices.items()
            }
            if options.voice:
                if missing := [name for name in options.voice if name not in known]:
                    raise InvalidInput(f"there is no voice {missing[0]!r}; this model has {', '.join(known)}")
                known = {name: known[name] for name in options.voice}
            foreign = bool(options.voice and options.lists)
            paths = options.lists or [SENTENCES / f"{language}.txt" for language in dict.fromkeys(known.values())]
            rows = list(rows_of(paths, known, options.mode or list(MODES)[:2], options.limit, foreign=foreign))
            return rows, await spoken(engine, rows, options.seed, together), engine.sample_rate

    rows, said, rate = asyncio.run(run())
    judges = Judges(rate)
    for row in rows:
        if row.voice is not None:
            judges.learn(row, said)
    found = []
    for row in rows:
        found.append(judged(row, said, judges))
        if not options.json:
            print(f"{row.name}: {found[-1]['error_rate']:.3f}", file=sys.stderr, flush=True)
    return {"seed": options.seed, "rows": found}


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(
        prog="python -m bench quality", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", nargs="*", type=Path, metavar="LIST", help="default: bench/sentences")
    add_model(parser)
    parser.add_argument("--mode", action="append", choices=list(MODES), help="default: whole and interleaved")
    parser.add_argument("--voice", action="append", help="default: all of the model's")
    parser.add_argument("--limit", type=int, help="only the first lines of each list")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="default %(default)s")
    parser.add_argument("--json", action="store_true", help="print one object, on one line")
    options = parser.parse_args()
    if options.limit is not None and options.limit < 1:
        parser.error("--limit must be at least 1")
    torch.set_num_threads(1)
    try:
        with model_directory(options.model) as directory:
            found = measure(options, directory)
    except (OSError, MissingPackage, CodecError, OscineError) as error:
        raise SystemExit(f"bench.quality: {error}") from error
    figures = {"benchmark": "quality", "model": model_name(options.model), "host": host(), **found}
    print(json.dumps(figures, ensure_ascii=False) if options.json else table(found["rows"]))
    sys.exit(1 if any(row["failed"] for row in found["rows"]) else 0)


if __name__ == "__main__":
    main()
