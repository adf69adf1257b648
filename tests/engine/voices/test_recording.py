import numpy as np
import pytest

from oscine_engine.errors import InvalidInput
from oscine_engine.voices import recording
from oscine_engine.voices.recording import LEAD_S, LONGEST_S, PAUSE_S, TAIL_S, inspect
from tests.engine.voices.signals import pause, speech

RATE = 24000


def test_speech_stays_as_it_is() -> None:
    samples = speech(3.0)
    found = inspect(samples, RATE)
    assert abs(found.seconds - 3.0) < 0.05
    assert 2.5 < found.speech_s <= 3.0
    assert found.samples.dtype == np.float32


def test_silence_is_tidied_at_both_ends_and_in_between() -> None:
    samples = np.concatenate((pause(1.0), speech(2.0), pause(2.0), speech(2.0), pause(1.5)))
    found = inspect(samples, RATE)
    assert found.seconds == pytest.approx(LEAD_S + 2.0 + PAUSE_S + 2.0 + TAIL_S, abs=0.15)
    short = np.concatenate((speech(2.0), pause(PAUSE_S - 0.1), speech(2.0)))
    assert inspect(short, RATE).seconds == pytest.approx(4.0 + PAUSE_S - 0.1, abs=0.05)


@pytest.mark.parametrize("rate", [16000, 22050, 44100, 48000])
def test_any_usual_rate_is_taken(rate: int) -> None:
    assert inspect(speech(2.0, rate), rate).seconds == pytest.approx(2.0, abs=0.05)


def test_an_offset_is_no_sound() -> None:
    with pytest.raises(InvalidInput, match="silent"):
        inspect(pause(3.0) + np.float32(0.3), RATE)


def clipped() -> np.ndarray:
    return np.clip(4 * speech(3.0), -0.9, 0.9)


@pytest.mark.parametrize(
    ("samples", "rate", "reason"),
    [
        (speech(3.0, 8000), 8000, "at least 16000 Hz"),
        (speech(3.0), 400000, "at most 192000 Hz"),
        (np.zeros(0, np.float32), RATE, "empty"),
        (np.zeros(3 * RATE, np.float32), RATE, "silent"),
        (pause(3.0), RATE, "silent"),
        (speech(0.5), RATE, "1 s are the least"),
        (np.concatenate((pause(4.0), speech(0.6), pause(4.0))), RATE, "1 s are the least"),
        (speech(LONGEST_S + 2), RATE, "at most 30 s"),
        (clipped(), RATE, "clipped"),
        (speech(3.0, noise_db=-22.0), RATE, "noisy"),
        (np.full(3 * RATE, np.nan, np.float32), RATE, "no samples .* export it again"),
    ],
)
def test_what_makes_no_voice_is_refused_with_the_reason(samples: np.ndarray, rate: int, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        inspect(samples, rate)


def test_a_long_recording_of_little_speech_is_taken() -> None:
    samples = np.concatenate([part for _ in range(4) for part in (speech(2.0), pause(9.0))])
    assert len(samples) / RATE > LONGEST_S
    assert inspect(samples, RATE).seconds < 12


def test_a_loud_recording_is_not_taken_for_a_clipped_one() -> None:
    samples = speech(3.0)
    inspect(samples / np.abs(samples).max(), RATE)


def test_dips_within_speech_are_no_pauses() -> None:
    sound = np.array([True] * 5 + [False] * 4 + [True] * 5 + [False] * 20 + [True])
    assert recording._bridged(sound, 6).tolist() == [True] * 14 + [False] * 20 + [True]
