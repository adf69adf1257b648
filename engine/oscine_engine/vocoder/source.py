"""The excitation: harmonics of F0 plus noise, merged to one signal (neural source filter, Wang et al. 2019).

The phase is held over a mel frame, so each harmonic is one number a frame; only the noise runs at the sample rate.
"""

import math

import torch
from torch import Tensor, nn

from oscine_engine.config import VocoderConfig


class Source(nn.Module):
    """Sines and noise of `nb_harmonics` + 1 harmonics, H in all, and the layer that merges them."""

    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.config = config
        self.l_linear = nn.Linear(config.nb_harmonics + 1, 1)

    def waves(self, f0: Tensor, start: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Hz [B, T] -> (unit sines [B, T, H] float32, running phase in turns a sample [B, T, H] float64).

        `start` [B, H] float64 is the running phase before the first frame. The increments are float32 and the sum
        float64, rounded to float32 for the sine: as torch's CPU cumsum does it, and so the released models' way.
        """
        config = self.config
        f0 = f0.detach().float()
        order = torch.arange(1, config.nb_harmonics + 2, device=f0.device, dtype=torch.float32)
        turns = (f0[..., None] * order / config.sampling_rate) % 1
        running = turns.double().cumsum(1)
        if start is not None:
            running = running + start[:, None]
        angle = running.float() * (2 * math.pi) * float(config.samples_per_frame)
        return torch.sin(angle), running

    def harmonics(self, f0: Tensor, start: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`waves` at their amplitude, silent where unvoiced."""
        sines, running = self.waves(f0, start)
        return self.config.nsf_alpha * sines * self.voiced(f0), running

    def voiced(self, f0: Tensor) -> Tensor:
        """1 where F0 is above the threshold, else 0: [B, T] -> float32 [B, T, 1]."""
        return (f0.float() > self.config.nsf_voiced_threshold).float()[..., None]

    def loudness(self, f0: Tensor) -> Tensor:
        """Noise amplitude by voicing: [B, T] -> [B, T, 1]."""
        voiced = self.voiced(f0)
        return voiced * self.config.nsf_sigma + (1 - voiced) * (self.config.nsf_alpha / 3)

    def forward(self, f0: Tensor, noise: Tensor, start: Tensor | None = None) -> Tensor:
        """Hz [B, T] and uniform noise [B or 1, at least T * 480, H] -> source [B, 1, T * 480] in (-1, 1)."""
        sines, _ = self.harmonics(f0, start)
        batch, frames, order = sines.shape
        hop = self.config.samples_per_frame
        shaped = noise[:, : frames * hop].reshape(noise.shape[0], frames, hop, order)
        mixed = sines[:, :, None] + self.loudness(f0.detach())[:, :, None] * shaped
        with torch.autocast(f0.device.type, enabled=False):
            return torch.tanh(self.l_linear(mixed)).view(batch, 1, frames * hop)
