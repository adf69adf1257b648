"""What the flow's Euler step does besides matrix products. On a GPU `flow_triton` does it, fused; here is its twin.

B streams of two guidance rows of C frames each are packed as R = B * 2 * C rows. The residual stream `x` is float32
whatever the weights are.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from oscine_engine.flow.slotted import Batch

ROWS = 2
"""Guidance rows of a stream."""


@dataclass(frozen=True, slots=True, eq=False)
class PositionConv:
    """A grouped convolution: weight as torch has it, [dim, dim / groups, taps], and [groups, taps, inputs, outputs]."""

    weight: Tensor
    tiles: Tensor
    bias: Tensor
    groups: int


def position_weights(weight: Tensor, bias: Tensor, groups: int) -> PositionConv:
    """weight [dim, dim / groups, taps], bias [dim]."""
    outputs = weight.shape[0] // groups
    tiles = weight.view(groups, outputs, *weight.shape[1:]).permute(0, 3, 2, 1).contiguous()
    return PositionConv(weight, tiles, bias, groups)


def embed(state: Tensor, static: Tensor, weight: Tensor, slots: Tensor) -> Tensor:
    """Input rows of the streams at `slots` -> [2B, C, dim]: what no step changes, plus the linear layer of the state.

    state [S, C, 80] float32. static [S, 2, C, dim]. weight [dim, 80].
    """
    if state.is_cuda:
        return _fused().embed(state, static, weight, slots)  # type: ignore[no-any-return]
    return (static[slots] + F.linear(state[slots].to(static.dtype), weight)[:, None]).flatten(0, 1)


def position(x: Tensor, table: Tensor, slots: Tensor, steps: Tensor, convs: list[PositionConv]) -> Tensor:
    """x [2B, C, dim] -> float32 [R, dim]: x and both position convolutions of it, whose tails in `table` move on.

    table [S, 2, steps, 2, taps - 1, dim]: the tails of stream b lie at slots[b], by convolution and by step.
    """
    if x.is_cuda:
        middle = _fused().position(x, table, slots, steps, 0, convs[0], residual=None)
        out: Tensor = _fused().position(middle, table, slots, steps, 1, convs[1], residual=x)
        return out.flatten(0, 1)
    kept = table.shape[4]
    middle = _convolved(x, table[slots, 0, steps], convs[0])
    out = _convolved(middle, table[slots, 1, steps], convs[1]).float() + x.float()
    for number, signal in enumerate((x, middle)):
        table[slots, number, steps] = signal[:, signal.shape[1] - kept :].view(len(slots), ROWS, kept, -1)
    return out.flatten(0, 1)


def _convolved(x: Tensor, tails: Tensor, conv: PositionConv) -> Tensor:
    signal = torch.cat((tails.flatten(0, 1), x), dim=1).transpose(1, 2)
    return F.mish(F.conv1d(signal, conv.weight, conv.bias, groups=conv.groups)).transpose(1, 2)


def norm_modulate(x: Tensor, shift: Tensor, scale: Tensor, steps: Tensor, eps: float) -> Tensor:
    """Layer norm of x [R, dim] over its channels, times scale, plus shift, in their type.

    shift, scale: [Euler steps, dim]; stream b takes row steps[b].
    """
    if x.is_cuda:
        return _fused().gate_norm_modulate(x, None, None, None, shift, scale, steps, eps)  # type: ignore[no-any-return]
    normed = F.layer_norm(x, x.shape[-1:], eps=eps).view(len(steps), -1, x.shape[-1])
    return (normed * scale[steps, None].float() + shift[steps, None].float()).to(shift.dtype).flatten(0, 1)


def gate_norm_modulate(
    x: Tensor, parts: Tensor, bias: Tensor, gate: Tensor, shift: Tensor, scale: Tensor, steps: Tensor, eps: float
) -> Tensor:
    """Add to x, in place, gate times the sum of `parts` [P, R, dim] and bias [dim]; then as `norm_modulate`."""
    if x.is_cuda:
        return _fused().gate_norm_modulate(x, parts, bias, gate, shift, scale, steps, eps)  # type: ignore[no-any-return]
    y = (parts.float().sum(0) + bias.float()).view(len(steps), -1, x.shape[-1])
    x.view_as(y).add_(y * gate[steps, None].float())
    return norm_modulate(x, shift, scale, steps, eps)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer: x [R, inputs] -> [R, outputs]."""
    if x.is_cuda and _fused().follows(x, weight):
        return _fused().linear(x, weight, bias, gelu=False)  # type: ignore[no-any-return]
    return F.linear(x, weight, bias)


def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """GELU, in its tanh form, of a linear layer."""
    if x.is_cuda:
        if _fused().suits(x, weight):
            return _fused().linear(x, weight, bias, gelu=True)  # type: ignore[no-any-return]
        return torch._addmm_activation(bias, x, weight.t(), use_gelu=True)
    return F.gelu(F.linear(x, weight, bias), approximate="tanh")


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x [R, inputs] times weight [outputs, inputs], without a bias, as parts [P, R, outputs] still to be summed up.

    With few rows there is too little work in the outputs alone to occupy a GPU, so the inputs are shared out too.
    """
    if x.is_cuda and _fused().suits(x, weight):
        return _fused().product(x, weight)  # type: ignore[no-any-return]
    return F.linear(x, weight)[None]


def advance(
    state: Tensor, velocity: Tensor, slots: Tensor, steps: Tensor, lengths: Tensor, rate: float, out: Tensor
) -> None:
    """The Euler step itself: moves `state` [S, C, 80] on at the slots, and leaves a copy in `out` [B, C, 80].

    velocity [R, 80], guided by `rate`. lengths [Euler steps]. state, lengths and out are float32.
    """
    if state.is_cuda:
        _fused().advance(state, velocity, slots, steps, lengths, rate, out)
        return
    conditional, unconditional = velocity.float().view(len(slots), ROWS, *state.shape[1:]).unbind(1)
    guided = (1 + rate) * conditional - rate * unconditional
    out.copy_(state[slots] + lengths[steps, None, None] * guided)
    state[slots] = out


def attend(
    qkv: Tensor, cos: Tensor, sin: Tensor, pool: Tensor, layer: int, heads: int, batch: Batch, splits: int
) -> Tensor:
    """Attention of each stream's frames over its pages and themselves -> [R, inner].

    qkv [R, 3 * inner]. cos, sin [positions, dim_head / 2]: the turn of head 0. pool: pages of
    [steps, depth, 2 (key, value), 2 rows, C, inner], in the type of qkv or in 8 bits; the chunk's own keys and values
    are attended to as they are, and written to its page.
    splits: how many programs share the keys of one head; more where there are few streams.
    """
    if qkv.is_cuda:
        return _fused().attend(qkv, cos, sin, pool, layer, heads, batch, splits)  # type: ignore[no-any-return]
    count, chunk, inner = len(batch.slots), pool.shape[5], pool.shape[6]
    width = inner // heads
    query, key, value = qkv.view(count, ROWS, chunk, 3, inner).unbind(3)
    out = torch.zeros_like(query)
    for b, (step, start, n, pages) in enumerate(
        zip(batch.steps.tolist(), batch.starts.tolist(), batch.frames.tolist(), batch.pages.tolist(), strict=True)
    ):
        if n == 0:
            continue
        turn = cos[start : start + chunk], sin[start : start + chunk]
        new = torch.stack((_turned(key[b], *turn, width), value[b]))[:, :, :n]
        pool[pages[start // chunk], step, layer, :, :, :n] = new.to(pool.dtype)
        past = pool[torch.tensor(pages[: start // chunk], dtype=torch.int64), step, layer]
        held = past.permute(1, 2, 0, 3, 4).flatten(2, 3).to(qkv.dtype)
        keys, values = torch.cat((held, new), dim=2)
        asked, keys, values = (
            part.view(ROWS, part.shape[1], heads, width).transpose(1, 2)
            for part in (_turned(query[b], *turn, width), keys, values)
        )
        out[b] = F.scaled_dot_product_attention(asked, keys, values).transpose(1, 2).flatten(2)
    return out.view(-1, inner)


def _turned(x: Tensor, cos: Tensor, sin: Tensor, width: int) -> Tensor:
    """x [2, C, inner] with its first `width` channels, in pairs, turned by cos and sin [C, width / 2]."""
    even, odd = x[..., 0:width:2].float(), x[..., 1:width:2].float()
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
    return torch.cat((turned.to(x.dtype), x[..., width:]), dim=-1)


def _fused() -> ModuleType:
    from oscine_engine.runtime.kernels import flow_triton

    return flow_triton
