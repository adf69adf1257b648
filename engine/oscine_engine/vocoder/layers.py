"""Building blocks of the vocoder. Every convolution is causal: what lies to its left comes from a `Past`.

One network therefore serves training, one-shot synthesis and streaming: `Silence` puts zeros on the left, the
streaming state puts the samples of the step before. Weight norm: Salimans & Kingma 2016. Snake: Ziyin et al. 2020.
"""

from collections.abc import Sequence
from typing import Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm


class Past(Protocol):
    """What came before the columns at hand. Calls arrive in the network's fixed order."""

    def extend(self, x: Tensor, left: int) -> Tensor:
        """[B, C, T] -> [B, C, left + T]: put the `left` columns before `x` in front of it."""
        ...

    def shift(self, x: Tensor) -> Tensor:
        """[B, C, T] -> [B, C, T + 1] or [B, C, T]: insert the column reflected at the stream's start."""
        ...


class Silence:
    """The past of a signal that starts here."""

    def extend(self, x: Tensor, left: int) -> Tensor:
        return F.pad(x, (left, 0))

    def shift(self, x: Tensor) -> Tensor:
        return torch.cat((x[:, :, 1:2], x), dim=2)


SILENCE = Silence()


class Conv(nn.Conv1d):
    """A convolution without padding of its own; `left` is the past it reads, in columns."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, dilation=dilation, stride=stride)
        self.left = (kernel - 1) * dilation

    def exact(self) -> tuple[Tensor, Tensor]:
        """Weight and bias in float64, weight norm evaluated in it, not rounded to float32 first."""
        bias = cast(Tensor, self.bias).double()
        if not parametrize.is_parametrized(self, "weight"):
            return self.weight.double(), bias
        norm = cast(parametrize.ParametrizationList, cast(nn.ModuleDict, self.parametrizations)["weight"])
        magnitude, direction = cast(Tensor, norm.original0), cast(Tensor, norm.original1)
        return torch._weight_norm(direction.double(), magnitude.double(), 0), bias

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs, T] -> [B, outputs, (T - left - 1) // stride + 1]."""
        return F.conv1d(x, self.weight, self.bias, self.stride, 0, self.dilation)


def normed(conv: Conv, deviation: float | None = None) -> Conv:
    """`conv` under weight norm, its weight first drawn from N(0, deviation) if given."""
    if deviation is not None:
        nn.init.normal_(conv.weight, 0.0, deviation)
    weight_norm(conv)
    return conv


class Snake(nn.Module):
    """x + sin(alpha x)^2 / alpha with one alpha a channel; [B, C, T] -> [B, C, T]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        alpha = self.alpha[:, None]
        wave = torch.sin(x * alpha)
        return torch.addcmul(x, wave, wave / (alpha + 1e-9))


class ResBlock(nn.Module):
    """Pairs of dilated and plain convolutions, each pair on a residual path; [B, C, T] -> [B, C, T]."""

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(normed(Conv(channels, channels, kernel, d), 0.01) for d in dilations)
        self.convs2 = nn.ModuleList(normed(Conv(channels, channels, kernel), 0.01) for _ in dilations)
        self.activations1 = nn.ModuleList(Snake(channels) for _ in dilations)
        self.activations2 = nn.ModuleList(Snake(channels) for _ in dilations)

    def forward(self, x: Tensor, past: Past = SILENCE) -> Tensor:
        for first, second, bend1, bend2 in zip(
            self.convs1, self.convs2, self.activations1, self.activations2, strict=True
        ):
            y = first(past.extend(bend1(x), cast(Conv, first).left))
            y = second(past.extend(bend2(y), cast(Conv, second).left))
            x = x + y
        return x


class Upsample(Conv):
    """Nearest-neighbour upsampling, then a convolution: [B, inputs, T] -> [B, outputs, T * rate].

    Several taps of the kernel fall on the same input column, so they are summed first (per output phase) and the
    convolution runs at the low rate; same numbers up to rounding, for 2 to 5 times fewer operations.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, rate: int) -> None:
        super().__init__(inputs, outputs, kernel)
        self.rate = rate
        self.taps = (self.left + rate - 1) // rate + 1
        merge = torch.zeros(kernel, rate, self.taps)
        for phase in range(rate):
            for tap in range(kernel):
                merge[tap, phase, self.taps - 1 + (phase - self.left + tap) // rate] = 1
        self.register_buffer("merge", merge, persistent=False)
        self.left = self.taps - 1

    def merged(self) -> tuple[Tensor, Tensor]:
        """Weight [rate * outputs, inputs, taps] and bias [rate * outputs] of the low-rate convolution."""
        weight = torch.einsum("oik,kpt->poit", self.weight, cast(Tensor, self.merge).to(self.weight.dtype))
        return weight.flatten(0, 1), cast(Tensor, self.bias).repeat(self.rate)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, inputs, left + T] carries its past of `left` low-rate columns."""
        return interleaved(F.conv1d(x, *self.merged()), self.rate)


def interleaved(x: Tensor, rate: int) -> Tensor:
    """[B, rate * C, T] -> [B, C, T * rate]: output phases, stacked over channels, put side by side in time."""
    batch, channels, columns = x.shape
    phases = x.view(batch, rate, channels // rate, columns)
    return phases.permute(0, 2, 3, 1).reshape(batch, channels // rate, columns * rate)
