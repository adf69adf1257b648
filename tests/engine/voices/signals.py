"""Something like speech: a buzz that rises and falls four times a second, over a little noise."""

import numpy as np
from numpy.typing import NDArray


def speech(seconds: float, rate: int = 24000, *, peak: float = 0.4, noise_db: float = -75.0) -> NDArray[np.float32]:
    """float32 [seconds * rate]."""
    count = round(seconds * rate)
    time = np.arange(count) / rate
    buzz = sum(np.sin(2 * np.pi * 120 * number * time) / number for number in range(1, 30))
    loud = 0.55 - 0.45 * np.cos(2 * np.pi * 4 * time)
    sound = peak * buzz * loud / np.abs(buzz).max()
    noise = np.random.default_rng(1).standard_normal(count) * 10 ** (noise_db / 20)
    return (sound + noise).astype(np.float32)


def pause(seconds: float, rate: int = 24000, *, noise_db: float = -75.0) -> NDArray[np.float32]:
    return speech(seconds, rate, peak=0.0, noise_db=noise_db)
