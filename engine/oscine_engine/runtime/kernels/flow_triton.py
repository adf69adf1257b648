"""The kernels of `flow` in Triton, with the same arguments and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from oscine_engine.runtime.kernels.merge_triton import merge

if TYPE_CHECKING:
    from oscine_engine.flow.slotted import Batch
    from oscine_engine.runtime.kernels.flow import PositionConv

_LEAST = 16
"""Smallest side of a tile that the matrix units take."""


def _side(size: int) -> int:
    return max(_LEAST, int(triton.next_power_of_2(size)))


def _precision(x: Tensor) -> str:
    """Float32 stays float32: the matrix units would round it to 10 bits."""
    return "ieee" if x.dtype == torch.float32 else "tf32"


@triton.jit
def _position_kernel(
    x, table, slots, steps, tiles, bias, residual, out, table_slot, table_conv, table_step,
    CHUNK: tl.constexpr, KEPT: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    ROWS_PAD: tl.constexpr, WIDTH_PAD: tl.constexpr, CONV: tl.constexpr, ADD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    pair, group = tl.program_id(0), tl.program_id(1)
    stream, row = pair // 2, pair % 2
    slot, step = tl.load(slots + stream).to(tl.int64), tl.load(steps + stream).to(tl.int64)
    tail = table + slot * table_slot + CONV * table_conv + step * table_step + row * KEPT * DIM
    signal = x + pair * CHUNK * DIM
    frames, inputs, outputs = tl.arange(0, ROWS_PAD), tl.arange(0, WIDTH_PAD), tl.arange(0, WIDTH_PAD)
    inside = inputs[None, :] < WIDTH
    total = tl.zeros((ROWS_PAD, WIDTH_PAD), tl.float32)
    for tap in range(KEPT + 1):
        place = frames + tap
        columns = group * WIDTH + inputs[None, :]
        before = tl.load(tail + place[:, None] * DIM + columns, inside & (place < KEPT)[:, None], 0.0)
        now = ((place >= KEPT) & (frames < CHUNK))[:, None]
        after = tl.load(signal + (place - KEPT)[:, None] * DIM + columns, inside & now, 0.0)
        weight = tl.load(
            tiles + ((group * (KEPT + 1) + tap) * WIDTH + inputs[:, None]) * WIDTH + outputs[None, :],
            (inputs[:, None] < WIDTH) & (outputs[None, :] < WIDTH), 0.0,
        )  # fmt: skip
        total = tl.dot(before + after, weight, total, input_precision=PRECISION)
    columns = group * WIDTH + outputs[None, :]
    total += tl.load(bias + columns, outputs[None, :] < WIDTH, 0.0).to(tl.float32)
    # Mish: x tanh(log(1 + e^x)), written so that no exponential overflows.
    small = tl.exp(-tl.abs(total))
    ratio = tl.where(total >= 0, (1 + 2 * small) / (1 + 2 * small + 2 * small * small),
                     (small * small + 2 * small) / (small * small + 2 * small + 2))  # fmt: skip
    value = total * ratio
    held = (frames < CHUNK)[:, None] & (outputs[None, :] < WIDTH)
    where = pair * CHUNK * DIM + frames[:, None] * DIM + columns
    if ADD:
        value += tl.load(residual + where, held, 0.0).to(tl.float32)
    tl.store(out + where, value.to(out.dtype.element_ty), held)


def position(
    x: Tensor, table: Tensor, slots: Tensor, steps: Tensor, number: int, conv: PositionConv, residual: Tensor | None
) -> Tensor:
    """One of the two convolutions: x [2B, C, dim] -> [2B, C, dim], float32 with the residual added, if there is one."""
    pairs, chunk, dim = x.shape
    width = dim // conv.groups
    out = torch.empty_like(x, dtype=x.dtype if residual is None else torch.float32)
    _position_kernel[(pairs, conv.groups)](
        x, table, slots, steps, conv.tiles, conv.bias, x if residual is None else residual, out, *table.stride()[:3],
        CHUNK=chunk, KEPT=table.shape[4], DIM=dim, WIDTH=width, ROWS_PAD=_side(chunk), WIDTH_PAD=_side(width),
        CONV=number, ADD=residual is not None, PRECISION=_precision(x),
    )  # fmt: skip
    return out


@triton.jit
def _norm_kernel(
    x, y, gate, shift, scale, out, gate_stride, shift_stride, scale_stride, eps,
    PER_STREAM: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    stream = row // PER_STREAM
    columns = tl.arange(0, DIM_PAD)
    inside = columns < DIM
    value = tl.load(x + row * DIM + columns, inside, 0.0)
    if ADD:
        value += tl.load(gate + stream * gate_stride + columns, inside, 0.0).to(tl.float32) * tl.load(
            y + row * DIM + columns, inside, 0.0
        ).to(tl.float32)
        tl.store(x + row * DIM + columns, value, inside)
    centred = tl.where(inside, value - tl.sum(value, 0) / DIM, 0.0)
    normed = centred / tl.sqrt(tl.sum(centred * centred, 0) / DIM + eps)
    normed = normed * tl.load(scale + stream * scale_stride + columns, inside, 0.0).to(tl.float32)
    normed += tl.load(shift + stream * shift_stride + columns, inside, 0.0).to(tl.float32)
    tl.store(out + row * DIM + columns, normed.to(out.dtype.element_ty), inside)


def gate_norm_modulate(
    x: Tensor, y: Tensor | None, gate: Tensor | None, shift: Tensor, scale: Tensor, eps: float
) -> Tensor:
    """As `flow.gate_norm_modulate`; without y and gate as `flow.norm_modulate`."""
    rows, dim = x.shape
    out = torch.empty_like(x, dtype=shift.dtype)
    _norm_kernel[(rows,)](
        x, x if y is None else y, shift if gate is None else gate, shift, scale, out,
        0 if gate is None else gate.stride(0), shift.stride(0), scale.stride(0), eps,
        PER_STREAM=rows // len(shift), DIM=dim, DIM_PAD=triton.next_power_of_2(dim), ADD=y is not None,
    )  # fmt: skip
    return out


@triton.jit
def _write_kernel(
    qkv, cos, sin, pool, steps, starts, frames, pages, most, page_size, step_size, layer_offset, kind_size, row_size,
    CHUNK: tl.constexpr, INNER: tl.constexpr, INNER_PAD: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    pair, frame = tl.program_id(0), tl.program_id(1)
    stream, row = pair // 2, pair % 2
    start = tl.load(starts + stream)
    if frame < tl.load(frames + stream):
        page = tl.load(pages + stream * most + start // CHUNK).to(tl.int64)
        step = tl.load(steps + stream).to(tl.int64)
        own = pool + page * page_size + step * step_size + layer_offset + row * row_size + frame * INNER
        columns = tl.arange(0, INNER_PAD)
        inside = columns < INNER
        source = qkv + (pair * CHUNK + frame).to(tl.int64) * 3 * INNER
        key = tl.load(source + INNER + columns, inside, 0.0).to(tl.float32)
        turned = columns < WIDTH
        partner = tl.load(source + INNER + (columns ^ 1), turned, 0.0).to(tl.float32)
        angle = (start + frame) * (WIDTH // 2) + columns // 2
        c, s = tl.load(cos + angle, turned, 1.0), tl.load(sin + angle, turned, 0.0)
        key = key * c + tl.where(columns % 2 == 0, -s, s) * partner
        tl.store(own + columns, key.to(pool.dtype.element_ty), inside)
        value = tl.load(source + 2 * INNER + columns, inside, 0.0)
        tl.store(own + kind_size + columns, value.to(pool.dtype.element_ty), inside)


@triton.jit
def _attend_kernel(
    qkv, cos, sin, pool, steps, starts, frames, pages, out, sums, most, page_size, step_size, layer_offset, kind_size,
    row_size, factor,
    HEADS: tl.constexpr, CHUNK: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, CHUNK_PAD: tl.constexpr,
    WIDTH_PAD: tl.constexpr, SPLITS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    pair, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    stream, row = pair // 2, pair % 2
    start, count = tl.load(starts + stream), tl.load(frames + stream)
    step = tl.load(steps + stream).to(tl.int64)
    base = pool + step * step_size + layer_offset + row * row_size + head * WIDTH
    lines, columns = tl.arange(0, CHUNK_PAD), tl.arange(0, WIDTH_PAD)
    inside = (columns < WIDTH)[None, :]
    source = qkv + (pair * CHUNK + lines[:, None]).to(tl.int64) * 3 * INNER + head * WIDTH
    asked = (lines < count)[:, None]
    query = tl.load(source + columns[None, :], asked & inside, 0.0)
    if head == 0:
        partner = tl.load(source + (columns ^ 1)[None, :], asked & inside, 0.0).to(tl.float32)
        angle = (start + lines[:, None]) * (WIDTH // 2) + (columns // 2)[None, :]
        c, s = tl.load(cos + angle, asked & inside, 1.0), tl.load(sin + angle, asked & inside, 0.0)
        query = (query.to(tl.float32) * c + tl.where((columns % 2 == 0)[None, :], -s, s) * partner).to(query.dtype)
    best = tl.full((CHUNK_PAD,), float("-inf"), tl.float32)
    weight = tl.zeros((CHUNK_PAD,), tl.float32)
    total = tl.zeros((CHUNK_PAD, WIDTH_PAD), tl.float32)
    last = start // CHUNK
    place = split
    if count == 0:
        place = last + 1
    while place <= last:
        page = tl.load(pages + stream * most + place).to(tl.int64)
        held = tl.where(place < last, CHUNK, count)
        known = lines < held
        where = base + page * page_size + lines[:, None] * INNER + columns[None, :]
        key = tl.load(where, known[:, None] & inside, 0.0).to(query.dtype)
        scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * factor
        scores = tl.where(known[None, :], scores, float("-inf"))
        peak = tl.maximum(best, tl.max(scores, 1))
        shares = tl.exp2(scores - peak[:, None])
        fade = tl.exp2(best - peak)
        weight = weight * fade + tl.sum(shares, 1)
        value = tl.load(where + kind_size, known[:, None] & inside, 0.0).to(query.dtype)
        total = tl.dot(shares.to(query.dtype), value, total * fade[:, None], input_precision=PRECISION)
        best = peak
        place += SPLITS
    line = (pair * CHUNK + lines).to(tl.int64)
    if SPLITS == 1:
        total = total / tl.where(weight > 0, weight, 1.0)[:, None]
        to = out + line[:, None] * INNER + head * WIDTH + columns[None, :]
        tl.store(to, total.to(out.dtype.element_ty), (lines < CHUNK)[:, None] & inside)
    else:
        rows = tl.num_programs(0).to(tl.int64) * CHUNK
        to = out + (split * rows + line[:, None]) * INNER + head * WIDTH + columns[None, :]
        tl.store(to, total, (lines < CHUNK)[:, None] & inside)
        pair_sums = sums + ((split * rows + line) * HEADS + head) * 2
        tl.store(pair_sums, best, lines < CHUNK)
        tl.store(pair_sums + 1, weight, lines < CHUNK)


_LOG2_E = 1.4426950408889634


def attend(
    qkv: Tensor, cos: Tensor, sin: Tensor, pool: Tensor, layer: int, heads: int, batch: Batch, splits: int
) -> Tensor:
    """As `flow.attend`."""
    chunk, inner = pool.shape[5:]
    rows, width = len(qkv), inner // heads
    pairs = rows // chunk
    sizes = (pool.stride(0), pool.stride(1), layer * pool.stride(2), pool.stride(3), pool.stride(4))
    places = (batch.steps, batch.starts, batch.frames, batch.pages)
    _write_kernel[(pairs, chunk)](
        qkv, cos, sin, pool, *places, batch.pages.stride(0), *sizes,
        CHUNK=chunk, INNER=inner, INNER_PAD=triton.next_power_of_2(inner), WIDTH=width,
    )  # fmt: skip
    out = qkv.new_empty(rows, inner)
    whole = splits == 1
    parts = out if whole else torch.empty(splits, rows, inner, dtype=torch.float32, device=qkv.device)
    sums = cos if whole else torch.empty(splits, rows, heads, 2, dtype=torch.float32, device=qkv.device)
    _attend_kernel[(pairs, heads, splits)](
        qkv, cos, sin, pool, *places, parts, sums, batch.pages.stride(0), *sizes, _LOG2_E / width**0.5,
        HEADS=heads, CHUNK=chunk, INNER=inner, WIDTH=width, CHUNK_PAD=_side(chunk), WIDTH_PAD=_side(width),
        SPLITS=splits, PRECISION=_precision(qkv), num_warps=4,
    )  # fmt: skip
    if not whole:
        merge(parts, sums, out)
    return out
