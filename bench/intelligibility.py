"""How well is the speech understood? python -m bench.intelligibility --lang en FILE [--mode interleaved] [--json]

Speaks every line of FILE through the engine's public interface, one after the other, transcribes it with an offline
recogniser (bench.asr) and compares (`listening/scoring.py` of the service). One seed for all lines, no retries, nothing
chosen; one unscored line warms the engine up first. A line that fails counts as wholly wrong.

Keys of the printed object, the first group also for each of `lines`:

* `wer` or `cer`: edits over words or characters, a fraction; `text`, `heard`, `edits`, `units` say how it came about;
* `mos`: DNSMOS overall score, 1 to 5;
* `leading_silence_s`: audio before the first window of 10 ms within 40 dB of the loudest;
* `first_packet_s`: from the first text until audio came; `onset_s`: that plus the leading silence, when a listener who
  plays at once hears something;
* `rtf`: seconds of work per second of audio, whole mode only (interleaved text comes at the pace of speech);
* `in_time`: interleaved mode only: audio came before the last word did (of one-word lines: null);
* `late_lines`: numbers of lines of over 15 words, from 1, whose audio did not come in time; `failed_lines`; `ok`.

In interleaved mode English words come at 150 a minute and Mandarin characters at 4 a second, usual rates of speech;
punctuation comes with what it follows. The exit status is 1 if `ok` is false: a line failed or was late.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import wave
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.asr import Language, MissingPackage, OpinionScore, Recogniser, Samples
from bench.pacing import INTERVAL_S, pieces
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import OscineError
from oscine_engine.events import Audio, Mode, SessionRequest
from oscine_service.listening.scoring import METRIC, edits, units

MODES = {"whole": Mode.SENTENCE, "interleaved": Mode.INTERLEAVED}
LONG_LINE = 15
WINDOW_S, AUDIBLE_DB = 0.01, -40.0
WARM_UP: dict[Language, str] = {"en": "This line warms up the engine.", "zh": "这一句用来预热。"}


@dataclass(frozen=True, slots=True)
class Spoken:
    """One line as the engine spoke it. Times in seconds from the first text; None where there was no audio."""

    samples: Samples
    rate: int
    first_packet_s: float | None
    last_text_s: float
    wall_s: float
    error: str | None


async def speak(engine: Engine, request: SessionRequest, text: str, lang: Language) -> Spoken:
    """Speak one line; in interleaved mode its words come at the pace of speech."""
    parts = pieces(text, lang) if request.mode is Mode.INTERLEAVED else [text]
    received: list[Samples] = []
    first: float | None = None
    error: str | None = None
    began = last_text = time.monotonic()

    async def write(session: Any) -> None:
        nonlocal last_text
        for number, part in enumerate(parts):
            await asyncio.sleep(max(0.0, began + number * INTERVAL_S[lang] - time.monotonic()))
            last_text = time.monotonic()
            await session.append(part)
        await session.finish()

    try:
        async with await engine.open(request) as session, asyncio.TaskGroup() as group:
            group.create_task(write(session))
            async for event in session:
                if isinstance(event, Audio):
                    first = time.monotonic() - began if first is None else first
                    received.append(event.samples)
    except* OscineError as errors:
        error = "; ".join(str(e) for e in errors.exceptions)
    samples = np.concatenate(received) if received else np.zeros(0, np.float32)
    ended = time.monotonic() - began
    return Spoken(samples, engine.sample_rate, first, last_text - began, ended, error)


def leading_silence(samples: Samples, rate: int) -> float:
    """Seconds before the first audible window; all of it where nothing is."""
    size = int(WINDOW_S * rate)
    windows = samples[: len(samples) // size * size].reshape(-1, size)
    power = np.square(windows).mean(axis=1)
    loud = np.flatnonzero(power > power.max(initial=0.0) * 10 ** (AUDIBLE_DB / 10))
    return float(loud[0] * WINDOW_S) if len(loud) else len(samples) / rate


@dataclass(frozen=True, slots=True)
class Line:
    """One line's figures; see the top of this file."""

    text: str
    heard: str
    edits: int
    units: int
    audio_s: float
    mos: float | None
    leading_silence_s: float | None
    first_packet_s: float | None
    onset_s: float | None
    rtf: float | None
    in_time: bool | None
    error: str | None


def judge(text: str, spoken: Spoken, lang: Language, mode: Mode, recogniser: Recogniser, opinion: OpinionScore) -> Line:
    """Transcribe and measure one spoken line."""
    wanted = units(lang, text)
    seconds = len(spoken.samples) / spoken.rate
    sound = seconds > 0 and spoken.error is None
    heard = recogniser.transcribe(spoken.samples, spoken.rate) if sound else ""
    silence = leading_silence(spoken.samples, spoken.rate) if sound else None
    first = spoken.first_packet_s
    paced = mode is Mode.INTERLEAVED and len(pieces(text, lang)) > 1
    return Line(
        text=text,
        heard=heard,
        edits=edits(units(lang, heard), wanted),
        units=len(wanted),
        audio_s=seconds,
        mos=opinion(spoken.samples, spoken.rate) if sound else None,
        leading_silence_s=silence,
        first_packet_s=first,
        onset_s=None if first is None or silence is None else first + silence,
        rtf=spoken.wall_s / seconds if sound and mode is Mode.SENTENCE else None,
        in_time=(first is not None and first < spoken.last_text_s) if paced else None,
        error=spoken.error,
    )


def summarise(lines: list[Line], lang: Language) -> dict[str, Any]:
    """Figures over all lines: error rate over all units, medians, and p95 of onsets."""

    def middle(name: str, percent: float = 50) -> float | None:
        values = [v for line in lines if (v := getattr(line, name)) is not None]
        return float(np.percentile(values, percent)) if values else None

    late = [n for n, line in enumerate(lines, 1) if len(pieces(line.text, lang)) > LONG_LINE and line.in_time is False]
    failed = [n for n, line in enumerate(lines, 1) if line.error is not None or line.audio_s == 0]
    mos = [line.mos for line in lines if line.mos is not None]
    audio = sum(line.audio_s for line in lines)
    worked = [line for line in lines if line.rtf is not None]
    return {
        METRIC[lang]: sum(line.edits for line in lines) / max(1, sum(line.units for line in lines)),
        "mos": float(np.mean(mos)) if mos else None,
        "leading_silence_s": middle("leading_silence_s"),
        "first_packet_s": middle("first_packet_s"),
        "onset_s": middle("onset_s"),
        "onset_p95_s": middle("onset_s", 95),
        "rtf": sum(w.rtf * w.audio_s for w in worked if w.rtf) / sum(w.audio_s for w in worked) if worked else None,
        "audio_s": audio,
        "late_lines": late,
        "failed_lines": failed,
        "ok": not late and not failed,
    }


def save_wav(path: Path, spoken: Spoken) -> None:
    """16 bit mono."""
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(spoken.rate)
        out.writeframes((np.clip(spoken.samples, -1, 1) * 32767).astype("<i2").tobytes())


async def measure(arguments: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    """Speak and judge all `texts`."""
    lang: Language = arguments.lang
    mode = MODES[arguments.mode]
    recogniser, opinion = Recogniser(lang), OpinionScore()
    lines: list[Line] = []
    async with Engine.load(EngineSettings(model=arguments.model)) as engine:
        fitting = [name for name, voice in engine.voices.items() if voice.language == lang]
        voice = arguments.voice or next(iter(fitting), None)
        request = SessionRequest(voice=voice, mode=mode, seed=arguments.seed)
        warm_up = await speak(engine, SessionRequest(voice=voice, mode=Mode.SENTENCE, seed=0), WARM_UP[lang], lang)
        if warm_up.error:
            raise OscineError(warm_up.error)
        for number, text in enumerate(texts, 1):
            spoken = await speak(engine, request, text, lang)
            lines.append(judge(text, spoken, lang, mode, recogniser, opinion))
            if arguments.save:
                arguments.save.mkdir(parents=True, exist_ok=True)
                save_wav(arguments.save / f"{lang}-{arguments.mode}-{number:03d}.wav", spoken)
            if not arguments.json:
                print(shown(number, lines[-1]), flush=True)
    return {
        "lang": lang,
        "mode": arguments.mode,
        "voice": voice,
        "seed": arguments.seed,
        **summarise(lines, lang),
        "lines": [as_object(line, lang) for line in lines],
    }


def as_object(line: Line, lang: Language) -> dict[str, Any]:
    """A line's figures, with its error rate under the language's name for it."""
    return {METRIC[lang]: line.edits / max(1, line.units), **asdict(line)}


def shown(number: int, line: Line) -> str:
    """One line for people."""
    figures: Mapping[str, float | None] = {"mos": line.mos, "onset_s": line.onset_s, "rtf": line.rtf}
    text = " ".join(f"{name} {value:.2f}" for name, value in figures.items() if value is not None)
    wrong = f"{line.edits}/{line.units}"
    outcome = f"failed: {line.error}" if line.error else f"wanted: {line.text}\n     heard:  {line.heard}"
    return f"{number:3d}  errors {wrong} {text}{' LATE' if line.in_time is False else ''}\n     {outcome}"


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="sentences, one a line, UTF-8")
    parser.add_argument("--lang", choices=("en", "zh"), required=True)
    parser.add_argument("--mode", choices=tuple(MODES), default="whole")
    parser.add_argument("--voice", help="default: the model's first voice of that language")
    parser.add_argument("--model", type=Path, help="model directory; default: the embedded voice")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="take only the first lines")
    parser.add_argument("--save", type=Path, metavar="DIR", help="write each line's speech there")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    arguments = parser.parse_args()
    try:
        texts = [line.strip() for line in arguments.file.read_text(encoding="utf-8").splitlines() if line.strip()]
        if not texts:
            parser.error(f"{arguments.file} holds no sentences: write one a line")
        result = asyncio.run(measure(arguments, texts[: arguments.limit]))
    except (OSError, UnicodeDecodeError, MissingPackage, OscineError) as error:
        raise SystemExit(f"bench.intelligibility: {error}") from error
    if arguments.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        print(json.dumps({k: v for k, v in result.items() if k != "lines"}, ensure_ascii=False, indent=1))
    sys.exit(0 if result["ok"] else 1)


if __name__ == "__main__":
    main()
