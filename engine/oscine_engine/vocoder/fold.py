"""Weights made ready for inference: same numbers up to rounding, fewer and faster operations."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from oscine_engine.vocoder.layers import Conv, ResBlock, Snake, Upsample, interleaved
from oscine_engine.vocoder.network import HiFT

# Below this a division by alpha would cost too many digits.
_LEAST_ALPHA = 1e-2
# Numbers up to which all windows of a signal, laid out side by side, stay in a core's cache.
_CACHED = 2**18


class FixedConv(nn.Module):
    """A convolution that is done learning. On a CPU it keeps channels innermost in memory, which is faster there."""

    def __init__(self, weight: Tensor, bias: Tensor, conv: Conv) -> None:
        super().__init__()
        self.left, self.stride, self.dilation = conv.left, conv.stride, conv.dilation
        self.rate = conv.rate if isinstance(conv, Upsample) else 1
        self.taps = weight.shape[2]
        self.on_cpu = weight.device.type == "cpu"
        self.register_buffer("weight", weight.contiguous())
        self.register_buffer("bias", bias.clone())
        self.register_buffer("image", weight[:, :, None].contiguous(memory_format=torch.channels_last), False)
        self.register_buffer("flat", weight.permute(2, 1, 0).flatten(0, 1).contiguous(), False)
        self.weight: Tensor
        self.bias: Tensor
        self.image: Tensor
        self.flat: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """As Conv and Upsample: [B, inputs, T] -> [B, outputs, ...]."""
        if not self.on_cpu:
            y = F.conv1d(x, self.weight, self.bias, self.stride, 0, self.dilation)
        elif x.numel() * self.taps <= _CACHED * self.stride[0]:
            y = self._product(x)
        else:
            y = F.conv2d(x.unsqueeze(2), self.image, self.bias, (1, self.stride[0]), 0, (1, self.dilation[0])).squeeze(
                2
            )
        return y if self.rate == 1 else interleaved(y, self.rate)

    def _product(self, x: Tensor) -> Tensor:
        """One matrix product over all windows; faster than the library's convolution while they fit the cache."""
        x = x.transpose(1, 2).contiguous()
        batch, length, channels = x.shape
        step, dilation = self.stride[0], self.dilation[0]
        columns = (length - (self.taps - 1) * dilation - 1) // step + 1
        shape = (batch, columns, self.taps, channels)
        windows = x.as_strided(shape, (length * channels, step * channels, dilation * channels, 1))
        y = torch.addmm(self.bias, windows.reshape(batch * columns, self.taps * channels), self.flat)
        return y.view(batch, columns, -1).transpose(1, 2)


class FixedSnake(nn.Module):
    """alpha x + sin(alpha x)^2: Snake times its alpha, by which the next convolution's weight is divided.

    Without `alpha` it was already multiplied into `x` by the convolution before.
    """

    def __init__(self, alpha: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("alpha", None if alpha is None else alpha.detach()[:, None])
        self.alpha: Tensor | None

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.alpha is None else x * self.alpha
        wave = torch.sin(x)
        return torch.addcmul(x, wave, wave)


def folded(network: HiFT) -> HiFT:
    """A frozen copy with weight norm and Snake's alphas multiplied out, and the F0 predictor in float64.

    A network folded already comes back as it is. The result's state dict is no longer that of hift.pt.
    """
    if any(isinstance(module, FixedConv) for module in network.modules()):
        return network
    # A new network, not a deep copy: copies share their parametrized classes, and folding one would break the other.
    weight = network.m_source.l_linear.weight
    fresh = HiFT(network.config).to(weight.device, weight.dtype)
    fresh.load_state_dict(network.state_dict())
    # In float64, so that the norm is too, and on the CPU: torch's kernel for GPUs takes a float32 root.
    fresh.f0_predictor.double().cpu()
    for module in fresh.modules():
        if isinstance(module, Conv) and parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
    fresh.f0_predictor.to(weight.device)
    with torch.no_grad():
        for block in (*fresh.resblocks, *fresh.source_resblocks):
            _fold_block(cast(ResBlock, block))
        for name in ("conv_pre", "conv_post"):
            setattr(fresh, name, _fixed(getattr(fresh, name)))
        for convs in (fresh.ups, fresh.source_downs):
            for index, conv in enumerate(convs):
                convs[index] = _fixed(cast(Conv, conv))
    return fresh.eval().requires_grad_(False)


def _fixed(conv: Conv, before: Tensor | None = None, after: Tensor | None = None) -> FixedConv:
    """`conv` with its input channels divided by `before` and its output channels multiplied by `after`."""
    weight, bias = conv.merged() if isinstance(conv, Upsample) else (conv.weight, cast(Tensor, conv.bias))
    if before is not None:
        weight = weight / (before + 1e-9)[:, None]
    if after is not None:
        weight, bias = weight * after[:, None, None], bias * after
    return FixedConv(weight, bias, conv)


def _fold_block(block: ResBlock) -> None:
    for index in range(len(block.convs1)):
        first, second = cast(Conv, block.convs1[index]), cast(Conv, block.convs2[index])
        outer = cast(Snake, block.activations1[index]).alpha
        inner = cast(Snake, block.activations2[index]).alpha
        if min(outer.abs().min(), inner.abs().min()) < _LEAST_ALPHA:
            block.convs1[index], block.convs2[index] = _fixed(first), _fixed(second)
            continue
        block.convs1[index], block.convs2[index] = _fixed(first, outer, inner), _fixed(second, inner)
        block.activations1[index], block.activations2[index] = FixedSnake(outer), FixedSnake(None)
