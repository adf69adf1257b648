"""How alike do two voices sound? The speaker encoder of Resemblyzer (Wan et al. 2018, "Generalized end-to-end loss for
speaker verification"), which heard thousands of people and nothing that Oscine was trained on.

Only its weights are used, which lie in its package; the network is small enough to be written here, and the package's
own code wants a compiler to be installed. So it is installed without what it depends on: see `INSTALL`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.asr import RATE, MissingPackage, Samples, at_16k, package_folder
from oscine_engine.features.filterbanks import slaney
from oscine_engine.guards.levels import LOUD_SHARE, silence_level, window_levels

INSTALL = "pip install --no-deps Resemblyzer==0.1.4"
Embedding = npt.NDArray[np.float32]

MELS, WIDTH, LAYERS = 40, 256, 3
WINDOW, HOP = 400, 160
PART, STEP = 160, 77
"""Frames that are heard at once, 1.6 s, and from one part to the next."""
COVERED = 0.75
"""A last part of which less than this is there is left out, unless it is the only one."""
LEVEL_DB = -30.0
QUIET_WINDOW_S, KEPT_WINDOWS = 0.03, 3
"""Silence is cut to so many windows on either side of speech."""


class Speakers:
    """Embeds speech by who speaks. Raises MissingPackage, saying what to install."""

    def __init__(self) -> None:
        try:
            path = package_folder("resemblyzer") / "pretrained.pt"
        except MissingPackage as error:
            raise MissingPackage(f"the package Resemblyzer is needed to compare voices: run {INSTALL}") from error
        state = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
        self._lstm, self._linear = nn.LSTM(MELS, WIDTH, LAYERS, batch_first=True), nn.Linear(WIDTH, WIDTH)
        for name, module in (("lstm", self._lstm), ("linear", self._linear)):
            module.load_state_dict({key.partition(".")[2]: state[key] for key in state if key.startswith(f"{name}.")})

    @torch.inference_mode()
    def __call__(self, samples: Samples, rate: int) -> Embedding:
        """float32 [256] of length 1, for mono `samples` at `rate` Hz. Raises ValueError where there is no sound."""
        audio = _sounding(at_16k(samples, rate))
        starts = _parts(len(audio))
        # Frames are centred: the last one of a part reaches half a window further.
        padded = F.pad(torch.from_numpy(audio), (0, max(0, (starts[-1] + PART) * HOP - len(audio))))
        mel = _mel(padded)
        parts = torch.stack([mel[start : start + PART] for start in starts])
        _, (hidden, _) = self._lstm(parts)
        found = F.normalize(F.relu(self._linear(hidden[-1])), dim=1).mean(0)
        embedding: Embedding = F.normalize(found, dim=0).numpy()
        return embedding


def likeness(one: Embedding, other: Embedding) -> float:
    """Cosine of two embeddings: 1 for the very same; among people, about 0.9 for one and 0.55 for two."""
    return float(one @ other)


def _sounding(audio: Samples) -> Samples:
    """Without long silences, and no softer than the encoder is used to. What is louder stays so, as in its package."""
    size = round(QUIET_WINDOW_S * RATE)
    levels = window_levels(audio, size)
    if not len(levels) or not np.any(audio):
        raise ValueError("there is no sound whose speaker could be told")
    sound = levels > silence_level(float(np.percentile(levels, LOUD_SHARE)))
    near = np.convolve(sound, np.ones(2 * KEPT_WINDOWS + 1), "same") > 0
    kept = audio[: len(levels) * size][np.repeat(near, size)]
    kept = kept if np.any(kept) else audio
    level = 10 * math.log10(np.square(kept, dtype=np.float64).mean())
    return np.asarray(kept * 10 ** (max(0.0, LEVEL_DB - level) / 20), np.float32)


def _parts(samples: int) -> list[int]:
    """First frames of the parts of so many samples."""
    frames = math.ceil((samples + 1) / HOP)
    starts = list(range(0, max(1, frames - PART + STEP + 1), STEP))
    if len(starts) > 1 and (samples - starts[-1] * HOP) / (PART * HOP) < COVERED:
        starts.pop()
    return starts


def _mel(audio: Tensor) -> Tensor:
    """Mel powers [frames, 40], not their logarithms."""
    window = torch.hann_window(WINDOW)
    spectrum = torch.stft(audio, WINDOW, HOP, window=window, center=True, pad_mode="constant", return_complex=True)
    return (slaney(RATE, WINDOW, MELS, audio.device) @ spectrum.abs().square()).T
