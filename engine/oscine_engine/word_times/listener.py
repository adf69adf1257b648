"""What sounds in each frame: a small convolutional network that hears 160 ms to each side, in plain numpy.

It was trained by `training/word_times.py` on the recordings that fledgling was trained on, with other loudness, timbre
and noise in every batch, and knows nothing of the model that speaks.
"""

from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from oscine_engine.text.sounds import SILENCE, any_sound
from oscine_engine.word_times.features import features_of_silence

Floats = NDArray[np.float32]

DILATIONS = (1, 2, 2, 1)
"""Of the layers behind the first, which all look at three frames and add to what they are given."""
FIRST = 5
"""Frames that the first layer looks at."""
REACH = FIRST // 2 + sum(DILATIONS)
"""Frames on each side that a frame's scores depend on."""
_ANY = np.float32(-1.5)
"""What a sound that could be any is worth, against one that is known: less than a clear match, more than none."""


class Listener:
    """Scores of frames in a row, as they come."""

    def __init__(self) -> None:
        self._waiting = np.tile(features_of_silence(), (REACH, 1))

    def push(self, frames: Floats) -> Floats:
        """Scores [n, sounds] of the frames that `frames` [m, 80] complete: 8 frames behind them must be here."""
        self._waiting = np.concatenate((self._waiting, frames))
        if len(self._waiting) <= 2 * REACH:
            return np.zeros((0, any_sound() + 1), np.float32)
        scored = scores(self._waiting)
        self._waiting = self._waiting[len(scored) :]
        return scored

    def finish(self) -> Floats:
        """Scores of all that is left, silence behind it."""
        return self.push(np.tile(features_of_silence(), (REACH, 1)))


def scores(frames: Floats) -> Floats:
    """Log likelihoods, up to a constant of each frame, of silence and every sound: [n + 16, 80] -> [n, sounds]."""
    weights = network()
    x = np.maximum(_convolved(frames, weights["first.weight"], weights["first.bias"], 1), 0)
    for number, dilation in enumerate(DILATIONS):
        more = _convolved(x, weights[f"mid.{number}.weight"], weights[f"mid.{number}.bias"], dilation)
        x = x[dilation:-dilation] + np.maximum(more, 0)
    logits = x @ weights["out.weight"] + weights["out.bias"]
    top = logits.max(1, keepdims=True)
    logits -= top + np.log(np.exp(logits - top).sum(1, keepdims=True))
    speech = np.log1p(-np.exp(np.minimum(logits[:, SILENCE], -1e-4)))
    return np.column_stack((logits - weights["prior"], speech + _ANY)).astype(np.float32)


def _convolved(x: Floats, weight: Floats, bias: Floats, dilation: int) -> Floats:
    """x [n, in], weight [taps * in, out] -> [n - (taps - 1) * dilation, out]."""
    size = x.shape[1]
    taps = weight.shape[0] // size
    count = len(x) - (taps - 1) * dilation
    seen = np.concatenate([x[tap * dilation : tap * dilation + count] for tap in range(taps)], axis=1)
    convolved: Floats = seen @ weight + bias
    return convolved


@cache
def network() -> dict[str, Floats]:
    """Weights in float32: convolutions as [taps * in, out], and what is taken off each sound for being frequent."""
    stored = load(files(__package__).joinpath("listener.safetensors").read_bytes())
    return {name: value.astype(np.float32) for name, value in stored.items()}
