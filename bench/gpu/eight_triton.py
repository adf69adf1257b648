"""What 8-bit products would need around them: a row's largest value, and its values in shares of it, in one pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

LARGEST = 448.0
"""Of float8_e4m3fn."""


@triton.jit
def _store_eight(value, out, scales, row, columns, inside, WIDTH: tl.constexpr):
    scale = tl.maximum(tl.max(tl.where(inside, tl.abs(value), 0.0), 0), 1e-12) / 448.0
    tl.store(scales + row, scale)
    tl.store(out + row * WIDTH + columns, (value / scale).to(tl.float8e4nv), inside)


@triton.jit
def _norm_kernel(
    x, parts, bias, gate, shift, scale, out, scales, DIM: tl.constexpr, DIM_PAD: tl.constexpr, EIGHT: tl.constexpr
):  # fmt: skip
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, DIM_PAD)
    inside = columns < DIM
    value = tl.load(x + row * DIM + columns, inside, 0.0)
    y = tl.load(bias + columns, inside, 0.0).to(tl.float32)
    y += tl.load(parts + row * DIM + columns, inside, 0.0).to(tl.float32)
    value += tl.load(gate + columns, inside, 0.0).to(tl.float32) * y
    tl.store(x + row * DIM + columns, value, inside)
    centred = tl.where(inside, value - tl.sum(value, 0) / DIM, 0.0)
    normed = centred / tl.sqrt(tl.sum(centred * centred, 0) / DIM + 1e-6)
    normed = normed * tl.load(scale + columns, inside, 0.0).to(tl.float32)
    normed += tl.load(shift + columns, inside, 0.0).to(tl.float32)
    if EIGHT:
        _store_eight(normed, out, scales, row, columns, inside, DIM)
    else:
        tl.store(out + row * DIM + columns, normed.to(out.dtype.element_ty), inside)


@triton.jit
def _round_kernel(x, out, scales, WIDTH: tl.constexpr, WIDTH_PAD: tl.constexpr, GELU: tl.constexpr):
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH_PAD)
    inside = columns < WIDTH
    value = tl.load(x + row * WIDTH + columns, inside, 0.0).to(tl.float32)
    if GELU:
        value = value / (1 + tl.exp(-1.5957691216057308 * (value + 0.044715 * value * value * value)))
    _store_eight(value, out, scales, row, columns, inside, WIDTH)


def norm(x: Tensor, parts: Tensor, rows: list[Tensor], eight: bool) -> tuple[Tensor, Tensor]:
    """As the flow's kernel between two layers, for one step: x moved on, and its norm in the type of `parts` or 8 bits.

    rows: bias, gate, shift, scale [dim]. Returns the norm and its rows' scales [R, 1].
    """
    out = torch.empty(x.shape, dtype=torch.float8_e4m3fn if eight else parts.dtype, device=x.device)
    scales = torch.empty(len(x), 1, device=x.device)
    dim = x.shape[1]
    _norm_kernel[(len(x),)](x, parts, *rows, out, scales, DIM=dim, DIM_PAD=triton.next_power_of_2(dim), EIGHT=eight)
    return out, scales


def rounded(x: Tensor, *, gelu: bool) -> tuple[Tensor, Tensor]:
    """x [R, width], with GELU applied if asked for, in 8 bits with a scale a row [R, 1]."""
    out = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty(len(x), 1, device=x.device)
    width = x.shape[1]
    _round_kernel[(len(x),)](x, out, scales, WIDTH=width, WIDTH_PAD=triton.next_power_of_2(width), GELU=gelu)
    return out, scales
