"""Does a cloned voice sound like its reference? python -m bench cloning CORPUS [--json]

References are recordings that training held out (one clip in 64) of the speakers that the model has voices of. Each is
registered with its transcript, as anybody's recording would be, and speaks a line of `bench/sentences` in its language,
as do the model's own voices. Who sounds like whom is asked of Resemblyzer (`bench/speakers.py`), which knows nothing of
the model. CORPUS is a folder with `manifest.jsonl` and its shards; or a list as `oscine batch` takes them
(`id|transcript|recording|text`), of which each reference is then a speaker of its own.

A trial is one reference. It is `own` if it is nearer (cosine) to what was said in its voice than to what any other
voice says: the model's voices of other speakers, and the clones of other speakers' references.

Keys of the printed object: `benchmark`, `model`, `host`, `trials`, `seed`, and

* `own`: share of trials; `own_model`: the same against the model's voices alone; `own_language`: against voices of the
  same language alone; `limit`, `ok`: `own` is at least that;
* `likeness`: mean cosine of references and what was said in their voice; `others`: to the nearest other voice;
  `recorded`: of two references of one speaker, what a perfect clone would have; `strangers`: of two speakers' ones;
* `error_rate`: of what the clones said, by the recogniser of `bench.asr`, with --hear;
* `speakers`: of each, `trials`, `own`, `likeness`, `others` and `mistaken`: whom its references were nearer to, and how
  often; `refused`: recordings that registration did not take, and why; `failed`: sentences.

The exit status is 0 only if `ok`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from bench.asr import Language, MissingPackage, Recogniser, Samples
from bench.figures import host
from bench.model import add_model, model_directory, model_name
from bench.speakers import Embedding, Speakers, likeness
from oscine_codecs import files as audio_files
from oscine_codecs.errors import CodecError
from oscine_engine.checkpoint import layout
from oscine_engine.checkpoint.configuration import read_config
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import InvalidInput, OscineError
from oscine_engine.events import Mode, SessionRequest
from oscine_engine.voices.encoders import Encoders
from oscine_engine.voices.registration import Reference, register
from oscine_engine.voices.store import VoiceStore
from oscine_service.batch import lists
from oscine_service.batch.packing import Job, Said, speak_all
from oscine_service.listening.scoring import edits, units
from training.data import is_valid
from training.prompts import RATE, SOURCES, read_clips

SENTENCES = Path(__file__).parent / "sentences"
LIMIT = 0.9
TOGETHER = 4


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """One reference. text: what its clone is to say."""

    name: str
    speaker: str
    language: Language
    samples: Samples
    rate: int
    transcript: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """A voice that says a line, and how it sounds; own voices of the model have no reference."""

    speaker: str
    language: Language
    voice: str
    sound: Embedding
    reference: str | None


def sentences(language: Language) -> list[str]:
    return [line for line in (SENTENCES / f"{language}.txt").read_text(encoding="utf-8").splitlines() if line]


def from_corpus(corpus: Path, each: int, least_s: float) -> list[Recorded]:
    """The first `each` held-out clips of every speaker that are long enough."""
    lines = [json.loads(line) for line in (corpus / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]
    prompts = {source.clip for source in SOURCES}
    chosen: list[Mapping[str, Any]] = []
    for source in SOURCES:
        of = [m for m in lines if m["voice"] == source.voice and is_valid(m["id"]) and m["id"] not in prompts]
        chosen += [m for m in of if m["seconds"] >= least_s][:each]
    waves = read_clips(corpus, {m["id"]: m for m in chosen})
    names = {source.voice: source.name for source in SOURCES}
    found = []
    for number, m in enumerate(chosen):
        language: Language = "zh" if m["lang"] == "zh" else "en"
        texts = [text for text in sentences(language) if text != m["text"]]
        wave = waves[m["id"]].numpy()
        text = texts[number % len(texts)]
        found.append(Recorded(m["id"], names[m["voice"]], language, wave, RATE, m["text"], text))
    return found


def from_list(path: Path) -> list[Recorded]:
    found = []
    for line in lists.read(path):
        if line.recording is None:
            raise InvalidInput(f"{path}: line {line.id!r} has no recording")
        samples, rate = audio_files.decode(line.recording.read_bytes())
        language: Language = "zh" if any("\u4e00" <= char <= "\u9fff" for char in line.text) else "en"
        found.append(Recorded(line.id, line.id, language, samples, rate, line.transcript, line.text))
    return found


def registered(recorded: Sequence[Recorded], model: Path | None, folder: Path) -> dict[str, str]:
    """Put every reference into a store under its own name; those that were refused, and why."""
    files = layout.find(model)
    encoders, front_end = Encoders(*files.encoders()), read_config(files).text.front_end
    store, refused = VoiceStore(folder), {}
    for each in recorded:
        reference = Reference(f"clone-{each.name}", each.transcript, each.language)
        try:
            store.add(register(each.samples, each.rate, reference, encoders, front_end))
        except InvalidInput as error:
            refused[each.name] = str(error)
    store.close()
    return refused


async def spoken(jobs: Sequence[Job], model: Path | None, store: Path) -> tuple[dict[str, Said], int]:
    """What became of each job, and the rate of its samples."""
    settings = EngineSettings(model=model, voices=store, max_streams=TOGETHER, utilisation=math.inf)
    said: dict[str, Said] = {}
    async with Engine.load(settings) as engine, aclosing(speak_all(engine, jobs, TOGETHER)) as results:
        async for each in results:
            said[each.job.name] = each
            print(f"\r{len(said)}/{len(jobs)} sentences", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        return said, engine.sample_rate


def measure(
    recorded: Sequence[Recorded], model: Path | None, shipped: Sequence[str], seed: int, hear: bool
) -> dict[str, Any]:
    speakers = Speakers()
    with tempfile.TemporaryDirectory(prefix="oscine-cloning-") as folder:
        refused = registered(recorded, model, Path(folder))
        taken = [each for each in recorded if each.name not in refused]
        whole = partial(SessionRequest, mode=Mode.SENTENCE, seed=seed)
        jobs = [Job(each.name, each.text, partial(whole, voice=f"clone-{each.name}")) for each in taken]
        of_model = {source.name: source.language for source in SOURCES if source.name in shipped}
        for voice, language in of_model.items():
            text = sentences(language)[0]
            jobs.append(Job(f"voice {voice}", text, partial(whole, voice=voice)))
        said, rate = asyncio.run(spoken(jobs, model, Path(folder)))
    failed = {name: str(each.error) for name, each in said.items() if each.error is not None}
    voices = [
        Spoken(voice, language, voice, speakers(said[f"voice {voice}"].samples, rate), None)
        for voice, language in of_model.items()
        if f"voice {voice}" not in failed
    ]
    taken = [each for each in taken if each.name not in failed]
    voices += [
        Spoken(each.speaker, each.language, each.name, speakers(said[each.name].samples, rate), each.name)
        for each in taken
    ]
    sounds = {each.name: speakers(each.samples, each.rate) for each in taken}
    found = judged(taken, sounds, voices)
    if hear:
        found["error_rate"] = heard_wrong(taken, said, rate)
    return {"trials": len(taken), "seed": seed, **found, "refused": refused, "failed": failed}


def judged(taken: Sequence[Recorded], sounds: Mapping[str, Embedding], voices: Sequence[Spoken]) -> dict[str, Any]:
    """Figures of trials; see the top of this file. Raises InvalidInput where there is nobody to mistake anybody for."""
    rows = []
    for each in taken:
        own = next(likeness(sounds[each.name], voice.sound) for voice in voices if voice.reference == each.name)
        others = [(likeness(sounds[each.name], v.sound), v) for v in voices if v.speaker != each.speaker]
        if not others:
            raise InvalidInput("there is one speaker only; likeness shows beside others")
        nearest, who = max(others, key=lambda pair: pair[0])
        of_model = [value for value, voice in others if voice.reference is None]
        alike = [value for value, voice in others if voice.language == each.language]
        rows.append(
            {
                "speaker": each.speaker,
                "own": own > nearest,
                "own_model": own > max(of_model, default=-1.0),
                "own_language": own > max(alike, default=-1.0),
                "likeness": own,
                "others": nearest,
                "mistaken": None if own > nearest else who.speaker,
            }
        )
    pairs = [
        (one.speaker == other.speaker, likeness(sounds[one.name], sounds[other.name]))
        for one, other in combinations(taken, 2)
    ]
    same, different = ([value for is_same, value in pairs if is_same is wanted] for wanted in (True, False))
    summary = {name: round(mean(row[name] for row in rows), 3) for name in ("own", "own_model", "own_language")}
    by_speaker = {}
    for speaker in dict.fromkeys(each.speaker for each in taken):
        of = [row for row in rows if row["speaker"] == speaker]
        by_speaker[speaker] = {
            "trials": len(of),
            **{name: round(mean(row[name] for row in of), 3) for name in ("own", "likeness", "others")},
            "mistaken": dict(Counter(row["mistaken"] for row in of if row["mistaken"])),
        }
    return {
        **summary,
        "limit": LIMIT,
        "ok": summary["own"] >= LIMIT,
        "likeness": round(mean(row["likeness"] for row in rows), 3),
        "others": round(mean(row["others"] for row in rows), 3),
        "recorded": round(mean(same), 3) if same else None,
        "strangers": round(mean(different), 3) if different else None,
        "speakers": by_speaker,
    }


def heard_wrong(taken: Sequence[Recorded], said: Mapping[str, Said], rate: int) -> dict[str, float]:
    """Error rate of each language."""
    rates = {}
    for language in dict.fromkeys(each.language for each in taken):
        recogniser = Recogniser(language)
        wrong = total = 0
        for each in taken:
            if each.language == language:
                wanted = units(language, each.text)
                wrong += edits(units(language, recogniser.transcribe(said[each.name].samples, rate)), wanted)
                total += len(wanted)
        rates[language] = round(wrong / max(1, total), 3)
    return rates


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(
        prog="python -m bench cloning", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, metavar="CORPUS", help="folder with manifest.jsonl, or a list")
    add_model(parser)
    parser.add_argument("--each", type=int, default=10, help="references of a speaker (default %(default)s)")
    parser.add_argument("--least-s", type=float, default=2.5, help="shortest reference (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hear", action="store_true", help="transcribe what the clones say, too")
    parser.add_argument("--json", action="store_true", help="print one object, on one line")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        with model_directory(options.model) as directory:
            if options.corpus.is_dir():
                recorded = from_corpus(options.corpus, options.each, options.least_s)
                shipped = [source.name for source in SOURCES] if options.model is None else []
            else:
                recorded, shipped = from_list(options.corpus), []
            found = measure(recorded, directory, shipped, options.seed, options.hear)
    except (OSError, MissingPackage, CodecError, OscineError) as error:
        raise SystemExit(f"bench.cloning: {error}") from error
    figures = {"benchmark": "cloning", "model": model_name(options.model), "host": host(), **found}
    print(json.dumps(figures, ensure_ascii=False, indent=None if options.json else 1))
    sys.exit(0 if figures["ok"] else 1)


if __name__ == "__main__":
    main()
