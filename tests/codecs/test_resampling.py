import math

import numpy as np
import pytest

from oscine_codecs.errors import CodecError
from oscine_codecs.resampling import Resampler, design
from tests.codecs.signals import RATE, Samples, voiced

TARGETS = [8000, 11025, 12000, 16000, 22050, 32000, 44100, 48000]


def resampled(wave: Samples, source: int, target: int, block: int = 1000) -> Samples:
    resampler = Resampler(source, target)
    parts = [resampler.push(wave[at : at + block]) for at in range(0, len(wave), block)]
    return np.concatenate([*parts, resampler.finish()])


def tone(hertz: float, rate: int, samples: int) -> Samples:
    return np.sin(2 * np.pi * hertz * np.arange(samples) / rate).astype(np.float32)


def level_db(samples: Samples) -> float:
    return float(10 * np.log10(np.mean(np.square(samples, dtype=np.float64)) / 0.5))


@pytest.mark.parametrize("target", TARGETS)
def test_a_tone_comes_out_as_the_same_tone_in_its_place(target: int) -> None:
    for hertz in (50.0, 1000.0, 0.4 * min(RATE, target), 0.418 * min(RATE, target)):
        got = resampled(tone(hertz, RATE, RATE), RATE, target)
        error = (got - tone(hertz, target, len(got)))[target // 10 : -target // 10]
        assert level_db(error) < -85, hertz


@pytest.mark.parametrize("target", [each for each in TARGETS if each < RATE])
def test_what_the_lower_rate_cannot_hold_does_not_come_back_as_another_tone(target: int) -> None:
    for hertz in np.linspace(target / 2, RATE / 2, 5, endpoint=False):
        assert level_db(resampled(tone(float(hertz), RATE, RATE), RATE, target)[target // 10 : -target // 10]) < -85


@pytest.mark.parametrize("target", [each for each in TARGETS if each > RATE])
def test_a_higher_rate_adds_nothing_above(target: int) -> None:
    got = resampled(tone(9000, RATE, RATE), RATE, target)[target // 10 : -target // 10]
    spectrum = np.abs(np.fft.rfft(got * np.hanning(len(got))))
    above = spectrum[len(spectrum) * RATE // target :]
    assert 20 * np.log10(above.max() / spectrum.max()) < -85


@pytest.mark.parametrize("target", TARGETS)
def test_how_the_input_was_cut_changes_nothing(target: int) -> None:
    wave = voiced(9001)
    whole = resampled(wave, RATE, target, block=len(wave))
    assert len(whole) == math.ceil(len(wave) * target / RATE)
    for block in (1, 7, 480, 4800):
        assert np.array_equal(resampled(wave[:3000], RATE, target, block), resampled(wave[:3000], RATE, target, 3000))
    resampler, generator = Resampler(RATE, target), np.random.default_rng(target)
    cuts = np.sort(generator.integers(0, len(wave), 6))
    parts = [resampler.push(part) for part in np.split(wave, cuts)]
    assert np.array_equal(np.concatenate([*parts, resampler.finish()]), whole)


@pytest.mark.parametrize("target", TARGETS)
def test_only_some_milliseconds_are_held_back(target: int) -> None:
    resampler = Resampler(RATE, target)
    at_once = len(resampler.push(voiced(RATE // 2)))
    assert 0 < target // 2 - at_once <= 0.0045 * target + 1


@pytest.mark.parametrize("target", TARGETS)
def test_after_the_end_another_sound_begins_without_a_trace_of_the_first(target: int) -> None:
    resampler, wave = Resampler(RATE, target), voiced(5000, seed=1)
    resampler.push(voiced(4000))
    resampler.finish()
    assert np.array_equal(np.concatenate([resampler.push(wave), resampler.finish()]), resampled(wave, RATE, target))


@pytest.mark.parametrize("target", [*TARGETS, RATE])
@pytest.mark.parametrize("samples", [0, 1, 2, 3, 500])
def test_short_sounds_have_their_length(target: int, samples: int) -> None:
    assert len(resampled(voiced(samples), RATE, target)) == math.ceil(samples * target / RATE)


def test_one_rate_is_passed_through() -> None:
    wave = voiced(100)
    assert np.array_equal(resampled(wave, RATE, RATE, 7), wave)


@pytest.mark.parametrize(("source", "target"), [(0, 8000), (24000, -1), (24000, 23999)])
def test_rates_that_cannot_be(source: int, target: int) -> None:
    with pytest.raises(CodecError, match=r"sample rates must be positive|usual rate"):
        design(source, target)


def test_bad_samples_are_refused() -> None:
    with pytest.raises(CodecError, match="NaN"):
        Resampler(RATE, 8000).push(np.array([np.nan]))
