"""What the vocoder is trained to minimise. All take waves [B, n] or judgements of `discriminators` and give scalars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.hift.discriminators import Judgement

RATE = 24000
VOICED_HZ = 10.0
FLOOR = 1e-3
"""Mel magnitudes below this, about -80 dBFS, count as silence; it bounds the gradient of the logarithm."""


def mel_filters(n_fft: int, bands: int, rate: int = RATE) -> Tensor:
    """Triangular filters [bands, n_fft / 2 + 1] evenly spaced on the HTK mel scale from 0 to half the rate."""
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    bins = np.linspace(0, rate / 2, n_fft // 2 + 1)
    rise = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
    filters = np.maximum(0, np.minimum(rise, fall))
    filters /= np.maximum(filters.sum(axis=1, keepdims=True), 1e-9)
    return torch.from_numpy(filters).float()


class MelDistance(nn.Module):
    """Mean L1 distance of log mel magnitudes over several resolutions, each (n_fft, hop, bands)."""

    def __init__(
        self,
        resolutions: Sequence[tuple[int, int, int]] = (
            (256, 64, 20),
            (512, 128, 40),
            (1024, 256, 80),
            (2048, 512, 128),
        ),
    ) -> None:
        super().__init__()
        self.resolutions = tuple(resolutions)
        for n_fft, _, bands in self.resolutions:
            self.register_buffer(f"window{n_fft}", torch.hann_window(n_fft), persistent=False)
            self.register_buffer(f"filters{n_fft}", mel_filters(n_fft, bands), persistent=False)

    def _log_mel(self, wave: Tensor, n_fft: int, hop: int) -> Tensor:
        window = self.get_buffer(f"window{n_fft}")
        spectrum = torch.stft(wave, n_fft, hop, window=window, center=True, return_complex=True)
        magnitude = (torch.view_as_real(spectrum).square().sum(-1) + 1e-7).sqrt()
        return (self.get_buffer(f"filters{n_fft}") @ magnitude).clamp_min(FLOOR).log()

    def forward(self, fake: Tensor, real: Tensor) -> Tensor:
        parts = [F.l1_loss(self._log_mel(fake, n, h), self._log_mel(real, n, h)) for n, h, _ in self.resolutions]
        return torch.stack(parts).mean()


def discriminator_loss(real: Sequence[Judgement], fake: Sequence[Judgement]) -> Tensor:
    """Least squares: real towards 1, fake towards 0; mean over discriminators."""
    terms = [
        (1 - r.float()).square().mean() + f.float().square().mean() for (r, _), (f, _) in zip(real, fake, strict=True)
    ]
    return torch.stack(terms).mean()


def adversarial_loss(fake: Sequence[Judgement]) -> Tensor:
    """Least squares: fake towards 1; mean over discriminators."""
    return torch.stack([(1 - f.float()).square().mean() for f, _ in fake]).mean()


def feature_loss(real: Sequence[Judgement], fake: Sequence[Judgement]) -> Tensor:
    """L1 distance of hidden maps, each relative to the mean size of the real one; mean over maps."""
    terms = []
    for (_, real_maps), (_, fake_maps) in zip(real, fake, strict=True):
        for r, f in zip(real_maps, fake_maps, strict=True):
            held = r.detach().float()
            terms.append(F.l1_loss(f.float(), held) / held.abs().mean().clamp_min(1e-3))
    return torch.stack(terms).mean()


def f0_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """L1 in units of 100 Hz; unvoiced targets are 0, so that the median settles below the voicing threshold."""
    return F.l1_loss(predicted, target) / 100


def f0_report(predicted: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Share of frames whose voicing is wrong, and mean relative error of frames that both call voiced."""
    is_voiced, said_voiced = target > VOICED_HZ, predicted > VOICED_HZ
    both = (is_voiced & said_voiced).float()
    error = (predicted - target).abs() / target.clamp_min(VOICED_HZ)
    return {
        "voicing_error": (is_voiced != said_voiced).float().mean(),
        "pitch_error": (error * both).sum() / both.sum().clamp_min(1),
    }
