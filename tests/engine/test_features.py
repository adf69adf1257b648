"""Audio features: lengths, batches, gradients, refusals; the numbers themselves are in the recorded reference."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bench.parity import features as parity
from bench.parity.rows import document
from oscine_engine.errors import InvalidInput
from oscine_engine.features import filterbanks, kaldi_fbank80, mel24k, resample, resampling, whisper128

REFERENCE = Path(__file__).parents[1] / "reference"


def test_every_recorded_feature_agrees() -> None:
    rows = list(parity.checks(REFERENCE, document(REFERENCE, "config.json")))
    assert len(rows) >= 13
    assert [row for row in rows if not row.ok] == []


@pytest.mark.parametrize("samples", [721, 960, 1439, 24000, 24479])
def test_mel_has_a_frame_for_each_480_samples(samples: int) -> None:
    assert mel24k(torch.randn(samples)).shape == (80, samples // 480)
    assert whisper128(torch.randn(samples)).shape == (128, samples // 160)
    assert kaldi_fbank80(torch.randn(samples)).shape == ((samples - 400) // 160 + 1, 80)


@pytest.mark.parametrize("feature", [mel24k, whisper128, kaldi_fbank80])
def test_a_batch_equals_its_signals(feature: parity.Feature) -> None:
    audio = 0.1 * torch.randn(3, 4000)
    batch = feature(audio)
    for index in range(3):
        torch.testing.assert_close(batch[index], feature(audio[index]), atol=1e-4, rtol=0)


def test_mel_passes_gradients_to_a_tone_that_is_too_loud() -> None:
    audio = (0.5 * torch.sin(torch.arange(9600) * 0.1)).expand(2, -1).clone().requires_grad_()
    mel24k(audio).sum().backward()
    assert audio.grad is not None
    assert audio.grad.isfinite().all()
    # Louder audio means a larger mel: the gradient must point along the signal.
    assert (audio.grad * audio).sum() > 0


def test_silence_gives_the_floor() -> None:
    assert mel24k(torch.zeros(4800)).max() < math.log(1e-3)
    assert kaldi_fbank80(torch.zeros(4800)).unique().tolist() == pytest.approx([math.log(2.0**-23)])


@pytest.mark.parametrize(("feature", "least"), [(mel24k, 721), (whisper128, 201), (kaldi_fbank80, 400)])
def test_too_short_audio_is_refused_with_the_least_length(feature: parity.Feature, least: int) -> None:
    assert feature(torch.zeros(least)).numel() > 0
    with pytest.raises(InvalidInput, match=str(least)):
        feature(torch.zeros(least - 1))


@pytest.mark.parametrize("rates", [(24000, 16000), (44100, 24000), (48000, 16000), (16000, 24000), (22050, 24000)])
def test_resampling_keeps_a_tone(rates: tuple[int, int]) -> None:
    source, target = rates

    def tone(rate: int) -> torch.Tensor:
        return torch.sin(2 * math.pi * 440 * torch.arange(rate // 2, dtype=torch.float64) / rate).float()

    resampled = resample(tone(source), source, target)
    assert resampled.shape == (math.ceil(source // 2 * target / source),)
    # A short windowed sinc ripples by a few thousandths within its pass band.
    torch.testing.assert_close(resampled[100:-100], tone(target)[100:-100][: len(resampled) - 200], atol=5e-3, rtol=0)


def test_resampling_removes_what_the_new_rate_cannot_hold() -> None:
    tone = torch.sin(2 * math.pi * 11000 * torch.arange(24000) / 24000)
    assert resample(tone, 24000, 16000)[100:-100].abs().max() < 0.02


def test_resampling_refuses_odd_rates() -> None:
    with pytest.raises(InvalidInput, match="44100"):
        resample(torch.zeros(100), 47999, 24001)
    with pytest.raises(InvalidInput, match="positive"):
        resample(torch.zeros(100), 0, 24000)


@pytest.mark.parametrize("feature", [mel24k, whisper128, lambda audio: resample(audio, 24000, 7000)])
def test_gradients_flow_whoever_asked_first(feature: Callable[[Tensor], Tensor]) -> None:
    resampling._kernel.cache_clear()
    filterbanks.slaney.cache_clear()
    with torch.inference_mode():
        feature(torch.randn(4800))
    audio = torch.randn(4800, requires_grad=True)
    feature(audio).sum().backward()
    assert audio.grad is not None and audio.grad.abs().max() > 0
