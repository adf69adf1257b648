"""How right are word times? python -m bench.word_times --lang en FILE [--mode interleaved] [--json]

Speaks every line of FILE with word times, and compares each word with what another listener says of the same samples:
Whisper base with word times (faster-whisper: its cross attention, warped). It is no truth: a word starts where the one
before it ends, in steps of 20 ms. Words that it writes otherwise are left out.

A second comparison has a truth. Words of the lines are spoken one by one, each as a text of its own, and joined to one
segment with silences of 0 to 400 ms between them; a word begins with its first window of 10 ms that is within 40 dB of
its loudest, and ends with the last. Whisper's own times are compared with it, too (`asr`).

Beside the engine's times stand those of dividing the time between the first and the last sound among the words by their
numbers of sounds, which is what can be known without listening.

With `--recordings DATA`, the corpus of `training/`, a third one: starts of words in one recording of 64, those that
training.word_times holds out, against those of training.align, which stand 40 ms apart. First words are left out, since
it begins them at 0.

Keys of the printed object: `asr` and `joined` (whole mode only), each `listened` and `divided`, each `start` and `end`:
`words` compared, and of the errors in ms `median`, `mean` and `p90` of their sizes, `bias` (their median, positive for
too late) and `within_100`, a share; `aligner`: the same of the starts in recordings. Further `cpu_per_s`: seconds of a
core for a second of speech; `told_s`: how much audio behind a word's end had been handed out when it was told, median
and p95; `failed`: lines without speech. The exit status is 1 if a line failed.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import io
import json
import re
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import training
from bench.asr import Language, MissingPackage, Recogniser, Samples
from bench.pacing import INTERVAL_S, pieces
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import OscineError
from oscine_engine.events import Audio, Mode, SessionRequest, Word, Words
from oscine_engine.front import read_front_end
from oscine_engine.guards.levels import window_levels
from oscine_engine.planner import Planner, SegmentWord
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.marks import added_tokens
from oscine_engine.text.sounds import sound
from oscine_engine.text.word_sounds import Word as TextWord
from oscine_engine.word_times.features import RATE
from oscine_engine.word_times.times import WordTimes
from training.data import is_valid

MODES = {"whole": Mode.SENTENCE, "interleaved": Mode.INTERLEAVED}
WINDOW = RATE // 100
AUDIBLE_DB = 40.0
GAPS_S = (0.0, 0.1, 0.2, 0.4)
JOINED = 12
"""Words of one joined segment."""


class Timed(NamedTuple):
    """A word, seconds."""

    text: str
    start: float
    end: float


@dataclass(slots=True)
class Errors:
    """Seconds, positive for too late."""

    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        return {"start": figures(self.start), "end": figures(self.end)}


@dataclass(slots=True)
class Compared:
    """Ways to time words, against one reference."""

    listened: Errors = field(default_factory=Errors)
    divided: Errors = field(default_factory=Errors)
    asr: Errors = field(default_factory=Errors)

    def add(self, found: Sequence[Timed], even: Sequence[Timed], true: Sequence[Timed], lang: Language) -> None:
        """found, even: the same words, as they were listened to and as the time was divided."""
        starts, ends = pairs(found, true, lang)
        for errors, ours in ((self.listened, found), (self.divided, even)):
            errors.start += [ours[a].start - true[b].start for a, b in starts]
            errors.end += [ours[a].end - true[b].end for a, b in ends]

    def add_asr(self, heard: Sequence[Timed], true: Sequence[Timed], lang: Language) -> None:
        """How right the other listener is."""
        starts, ends = pairs(true, heard, lang)
        self.asr.start += [heard[b].start - true[a].start for a, b in starts]
        self.asr.end += [heard[b].end - true[a].end for a, b in ends]

    def figures(self) -> dict[str, Any]:
        """Of those that were compared."""
        ways = {"listened": self.listened, "divided": self.divided, "asr": self.asr}
        return {name: errors.figures() for name, errors in ways.items() if errors.start}


def figures(errors: Sequence[float]) -> dict[str, float | int] | None:
    """As the keys at the top of this file say; None for no words."""
    if not errors:
        return None
    ms = 1000 * np.array(errors)
    size = np.abs(ms)
    return {
        "words": len(ms),
        "median": round(float(np.median(size)), 1),
        "mean": round(float(size.mean()), 1),
        "p90": round(float(np.percentile(size, 90)), 1),
        "bias": round(float(np.median(ms)), 1),
        "within_100": round(float((size <= 100).mean()), 3),
    }


@dataclass(frozen=True, slots=True)
class Spoken:
    """One line. told_s: for each word, the audio handed out behind its end when it was told."""

    samples: Samples
    words: list[Word]
    told_s: list[float]
    error: str | None


async def speak(engine: Engine, request: SessionRequest, text: str, lang: Language) -> Spoken:
    """Speak one line; in interleaved mode its words come at the pace of speech."""
    parts = pieces(text, lang) if request.mode is Mode.INTERLEAVED else [text]
    received: list[Samples] = []
    words: list[Word] = []
    told: list[float] = []
    error: str | None = None
    began = time.monotonic()

    async def write(session: Any) -> None:
        for number, part in enumerate(parts):
            await asyncio.sleep(max(0.0, began + number * INTERVAL_S[lang] - time.monotonic()))
            await session.append(part)
        await session.finish()

    try:
        async with await engine.open(request) as session, asyncio.TaskGroup() as group:
            group.create_task(write(session))
            async for event in session:
                if isinstance(event, Audio):
                    received.append(event.samples)
                elif isinstance(event, Words):
                    words += event.words
                    given = sum(map(len, received))
                    told += [(given - word.end_sample) / RATE for word in event.words]
    except* OscineError as errors:
        error = "; ".join(str(e) for e in errors.exceptions)
    samples = np.concatenate(received) if received else np.zeros(0, np.float32)
    return Spoken(samples, words, told, error or (None if samples.size else "nothing was spoken"))


def plain(text: str) -> str:
    """What is compared of a word: letters and digits, in small letters."""
    return re.sub(r"[^\w]|_", "", text.lower())


def pairs(found: Sequence[Timed], true: Sequence[Timed], lang: Language) -> tuple[list[tuple[int, int]], ...]:
    """Numbers of the words that begin together, and of those that end together. Mandarin is compared by character: of a
    longer word of the reference the first one has its start, and the last one its end."""
    ours, theirs = ([plain(word.text) for word in words] for words in (found, true))
    parts = [tuple(text) if lang == "zh" else (text,) for text in theirs]
    places = [(number, at) for number, part in enumerate(parts) for at in range(len(part))]
    blocks = SequenceMatcher(None, ours, [parts[n][at] for n, at in places], autojunk=False).get_matching_blocks()
    both = [(a + k, *places[b + k]) for a, b, size in blocks for k in range(size)]
    starts = [(a, number) for a, number, at in both if at == 0]
    ends = [(a, number) for a, number, at in both if at == len(parts[number]) - 1]
    return starts, ends


def audible(samples: Samples) -> tuple[float, float]:
    """Seconds of the first sound and behind the last."""
    levels = window_levels(samples, WINDOW)
    loud = np.flatnonzero(levels > levels.max() - AUDIBLE_DB)
    return float(loud[0] * WINDOW / RATE), float((loud[-1] + 1) * WINDOW / RATE)


def divided(samples: Samples, words: Sequence[SegmentWord]) -> list[Timed]:
    """The time between the first and the last sound among the words, by their numbers of sounds."""
    start, end = audible(samples)
    shares = np.cumsum([0, *(len(one.word.sounds) for one in words)])
    edges = (start + (end - start) * shares / max(1, shares[-1])).tolist()
    return [Timed(one.word.text, a, b) for one, a, b in zip(words, edges, edges[1:], strict=False)]


def read(front_end: FrontEnd, texts: Sequence[str]) -> list[SegmentWord]:
    """The words of all texts, as those of one segment."""
    words = []
    for text in texts:
        planner = Planner(front_end, Mode.SENTENCE, words=True)
        planner.push(text)
        planner.flush()
        words += [SegmentWord(0, one.word) for one in planner.take_words()]
    return words


def listened(samples: Samples, words: Sequence[SegmentWord]) -> tuple[list[Timed], float]:
    """What the engine says of one segment that comes a second at a time, and the seconds of a core that it took."""
    times = WordTimes()
    times.tell(words)
    began = time.thread_time()
    for at in range(0, len(samples), RATE):
        times.hear(samples[at : at + RATE])
        times.work()
    times.end_segment(len(samples))
    times.work()
    spent = time.thread_time() - began
    return [Timed(word.text, word.start_sample / RATE, word.end_sample / RATE) for word in times.take()], spent


def join(parts: Sequence[tuple[str, Samples]], rng: np.random.Generator) -> tuple[Samples, list[Timed]]:
    """Words that were spoken alone in a row, silences between them, and where each sounds."""
    parts_: list[Samples] = [np.zeros(RATE // 20, np.float32)]
    true: list[Timed] = []
    for text, samples in parts:
        start, end = audible(samples)
        at = sum(map(len, parts_)) / RATE
        sound = samples[round(start * RATE) : round(end * RATE)]
        true.append(Timed(text, at, at + end - start))
        parts_ += [sound, np.zeros(round(float(rng.choice(GAPS_S)) * RATE), np.float32)]
    return np.concatenate(parts_), true


async def joined(
    engine: Engine, front_end: FrontEnd, request: SessionRequest, texts: Sequence[str], recogniser: Recogniser
) -> Compared:
    """The comparison with a truth."""
    lang = recogniser.lang
    compared, rng = Compared(), np.random.default_rng(0)
    vocabulary = list(dict.fromkeys(plain(one.word.text) for one in read(front_end, texts)))
    vocabulary = [text for text in vocabulary if text.isalpha()][: 5 * JOINED]
    parts = []
    for text in vocabulary:
        spoken = await speak(engine, request, text, lang)
        if spoken.error is None and spoken.samples.max() > 0.01:
            parts.append((text, spoken.samples))
    for at in range(0, len(parts), JOINED):
        samples, true = join(parts[at : at + JOINED], rng)
        words = read(front_end, [text for text, _ in parts[at : at + JOINED]])
        compared.add(listened(samples, words)[0], divided(samples, words), true, lang)
        compared.add_asr([Timed(*word) for word in recogniser.timed(samples, RATE)], true, lang)
    return compared


def recorded(data: Path, lang: Language) -> Errors:
    """Starts of words in held-out recordings, against training's aligner."""
    import soundfile

    errors, marks = Errors(), added_tokens()
    lines = (data / "corpus_ids.jsonl").read_text(encoding="utf-8").splitlines()
    text: dict[str, list[int]] = {row["id"]: row["ids"] for row in map(json.loads, lines)}
    with gzip.open(Path(training.__file__).parent / "continue" / "align.json.gz", "rt", encoding="utf-8") as stored:
        aligned: dict[str, list[tuple[int, int, int, int]]] = json.load(stored)
    for shard in sorted(data.glob(f"audio-{lang}-*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                name, packed = Path(member.name).stem, tar.extractfile(member)
                if packed is None or name not in aligned or not is_valid(name):
                    continue
                samples, _ = soundfile.read(io.BytesIO(packed.read()), dtype="float32")
                true, words = [], []
                for first, last, begin, _ in aligned[name]:
                    heard = [sound(marks[i]) for i in text[name][first:last] if i < len(marks)]
                    if numbers := [number for number in heard if number is not None]:
                        true.append(begin / 25)
                        words.append(SegmentWord(0, TextWord(str(len(words)), numbers)))
                found = listened(samples, words)[0]
                errors.start += [a.start - b for a, b in zip(found[1:], true[1:], strict=True)]
    return errors


async def measure(arguments: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    """Speak and compare all `texts`."""
    lang: Language = arguments.lang
    mode = MODES[arguments.mode]
    recogniser, front_end = Recogniser(lang, base=True), read_front_end(arguments.model)
    compared = Compared()
    told: list[float] = []
    failed: list[int] = []
    spent = seconds = 0.0
    async with Engine.load(EngineSettings(model=arguments.model)) as engine:
        fitting = [name for name, voice in engine.voices.items() if voice.language == lang]
        voices = [arguments.voice] if arguments.voice else fitting or [None]
        for number, text in enumerate(texts):
            request = SessionRequest(
                voice=voices[number % len(voices)],
                mode=mode,
                seed=arguments.seed,
                word_times=True,
                speed=arguments.speed,
            )
            spoken = await speak(engine, request, text, lang)
            if spoken.error is not None:
                failed.append(number + 1)
                continue
            told += spoken.told_s
            words = read(front_end, [text])
            spent += listened(spoken.samples, words)[1]
            seconds += len(spoken.samples) / RATE
            found = [Timed(word.text, word.start_sample / RATE, word.end_sample / RATE) for word in spoken.words]
            even = divided(spoken.samples, words)
            true = [Timed(*word) for word in recogniser.timed(spoken.samples, RATE)]
            compared.add(found, even, true, lang)
            if not arguments.json:
                print(f"{number + 1:3d}  {' '.join(f'{word.text} {word.start:.2f}' for word in found)}", flush=True)
        request = SessionRequest(voices[0], Mode.SENTENCE, arguments.seed, speed=arguments.speed)
        alone = await joined(engine, front_end, request, texts, recogniser) if mode is Mode.SENTENCE else None
    return {
        **{name: getattr(arguments, name) for name in ("lang", "mode", "seed", "speed")},
        "voices": voices,
        "lines": len(texts),
        "asr": compared.figures(),
        "joined": alone.figures() if alone is not None else None,
        "aligner": recorded(arguments.recordings, lang).figures()["start"] if arguments.recordings else None,
        "cpu_per_s": spent / seconds if seconds else None,
        "told_s": [round(float(np.percentile(told, share)), 3) for share in (50, 95)] if told else None,
        "failed": failed,
    }


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="sentences, one a line, UTF-8")
    parser.add_argument("--lang", choices=("en", "zh"), required=True)
    parser.add_argument("--mode", choices=tuple(MODES), default="whole")
    parser.add_argument("--voice", help="default: the model's voices of that language in turn")
    parser.add_argument("--model", type=Path, help="model directory; default: the embedded voice")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--speed", type=float, default=1.0, help="of speech")
    parser.add_argument("--recordings", type=Path, metavar="DATA", help="the corpus, with corpus_ids.jsonl")
    parser.add_argument("--limit", type=int, help="take only the first lines")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    arguments = parser.parse_args()
    try:
        texts = [line.strip() for line in arguments.file.read_text(encoding="utf-8").splitlines() if line.strip()]
        if not texts:
            parser.error(f"{arguments.file} holds no sentences: write one a line")
        result = asyncio.run(measure(arguments, texts[: arguments.limit]))
    except (OSError, UnicodeDecodeError, MissingPackage, OscineError) as error:
        raise SystemExit(f"bench.word_times: {error}") from error
    print(json.dumps(result, ensure_ascii=False, indent=None if arguments.json else 1))
    sys.exit(1 if result["failed"] else 0)


if __name__ == "__main__":
    main()
