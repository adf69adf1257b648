"""How long does a recording take to become a voice? python -m bench registration [--recording FILE] [--json]

Without `--recording` the model itself speaks one of about `--seconds`, as a WAV file of 48 kHz. It is decoded, checked,
tidied, heard by both encoders and kept in a store, over and over, each time under a new name and a little softer, so
that nothing is found from before.

Keys of the printed object: `benchmark`, `model`, `host`, `seconds` (of the recording), `threads` (that an encoder may
use), `repeat`, and

* `first_s`: the first of all, with loading both encoders;
* `registration_s`: all others, from the file's bytes until the voice is kept for good; and of that, on average,
  `decode_s`, `tidy_s` (checks and silences), `ids_s` (speech tokenizer), `embedding_s`, `mel_s`, `store_s`;
* `command_s`: `oscine voices add` from its start to its end, whose libraries take most of it; once;
* `limit_s`; `ok`: `first_s` and the longest `registration_s` are below it.

The exit status is 0 only if `ok`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

from bench.figures import host, ranks
from bench.intelligibility import speak
from bench.model import add_model, model_directory, model_name
from oscine_codecs import files as audio_files
from oscine_codecs import pcm, wav
from oscine_engine.checkpoint import layout
from oscine_engine.checkpoint.configuration import read_config
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import OscineError
from oscine_engine.events import Mode, SessionRequest
from oscine_engine.features import mel24k, resample
from oscine_engine.voices.encoders import RATE, Encoders
from oscine_engine.voices.recording import inspect
from oscine_engine.voices.registration import MEL_RATE, Reference, register
from oscine_engine.voices.store import VoiceStore

LIMIT_S = 1.5
RECORDED_HZ = 48000
SENTENCES = (
    "The kettle is on, and the rain has stopped.",
    "We should leave before the shops close.",
    "She left her umbrella on the train again.",
    "There is fresh bread on the kitchen table.",
    "Nobody knows who moved the old piano.",
    "The meeting was put off until next week.",
)


async def spoken(model: Path | None, seconds: float) -> tuple[bytes, str]:
    """A WAV file of about so many seconds of speech, and its words."""
    heard, words = [], []
    async with Engine.load(EngineSettings(model=model)) as engine:
        while sum(map(len, heard)) < seconds * engine.sample_rate:
            text = SENTENCES[len(words) % len(SENTENCES)]
            said = await speak(engine, SessionRequest(mode=Mode.SENTENCE, seed=len(words)), text, "en")
            if said.error:
                raise OscineError(said.error)
            heard.append(said.samples)
            words.append(text)
        rate = engine.sample_rate
    samples = np.concatenate(heard)[: round(seconds * rate)]
    high = resample(torch.from_numpy(samples), rate, RECORDED_HZ).numpy()
    return wav.header(RECORDED_HZ, len(high)) + pcm.encode(high), " ".join(words)


def parts(samples: np.ndarray[Any, Any], rate: int, encoders: Encoders) -> dict[str, float]:
    """Seconds of each step of one registration, taken apart."""
    times = {}

    def step(name: str, began: float) -> float:
        times[name] = time.perf_counter() - began
        return time.perf_counter()

    began = time.perf_counter()
    recording = inspect(samples, rate)
    began = step("tidy_s", began)
    audio = torch.from_numpy(recording.samples)
    heard = resample(audio, rate, RATE)
    encoders.tokens(heard)
    began = step("ids_s", began)
    encoders.embedding(heard)
    began = step("embedding_s", began)
    mel24k(resample(audio, rate, MEL_RATE))
    step("mel_s", began)
    return times


def measure(model: Path | None, data: bytes, words: str, repeat: int, threads: int) -> dict[str, Any]:
    files = layout.find(model)
    front_end = read_config(files).text.front_end
    loud, rate = audio_files.decode(data)
    softer = [wav.header(rate, len(loud)) + pcm.encode(loud * 0.99**turn) for turn in range(repeat + 1)]
    whole: list[float] = []
    steps: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="oscine-registration-") as folder:
        store = VoiceStore(Path(folder) / "voices")
        began = time.perf_counter()
        encoders = Encoders(*files.encoders(), threads=threads)
        for turn, packed in enumerate(softer):
            samples, _ = audio_files.decode(packed)
            decoded = time.perf_counter()
            voice = register(samples, rate, Reference(f"v{turn}", words), encoders, front_end)
            made = time.perf_counter()
            store.add(voice)
            ended = time.perf_counter()
            whole.append(ended - began)
            steps.append({"decode_s": decoded - began, "store_s": ended - made})
            began = time.perf_counter()
        apart = [parts(loud * 0.99**turn, rate, encoders) for turn in range(repeat)]
        recording = Path(folder) / "recording.wav"
        recording.write_bytes(data)
        command = [sys.executable, "-m", "oscine_service.cli", "voices", "add", "anna", str(recording)]
        command += ["--transcript", words, "--store", str(Path(folder) / "other")]
        command += [] if model is None else ["--model", str(model)]
        began = time.perf_counter()
        added = subprocess.run(command, capture_output=True, text=True, check=False)
        command_s = time.perf_counter() - began
        if added.returncode:
            raise OscineError(f"oscine voices add failed: {added.stderr.strip()}")
    average = {name: mean(each[name] for each in steps[1:]) for name in steps[0]}
    average |= {name: mean(each[name] for each in apart) for name in apart[0]}
    return {
        "seconds": round(len(loud) / rate, 2),
        "threads": threads,
        "repeat": repeat,
        "first_s": round(whole[0], 3),
        "registration_s": ranks(whole[1:], 50, 95, 100, digits=3),
        **{name: round(value, 4) for name, value in average.items()},
        "command_s": round(command_s, 2),
        "limit_s": LIMIT_S,
        "ok": max(whole) < LIMIT_S,
    }


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(
        prog="python -m bench registration", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_model(parser)
    parser.add_argument("--recording", type=Path, metavar="FILE", help="with --transcript: somebody's speech")
    parser.add_argument("--transcript", default="", metavar="TEXT", help="what is said in it")
    parser.add_argument("--seconds", type=float, default=10.0, help="of what the model speaks (default %(default)s)")
    parser.add_argument("--repeat", type=int, default=20, help="registrations after the first (default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of an encoder (default %(default)s, as the command)")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    if options.repeat < 1 or options.threads < 1 or options.seconds < 2:
        parser.error("repeat and threads must be at least 1, seconds at least 2")
    torch.set_num_threads(options.threads)
    try:
        with model_directory(options.model) as directory:
            if options.recording is None:
                data, words = asyncio.run(spoken(directory, options.seconds))
            else:
                data, words = options.recording.read_bytes(), options.transcript
            found = measure(directory, data, words, options.repeat, options.threads)
    except (OSError, OscineError) as error:
        raise SystemExit(f"bench.registration: {error}") from error
    figures = {"benchmark": "registration", "model": model_name(options.model), "host": host(), **found}
    print(json.dumps(figures, indent=None if options.json else 1))
    sys.exit(0 if figures["ok"] else 1)


if __name__ == "__main__":
    main()
