"""Discriminators that judge short waves: by period (Kong et al. 2020, HiFi-GAN) and by spectrum (Kumar et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

SLOPE = 0.1
Judgement = tuple[Tensor, list[Tensor]]


class Stack(nn.Module):
    """Convolutions with leaky rectifiers; returns the last output and every hidden map."""

    def __init__(self, layers: Sequence[nn.Conv2d]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(weight_norm(layer) for layer in layers)

    def forward(self, x: Tensor) -> Judgement:
        maps: list[Tensor] = []
        for layer in self.layers[:-1]:
            x = F.leaky_relu(layer(x), SLOPE)
            maps.append(x)
        return self.layers[-1](x).flatten(1), maps


class PeriodDiscriminator(nn.Module):
    """Folds a wave [B, n] into rows of `period` samples and convolves along the columns."""

    def __init__(self, period: int, channels: Sequence[int]) -> None:
        super().__init__()
        self.period = period
        widths = [1, *channels]
        layers = [
            nn.Conv2d(a, b, (5, 1), (3 if i < len(channels) - 1 else 1, 1), padding=(2, 0))
            for i, (a, b) in enumerate(pairwise(widths))
        ]
        self.stack = Stack([*layers, nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0))])

    def forward(self, wave: Tensor) -> Judgement:
        padded = F.pad(wave, (0, -wave.shape[1] % self.period), mode="reflect")
        judgement: Judgement = self.stack(padded.reshape(len(wave), 1, -1, self.period))
        return judgement


class SpectrumDiscriminator(nn.Module):
    """Convolves the complex spectrogram of a wave [B, n], compressed by the power 0.5."""

    window: Tensor

    def __init__(self, n_fft: int, channels: int) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        c, half = channels, channels // 2
        self.stack = Stack(
            [
                nn.Conv2d(2, half, (3, 9), padding=(1, 4)),
                nn.Conv2d(half, c, (3, 9), stride=(1, 2), padding=(1, 4)),
                nn.Conv2d(c, c, (3, 9), stride=(1, 2), padding=(1, 4)),
                nn.Conv2d(c, c, (3, 9), stride=(1, 2), padding=(1, 4)),
                nn.Conv2d(c, c, (3, 3), padding=(1, 1)),
                nn.Conv2d(c, 1, (3, 3), padding=(1, 1)),
            ]
        )

    def forward(self, wave: Tensor) -> Judgement:
        spectrum = torch.stft(
            wave.float(), self.n_fft, self.n_fft // 4, window=self.window, center=True, return_complex=True
        )
        parts = torch.view_as_real(spectrum).permute(0, 3, 2, 1)
        # Rooted magnitude keeps quiet harmonics in sight; the floor bounds the gradient in silence.
        size = (parts.square().sum(1, keepdim=True) + 1e-4).rsqrt().sqrt()
        judgement: Judgement = self.stack(parts * size)
        return judgement


class Discriminators(nn.Module):
    """All of them over a wave [B, n]."""

    def __init__(
        self,
        periods: Sequence[int] = (2, 3, 5, 7, 11),
        period_channels: Sequence[int] = (32, 128, 256, 512, 512),
        ffts: Sequence[int] = (512, 1024, 2048),
        spectrum_channels: int = 32,
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            [PeriodDiscriminator(p, period_channels) for p in periods]
            + [SpectrumDiscriminator(n, spectrum_channels) for n in ffts]
        )

    def forward(self, wave: Tensor) -> list[Judgement]:
        return [part(wave) for part in self.parts]
