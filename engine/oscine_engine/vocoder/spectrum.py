"""Short-time Fourier transforms with the vocoder's tiny window, as matrix products.

Written out so that gradients flow, nothing synchronises with the host, and a stream can continue mid-signal:
torch's own inverse checks its window on the host and only takes whole signals.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Spectrum(nn.Module):
    """Centred transforms with a periodic Hann window of `n_fft` samples, a multiple of `hop`.

    Complex bins are stacked as n_fft // 2 + 1 real rows, then as many imaginary rows.
    """

    def __init__(self, n_fft: int, hop: int) -> None:
        super().__init__()
        self.n_fft, self.hop, self.overlap = n_fft, hop, n_fft // hop - 1
        window = torch.hann_window(n_fft, periodic=True, dtype=torch.float64)
        bins = torch.arange(n_fft // 2 + 1, dtype=torch.float64)
        angle = 2 * math.pi / n_fft * bins[:, None] * torch.arange(n_fft, dtype=torch.float64)
        waves = torch.cat((angle.cos(), -angle.sin()))
        # A real signal's bins count twice, but for the first and the last.
        share = torch.full((n_fft // 2 + 1,), 2.0 / n_fft, dtype=torch.float64)
        share[0] = share[-1] = 1.0 / n_fft
        self.register_buffer("analysis", (waves * window).float(), persistent=False)
        self.register_buffer("synthesis", (waves * window * share.repeat(2)[:, None]).float(), persistent=False)
        self.register_buffer("power", window.square().float(), persistent=False)
        self.analysis: Tensor
        self.synthesis: Tensor
        self.power: Tensor

    def frames(self, signal: Tensor) -> Tensor:
        """Uncentred transform: [B, n] -> [B, n_fft + 2, (n - n_fft) // hop + 1]."""
        return torch.matmul(signal.unfold(1, self.n_fft, self.hop), self.analysis.t()).transpose(1, 2)

    def forward(self, signal: Tensor) -> Tensor:
        """Centred transform with reflected edges: [B, n] -> [B, n_fft + 2, n // hop + 1]."""
        half = self.n_fft // 2
        with torch.autocast(signal.device.type, enabled=False):
            return self.frames(F.pad(signal.float()[:, None], (half, half), mode="reflect")[:, 0])

    def pieces(self, magnitude: Tensor, phase: Tensor) -> Tensor:
        """Windowed time frames of a spectrum: two [B, n_fft // 2 + 1, N] -> [B, n_fft, N]."""
        stacked = torch.cat((magnitude * torch.cos(phase), magnitude * torch.sin(phase)), dim=1)
        return torch.matmul(self.synthesis.t(), stacked)

    def add(self, pieces: Tensor) -> Tensor:
        """Overlap-add: [B, n_fft, overlap + N] -> [B, N * hop], the samples whose N newest pieces are the last N.

        Not divided by the window's power; see `gain`.
        """
        batch, _, count = pieces.shape
        new = count - self.overlap
        blocks = pieces.view(batch, self.overlap + 1, self.hop, count)
        total = blocks[:, 0, :, self.overlap :]
        for age in range(1, self.overlap + 1):
            start = self.overlap - age
            total = total + blocks[:, age, :, start : start + new]
        return total.transpose(1, 2).reshape(batch, new * self.hop)

    def gain(self, pieces: int) -> Tensor:
        """1 / summed window power over a signal of `pieces` time frames: [(pieces + overlap) * hop]."""
        steady = F.pad(self.power[None, :, None].expand(1, -1, pieces), (self.overlap, self.overlap))
        return self.add(steady)[0].clamp_min(1e-11).reciprocal()

    def inverse(self, magnitude: Tensor, phase: Tensor) -> Tensor:
        """Centred inverse: two [B, n_fft // 2 + 1, N] -> [B, (N - 1) * hop], in float32 whatever autocast says."""
        with torch.autocast(magnitude.device.type, enabled=False):
            pieces = self.pieces(magnitude.float(), phase.float())
            signal = self.add(F.pad(pieces, (self.overlap, self.overlap))) * self.gain(pieces.shape[2])
        half = self.n_fft // 2
        return signal[:, half : half + (pieces.shape[2] - 1) * self.hop]
