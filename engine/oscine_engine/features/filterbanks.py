"""Triangular mel filterbanks in the two conventions in use: Slaney's and Kaldi's."""

import math
from functools import cache

import torch
from torch import Tensor

_LINEAR = 200 / 3
_BREAK_HZ = 1000.0
_BREAK_MEL = _BREAK_HZ / _LINEAR
_LOG_STEP = math.log(6.4) / 27


def _slaney_hz(mel: Tensor) -> Tensor:
    """Slaney's scale (Auditory Toolbox, 1998): linear below 1 kHz, logarithmic above."""
    return torch.where(mel < _BREAK_MEL, mel * _LINEAR, _BREAK_HZ * torch.exp((mel - _BREAK_MEL) * _LOG_STEP))


# What is kept is for all that come, of whom some want gradients: so never an inference tensor.
@cache
@torch.inference_mode(False)
def slaney(sample_rate: int, n_fft: int, bins: int, device: torch.device) -> Tensor:
    """float32 [bins, n_fft // 2 + 1], 0 Hz to half the rate, each triangle scaled to an area of 1 over Hz."""
    top = _BREAK_MEL + math.log(sample_rate / 2 / _BREAK_HZ) / _LOG_STEP
    edges = _slaney_hz(torch.linspace(0, top, bins + 2, dtype=torch.float64))
    frequencies = torch.linspace(0, sample_rate / 2, n_fft // 2 + 1, dtype=torch.float64)
    return (_triangles(edges, frequencies) * (2 / (edges[2:] - edges[:-2]))[:, None]).float().to(device)


@cache
@torch.inference_mode(False)
def kaldi(sample_rate: int, n_fft: int, bins: int, low_hz: float, device: torch.device) -> Tensor:
    """float32 [bins, n_fft // 2 + 1], `low_hz` to half the rate, triangles of height 1 that are straight over mel."""

    # In float32 throughout, as the implementations this must agree with do: it shows in quiet bins (7e-4).
    low, high = (1127 * math.log(1 + hz / 700) for hz in (low_hz, sample_rate / 2))
    edges = low + torch.arange(bins + 2, dtype=torch.float32) * ((high - low) / (bins + 1))
    points = 1127 * (1 + torch.arange(n_fft // 2 + 1, dtype=torch.float32) * (sample_rate / n_fft) / 700).log()
    return _triangles(edges, points).to(device)


def _triangles(edges: Tensor, points: Tensor) -> Tensor:
    """Unit triangles from edges[i] over edges[i + 1] to edges[i + 2], at `points`: [len(edges) - 2, len(points)]."""
    left, centre, right = (part[:, None] for part in (edges[:-2], edges[1:-1], edges[2:]))
    rise, fall = (points - left) / (centre - left), (right - points) / (right - centre)
    return torch.minimum(rise, fall).clamp_min(0)
