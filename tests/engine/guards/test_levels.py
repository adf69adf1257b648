"""Levels of samples and of mel frames agree, and silence is told from soft speech in every shipped voice."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from oscine_engine.checkpoint.load import load
from oscine_engine.features import mel24k
from oscine_engine.guards.levels import FLOOR_DB, frame_levels, silence_level, speech_level, window_levels

RATE = 24000
Samples = NDArray[np.float32]


def mel(samples: Samples) -> NDArray[np.float32]:
    frames: NDArray[np.float32] = mel24k(torch.from_numpy(samples)).T.numpy()
    return frames


def low_tone(level_db: float) -> Samples:
    wave = np.sqrt(2) * 10 ** (level_db / 20) * np.sin(2 * np.pi * 250 * np.arange(RATE) / RATE)
    return wave.astype(np.float32)


def noise(level_db: float) -> Samples:
    return np.random.default_rng(0).normal(0, 10 ** (level_db / 20), RATE).astype(np.float32)


def voiced(level_db: float) -> Samples:
    """A buzz with all harmonics of 120 Hz, falling 6 dB an octave, as a voice does."""
    wave = sum(np.sin(2 * np.pi * 120 * n * np.arange(RATE) / RATE + n * n) / n for n in range(1, 90))
    wave = np.asarray(wave / np.sqrt(np.square(wave).mean()) * 10 ** (level_db / 20))
    return wave.astype(np.float32)


@pytest.mark.parametrize("level_db", [-10.0, -30.0, -55.0])
@pytest.mark.parametrize("sound", [low_tone, noise, voiced])
def test_frames_are_as_loud_as_their_samples(sound: Callable[[float], Samples], level_db: float) -> None:
    samples = sound(level_db)
    assert window_levels(samples, RATE)[0] == pytest.approx(level_db, abs=0.2)
    inner = frame_levels(mel(samples))[4:-4]
    assert np.all(np.abs(inner - level_db) < 4)


def test_digital_silence_is_the_floor() -> None:
    assert window_levels(np.zeros(480, np.float32), 240).tolist() == [FLOOR_DB] * 2
    assert np.all(frame_levels(mel(np.zeros(4800, np.float32))) < -70)


def test_a_rest_that_fills_no_window_is_left_out() -> None:
    assert len(window_levels(np.ones(100, np.float32), 240)) == 0


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[n, 80\]"):
        frame_levels(np.zeros((80, 10)))


@pytest.mark.parametrize(("loudness", "silence"), [(-12.0, -57.0), (-20.0, -65.0), (-40.0, -70.0), (0.0, -50.0)])
def test_silence_follows_the_voice_within_bounds(loudness: float, silence: float) -> None:
    assert silence_level(loudness) == silence


def test_the_shipped_voices_are_as_loud_as_speech() -> None:
    for voice in load().voices.values():
        assert -25 < speech_level(voice.mel.numpy()) < -10
