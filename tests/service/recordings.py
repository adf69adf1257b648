"""Recordings as somebody uploads them."""

import io

import numpy as np
import soundfile
from numpy.typing import NDArray

RATE = 24000


def recording(seconds: float = 3.0, rate: int = RATE, pitch: float = 150.0) -> bytes:
    """A WAV file of buzzing syllables with pauses: enough like speech for all checks, and nobody's."""
    soundfile_bytes = io.BytesIO()
    soundfile.write(soundfile_bytes, syllables(seconds, rate, pitch), rate, format="WAV")
    return soundfile_bytes.getvalue()


def syllables(seconds: float, rate: int, pitch: float) -> NDArray[np.float32]:
    """float32 [seconds * rate], mono, in [-1, 1]."""
    time = np.arange(round(seconds * rate)) / rate
    buzz = sum(np.sin(2 * np.pi * pitch * number * time) / number for number in range(1, 20))
    loud = np.clip(np.sin(2 * np.pi * 2.5 * time) * 4, 0.0, 1.0)
    return (0.2 * buzz * loud).astype(np.float32)
