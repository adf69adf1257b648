"""Speech-like test signals and the measures the codec tests share."""

import numpy as np
import numpy.typing as npt

RATE = 24000
Samples = npt.NDArray[np.float32]


def voiced(samples: int, seed: int = 0, rate: int = RATE) -> Samples:
    """A gliding 120 Hz harmonic tone under a syllable-rate envelope, with a little noise; peak 0.5."""
    rng = np.random.default_rng(seed)
    time = np.arange(samples) / rate
    phase = 2 * np.pi * (120 * time + 15 * np.sin(2 * np.pi * 0.7 * time))
    tone = sum(np.sin(harmonic * phase) / harmonic for harmonic in range(1, 20))
    wave = tone * (0.55 + 0.45 * np.sin(2 * np.pi * 4 * time)) + 0.01 * rng.standard_normal(samples)
    return (0.5 * wave / np.abs(wave).max(initial=1e-9)).astype(np.float32)


def lag(reference: Samples, other: Samples, reach: int) -> int:
    """Samples by which `other` comes later than `reference`, by the best cross-correlation within +-`reach`."""
    middle = reference[reach : len(reference) - reach]
    scores = [float(middle @ other[reach + at : reach + at + len(middle)]) for at in range(-reach, reach + 1)]
    return int(np.argmax(scores)) - reach


def snr_db(reference: Samples, other: Samples) -> float:
    """Signal to error ratio of `other` against `reference` in dB."""
    error = float(np.mean((reference - other) ** 2))
    return float(10 * np.log10(np.mean(reference**2) / error))
