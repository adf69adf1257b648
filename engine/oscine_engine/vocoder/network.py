"""HiFT, the vocoder: mel frames at 50 Hz to samples at 24 kHz (HiFTNet, Li et al. 2023, in its causal form).

State-dict keys are those of the released hift.pt. The pieces (F0, source, decoding) can be called one by one, which
is what training and streaming do.
"""

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oscine_engine.config import VocoderConfig
from oscine_engine.vocoder.f0 import LOOK_RIGHT, F0Predictor, double
from oscine_engine.vocoder.layers import SILENCE, Conv, Past, ResBlock, Upsample, normed
from oscine_engine.vocoder.source import Source
from oscine_engine.vocoder.spectrum import Spectrum

LOUDEST = 100.0
"""The most that a bin's magnitude can be."""


class HiFT(nn.Module):
    """Mel -> F0 -> source -> samples. `f0_predictor(mel)` gives Hz [B, T] in the type of `mel`."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.config = config
        bins = config.istft.n_fft + 2
        widths = [config.base_channels // 2**i for i in range(len(config.upsample_rates) + 1)]
        self.m_source = Source(config)
        self.conv_pre = normed(Conv(config.in_channels, widths[0], config.conv_pre_look_right + 1))
        self.ups = nn.ModuleList()
        self.source_downs = nn.ModuleList()
        self.source_resblocks = nn.ModuleList()
        self.resblocks = nn.ModuleList()
        for i, (rate, kernel) in enumerate(zip(config.upsample_rates, config.upsample_kernel_sizes, strict=True)):
            width = widths[i + 1]
            self.ups.append(normed(Upsample(widths[i], width, kernel, rate), 0.01))
            stride = math.prod(config.upsample_rates[i + 1 :])
            self.source_downs.append(Conv(bins, width, 1 if stride == 1 else 2 * stride, stride=stride))
            self.source_resblocks.append(
                ResBlock(width, config.source_resblock_kernel_sizes[i], config.source_resblock_dilation_sizes[i])
            )
            for size, dilations in zip(config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True):
                self.resblocks.append(ResBlock(width, size, dilations))
        self.conv_post = normed(Conv(widths[-1], bins, 7), 0.01)
        self.f0_predictor = F0Predictor(config.f0_predictor)
        self.spectrum = Spectrum(config.istft.n_fft, config.istft.hop_len)

    @property
    def strides(self) -> list[int]:
        """Source spectrum columns per output column of each stage."""
        return [cast(Conv, down).stride[0] for down in self.source_downs]

    def f0(self, mel: Tensor, finalize: bool = True) -> Tensor:
        """Hz float32 [B, T] (three frames fewer if not `finalize`), computed in float64 unless training."""
        if self.training:
            return cast(Tensor, self.f0_predictor(mel, finalize)).float()
        return double(self.f0_predictor, mel, finalize).float()

    def source(self, f0: Tensor, noise: Tensor, start: Tensor | None = None) -> Tensor:
        """Hz [B, T], noise [B or 1, n, H] -> [B, 1, T * 480]; `start` [B, H] continues a phase (see Source)."""
        return cast(Tensor, self.m_source(f0, noise, start))

    def stage(self, index: int, x: Tensor, spectrum: Tensor, past: Past) -> Tensor:
        """One upsampling stage. `spectrum` [B, 18, n] is the source's, from `strides[0] - 1` columns before `x` on."""
        blocks = len(self.config.resblock_kernel_sizes)
        up = cast(Upsample, self.ups[index])
        x = up(past.extend(F.leaky_relu(x, self.config.lrelu_slope), up.left))
        if index == len(self.ups) - 1:
            x = past.shift(x)
        aside = self.source_downs[index](spectrum[:, :, self.strides[0] - self.strides[index] :])
        x = x + self.source_resblocks[index](aside[:, :, : x.shape[2]], past)
        total = self.resblocks[index * blocks](x, past)
        for block in self.resblocks[index * blocks + 1 : (index + 1) * blocks]:
            total = total + block(x, past)
        return cast(Tensor, total / blocks)

    def bins(self, x: Tensor, spectrum: Tensor, past: Past) -> Tensor:
        """conv_pre's output [B, C, T] and the source spectrum (see `stage`) -> raw bins [B, 18, T * 120 (+ 1)]."""
        for index in range(len(self.ups)):
            x = self.stage(index, x, spectrum, past)
        # The phase is the sine of what comes out: no place for bfloat16.
        with torch.autocast(x.device.type, enabled=False):
            x = F.leaky_relu(x.to(self.m_source.l_linear.weight.dtype))
            return cast(Tensor, self.conv_post(past.extend(x, self.conv_post.left)))

    def polar(self, bins: Tensor) -> tuple[Tensor, Tensor]:
        """Raw bins [B, 18, N] -> magnitude in [0, 100] and phase in radians, float32 [B, 9, N] each."""
        log, phase = bins.float().chunk(2, dim=1)
        # Clamping before the exponential too keeps its gradient finite.
        magnitude = log.clamp_max(math.log(LOUDEST) + 0.01).exp().clamp_max(LOUDEST)
        return magnitude, torch.sin(phase)

    def decode(self, mel: Tensor, source: Tensor, finalize: bool = True) -> Tensor:
        """mel [B, 80, T], source [B, 1, T * 480] -> samples [B, T * 480] in [-audio_limit, audio_limit].

        Without `finalize` the last conv_pre_look_right frames are look-ahead only and one frame more is cut, whose
        overlap is still open: [B, (T - 5) * 480].
        """
        config = self.config
        ahead = config.conv_pre_look_right
        x = self.conv_pre(F.pad(mel, (0, ahead)) if finalize else mel)
        columns = x.shape[2] * math.prod(config.upsample_rates) + 1
        spectrum = F.pad(self.spectrum(source[:, 0])[:, :, :columns], (self.strides[0] - 1, 0))
        wav = self.spectrum.inverse(*self.polar(self.bins(x, spectrum, SILENCE)))
        if not finalize:
            wav = wav[:, : -config.samples_per_frame]
        return wav.clamp(-config.audio_limit, config.audio_limit)

    def forward(self, mel: Tensor, noise: Tensor, finalize: bool = True) -> tuple[Tensor, Tensor]:
        """mel [B, 80, T], noise uniform [B or 1, n >= T * 480, H] -> (samples [B, T * 480], source [B, 1, T * 480]).

        Without `finalize`, as the released streaming code: source [B, 1, (T - 3) * 480], samples [B, (T - 8) * 480].
        """
        source = self.source(self.f0(mel, finalize), noise)
        return self.decode(mel if finalize else mel[:, :, :-LOOK_RIGHT], source, finalize), source
