"""Is speech still understood as it may be asked for? python -m bench.options [--lines N] [--only TEXT] [--json]

Speaks the first N lines of bench/sentences/en.txt and zh.txt whole, in the embedded voice, once as usual and once for
every other way of asking, and transcribes all of it. One seed for all, no retries, nothing chosen. A line that fails
counts as wholly wrong.

Keys of the printed object:

* `rows`: for each way of asking `asked`; `wer` and `cer`: edits over words and over characters, fractions; `seconds`:
  of sound; `failed`: lines that ended with an error;
* `lines`: of each language; `voices`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.asr import Language, MissingPackage, Recogniser
from bench.intelligibility import Spoken, speak
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import OscineError
from oscine_engine.events import Mode, SessionRequest
from oscine_service.listening.scoring import edits, units

SENTENCES = Path(__file__).parent / "sentences"
LANGUAGES: dict[Language, str] = {"en": "wer", "zh": "cer"}
"""And what their errors are called."""
TOGETHER = 8
"""Lines said side by side."""
ASKED: tuple[dict[str, Any], ...] = (
    {},
    *({"speed": speed} for speed in (0.5, 0.7, 1.5, 2.0)),
    *({"temperature": temperature} for temperature in (0.1, 0.5, 1.5, 2.0)),
    *({"top_p": share} for share in (0.1, 0.8, 1.0)),
    {"top_k": 5},
    {"repetition_window": 0},
    {"repetition_limit": 1},
)
"""The first is as usual; each of the others changes one thing."""


def shown(asked: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in asked.items()) or "as usual"


async def measure(lines: int, only: str) -> dict[str, Any]:
    """All ways of asking whose name holds `only`, on so many lines of each language; lines are said side by side."""
    rows = []
    texts = {lang: (SENTENCES / f"{lang}.txt").read_text(encoding="utf-8").splitlines()[:lines] for lang in LANGUAGES}
    hearing = {lang: Recogniser(lang) for lang in LANGUAGES}
    async with Engine.load(EngineSettings(max_streams=TOGETHER, utilisation=math.inf)) as engine:
        known, places = engine.voices.items(), asyncio.Semaphore(TOGETHER)
        voices = {lang: next(name for name, voice in known if voice.language == lang) for lang in LANGUAGES}

        async def said(text: str, lang: Language, asked: dict[str, Any]) -> Spoken:
            async with places:
                request = SessionRequest(voice=voices[lang], mode=Mode.SENTENCE, seed=1, **asked)
                return await speak(engine, request, text, lang)

        for asked in (each for each in ASKED if only in shown(each)):
            row: dict[str, Any] = {"asked": shown(asked), "seconds": 0.0, "failed": 0}
            for lang, name in LANGUAGES.items():
                spoken = await asyncio.gather(*(said(text, lang, asked) for text in texts[lang]))
                heard = [_transcribed(each, hearing[lang]) for each in spoken]
                wanted = [units(lang, text) for text in texts[lang]]
                wrong = [edits(words, units(lang, text)) for words, text in zip(wanted, heard, strict=True)]
                row[name] = sum(wrong) / sum(map(len, wanted))
                row["seconds"] += sum(len(each.samples) / each.rate for each in spoken)
                row["failed"] += sum(each.error is not None for each in spoken)
            rows.append(row)
            print(told(row), file=sys.stderr, flush=True)
    return {"benchmark": "options", "rows": rows, "lines": lines, "voices": voices}


def _transcribed(spoken: Spoken, hearing: Recogniser) -> str:
    return "" if spoken.error else hearing.transcribe(spoken.samples, spoken.rate)


def told(row: dict[str, Any]) -> str:
    return (
        f"{row['asked']:24} words {100 * row['wer']:5.1f} %  characters {100 * row['cer']:5.1f} %  "
        f"{row['seconds']:6.1f} s  {row['failed']} failed"
    )


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """As docs/benchmarks.md has it."""
    yield "| Asked | Words wrong | Characters wrong | Sound | Failed |"
    yield "|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row['asked']} | {100 * row['wer']:.1f} % | {100 * row['cer']:.1f} % | {row['seconds']:.0f} s | "
            f"{row['failed']} |"
        )


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=20, help="of each language")
    parser.add_argument("--only", default="", metavar="TEXT", help="ways of asking that hold this, such as speed")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    arguments = parser.parse_args()
    try:
        result = asyncio.run(measure(arguments.lines, arguments.only))
    except (MissingPackage, OscineError) as error:
        raise SystemExit(f"bench.options: {error}") from error
    print(json.dumps(result) if arguments.json else "\n".join(table(result["rows"])))


if __name__ == "__main__":
    main()
