"""Does a long text sound as loud, and cost as much, at its end as at its start? python -m bench.evenness [--json]

Speaks one text of `--characters` (20,000: the sentences of `--file` over and over) in one session, as fast as it goes,
and looks at every sentence: how loud it is (`guards.levels.speech_level` of its mel, dBFS, so pauses do not count), and
what it took (CPU seconds of the one thread that computes, for a second of its speech).

Keys of the printed object:

* `benchmark`, `model`, `host` (as in first_packet), `voice`, `seed`, `characters`, `sentences`, `audio_s`;
* `level_db`: median over the sentences; `band_db`: loudest minus quietest sentence; `drift_db`: mean of the last tenth
  of the sentences minus mean of the first, at most 1 either way expected;
* `spread_db`: standard deviation over sentences with the same text, where there are any: what chance alone does;
* `cost_ratio`: cost of the last tenth over that of the first, at most 1.1 expected;
* `rss_growth`: resident memory at the end over that in the middle, minus 1, at most 0.02 expected (before that, pages
  are used for the first time); `rss_mib`: after each tenth;
* `retried`: sentences that needed a second attempt; `levels_db`: every sentence's level; `ok`.

The exit status is 1 if `ok` is false: one of the expectations failed, or sentences differ by more than MOST_BAND_DB.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

import torch

from bench.figures import host, resident
from bench.model import add_model, model_directory, model_name
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import OscineError
from oscine_engine.events import Audio, Mode, SessionRequest
from oscine_engine.guards.levels import speech_level
from oscine_engine.runtime.trace import Said, Solved, Ticked, Trace

SENTENCES = Path(__file__).parent / "sentences" / "en.txt"
MOST_DRIFT_DB, MOST_BAND_DB = 1.0, 10.0
MOST_COST_RATIO, MOST_RSS_GROWTH = 1.1, 0.02


@dataclass(slots=True)
class Sentence:
    """What came of one sentence. cpu_s: of all stages since the sentence before was done."""

    text: tuple[int, ...] = ()
    retried: bool = False
    level_db: float = 0.0
    seconds: float = 0.0
    cpu_s: float = 0.0
    rss: int = 0


@dataclass(slots=True)
class Watch:
    """An observer of one stream alone."""

    frame_s: float
    done: list[Sentence] = field(default_factory=list)
    _mel: defaultdict[int, list[torch.Tensor]] = field(default_factory=lambda: defaultdict(list))
    _cpu_s: float = 0.0

    def __call__(self, event: Trace) -> None:
        match event:
            case Ticked():
                self._cpu_s += event.cpu_s
            case Solved():
                self._mel[event.segment].append(event.mel.float().cpu())
            case Said():
                mel = torch.cat(self._mel.pop(event.segment)).numpy()
                sentence = Sentence(text=event.text, retried=len(event.draws) > 1, level_db=speech_level(mel))
                sentence.seconds, sentence.cpu_s, self._cpu_s = len(mel) * self.frame_s, self._cpu_s, 0.0
                sentence.rss = resident()
                self.done.append(sentence)


def figures(sentences: Sequence[Sentence]) -> dict[str, Any]:
    """See the top of this file. At least two sentences are needed."""
    tenth = max(1, len(sentences) // 10)
    first, last = sentences[:tenth], sentences[-tenth:]
    levels = [sentence.level_db for sentence in sentences]
    alike: defaultdict[tuple[int, ...], list[float]] = defaultdict(list)
    for sentence in sentences:
        alike[sentence.text].append(sentence.level_db)
    repeated = [pstdev(group) for group in alike.values() if len(group) > 1]
    costs = [sum(s.cpu_s for s in part) / sum(s.seconds for s in part) for part in (first, last)]
    drift = fmean(s.level_db for s in last) - fmean(s.level_db for s in first)
    band = max(levels) - min(levels)
    cost_ratio, rss_growth = costs[1] / costs[0], last[-1].rss / sentences[len(sentences) // 2].rss - 1
    return {
        "sentences": len(sentences),
        "level_db": round(median(levels), 2),
        "band_db": round(band, 2),
        "drift_db": round(drift, 2),
        "spread_db": round(fmean(repeated), 2) if repeated else None,
        "cost_ratio": round(cost_ratio, 3),
        "rss_growth": round(rss_growth, 4),
        "rss_mib": [round(sentence.rss / 2**20) for sentence in sentences[tenth - 1 :: tenth]],
        "retried": sum(sentence.retried for sentence in sentences),
        "levels_db": [round(level, 1) for level in levels],
        "ok": abs(drift) <= MOST_DRIFT_DB
        and band <= MOST_BAND_DB
        and cost_ratio <= MOST_COST_RATIO
        and rss_growth <= MOST_RSS_GROWTH,
    }


def long_text(sentences: Sequence[str], characters: int) -> str:
    """The sentences over and over until there are so many characters; the last one is whole."""
    text, length = [], 0
    for sentence in itertools.cycle(sentences):
        if length >= characters:
            return "".join(text)
        text.append(f"{sentence} ")
        length += len(text[-1])
    raise ValueError("there are no sentences to speak")


async def measure(model: Path | None, text: str, voice: str | None, seed: int) -> dict[str, Any]:
    """Speak `text` in one session."""
    watch = Watch(frame_s=0.02)
    samples = 0
    async with Engine.load(EngineSettings(model=model), observe=watch) as engine:
        async with await engine.open(SessionRequest(voice=voice, mode=Mode.SENTENCE, seed=seed)) as session:

            async def write() -> None:
                await session.append(text)
                await session.finish()

            async with asyncio.TaskGroup() as group:
                group.create_task(write())
                async for event in session:
                    if isinstance(event, Audio):
                        samples += len(event.samples)
        audio_s = samples / engine.sample_rate
        return {
            "voice": session.started.voice,
            "seed": seed,
            "characters": len(text),
            "audio_s": round(audio_s, 1),
            **figures(watch.done),
        }


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, default=SENTENCES, help="sentences, one a line, UTF-8")
    parser.add_argument("--characters", type=int, default=20_000)
    parser.add_argument("--voice", help="default: the model's first voice")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    add_model(parser)
    arguments = parser.parse_args()
    try:
        lines = [line.strip() for line in arguments.file.read_text(encoding="utf-8").splitlines() if line.strip()]
        text = long_text(lines, arguments.characters)
        with model_directory(arguments.model) as model:
            result = asyncio.run(measure(model, text, arguments.voice, arguments.seed))
    except (OSError, UnicodeDecodeError, ValueError, OscineError) as error:
        raise SystemExit(f"bench.evenness: {error}") from error
    result = {"benchmark": "evenness", "model": model_name(arguments.model), "host": host(), **result}
    if arguments.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        print(json.dumps({k: v for k, v in result.items() if k != "levels_db"}, ensure_ascii=False, indent=1))
    sys.exit(0 if result["ok"] else 1)


if __name__ == "__main__":
    main()
