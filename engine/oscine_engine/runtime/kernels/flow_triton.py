"""The kernels of `flow` in Triton, with the same arguments and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from oscine_engine.flow.slotted import Batch
    from oscine_engine.runtime.kernels.flow import PositionConv

_LEAST = 16
"""Smallest side of a tile that the matrix units take."""
_LOG2_E = 1.4426950408889634


def _side(size: int) -> int:
    return max(_LEAST, int(triton.next_power_of_2(size)))


def _precision(x: Tensor) -> str:
    """Float32 stays float32: the matrix units would round it to 10 bits."""
    return "ieee" if x.dtype == torch.float32 else "tf32"


_OVERLAP = True
"""Whether, at one stream, a kernel may start while the one before it ends, up to where it needs that one's results."""


def _overlaps(x: Tensor) -> bool:
    """With more rows the early programs only take room from those that still compute."""
    return _OVERLAP and x.is_cuda and len(x) <= _FEW_ROWS


def _early(x: Tensor) -> dict[str, bool]:
    """How to launch the kernels of a block, which follow each other closely."""
    overlap = _overlaps(x)
    return {"OVERLAP": overlap, "launch_pdl": overlap}


_FETCH_PAGES = True
"""Whether an attention that waits for the kernel before it has its pages brought to the second-level cache."""


@triton.jit
def _let_in(OVERLAP: tl.constexpr):
    """Let the next kernel come."""
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def _await(OVERLAP: tl.constexpr):
    """Wait until the kernel before has written all."""
    if OVERLAP:
        tl.extra.cuda.gdc_wait()


@triton.jit
def _follow(OVERLAP: tl.constexpr):
    _let_in(OVERLAP)
    _await(OVERLAP)


@triton.jit
def _fetch(pointers):
    """Have the lines of memory at `pointers` brought to the second-level cache; nobody waits for them."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [pointers.to(tl.int64)], tl.int32, is_pure=False, pack=1
    )


@triton.jit
def _embed_kernel(
    state, static, weight, slots, out,
    CHUNK: tl.constexpr, MEL: tl.constexpr, DIM: tl.constexpr,
    ROWS_PAD: tl.constexpr, MEL_PAD: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    stream = tl.program_id(0)
    slot = tl.load(slots + stream).to(tl.int64)
    frames, bands = tl.arange(0, ROWS_PAD), tl.arange(0, MEL_PAD)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    present = (frames < CHUNK)[:, None]
    mel = tl.load(
        state + (slot * CHUNK + frames[:, None]) * MEL + bands[None, :], present & (bands < MEL)[None, :], 0.0
    )
    across = (bands < MEL)[:, None] & (columns < DIM)[None, :]
    into = tl.load(weight + columns[None, :] * MEL + bands[:, None], across, 0.0)
    moving = tl.dot(mel.to(into.dtype), into, input_precision=PRECISION)
    held = present & (columns < DIM)[None, :]
    for row in tl.static_range(2):
        fixed = tl.load(static + ((slot * 2 + row) * CHUNK + frames[:, None]) * DIM + columns[None, :], held, 0.0)
        to = out + ((stream * 2 + row) * CHUNK + frames[:, None]) * DIM + columns[None, :]
        tl.store(to, (fixed.to(tl.float32) + moving).to(out.dtype.element_ty), held)


def embed(state: Tensor, static: Tensor, weight: Tensor, slots: Tensor) -> Tensor:
    """As `flow.embed`."""
    chunk, mel = state.shape[1:]
    dim, count = static.shape[3], len(slots)
    out = static.new_empty(2 * count, chunk, dim)
    tile = min(64, _side(dim))
    _embed_kernel[(count, triton.cdiv(dim, tile))](
        state, static, weight, slots, out,
        CHUNK=chunk, MEL=mel, DIM=dim, ROWS_PAD=_side(chunk), MEL_PAD=_side(mel), TILE=tile,
        PRECISION=_precision(static),
    )  # fmt: skip
    return out


@triton.jit
def _position_kernel(
    x, table, slots, steps, tiles, bias, residual, out, table_slot, table_conv, table_step,
    CHUNK: tl.constexpr, KEPT: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    ROWS_PAD: tl.constexpr, KEPT_PAD: tl.constexpr, WIDTH_PAD: tl.constexpr, CONV: tl.constexpr, ADD: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    pair, group = tl.program_id(0), tl.program_id(1)
    stream, row = pair // 2, pair % 2
    slot, step = tl.load(slots + stream).to(tl.int64), tl.load(steps + stream).to(tl.int64)
    tail = table + slot * table_slot + CONV * table_conv + step * table_step + row * KEPT * DIM
    signal = x + pair * CHUNK * DIM
    frames, inputs, outputs = tl.arange(0, ROWS_PAD), tl.arange(0, WIDTH_PAD), tl.arange(0, WIDTH_PAD)
    inside = (inputs < WIDTH)[None, :]
    across = (inputs < WIDTH)[:, None] & (outputs < WIDTH)[None, :]
    read = group * WIDTH + inputs[None, :]
    total = tl.zeros((ROWS_PAD, WIDTH_PAD), tl.float32)
    for tap in range(KEPT + 1):
        place = frames + tap
        before = tl.load(tail + place[:, None] * DIM + read, inside & (place < KEPT)[:, None], 0.0)
        now = ((place >= KEPT) & (frames < CHUNK))[:, None]
        after = tl.load(signal + (place - KEPT)[:, None] * DIM + read, inside & now, 0.0)
        square = tiles + ((group * (KEPT + 1) + tap) * WIDTH + inputs[:, None]) * WIDTH + outputs[None, :]
        total = tl.dot(before + after, tl.load(square, across, 0.0), total, input_precision=PRECISION)
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
    # The tail is this program's alone, but all of it must have been read before it is overwritten.
    tl.debug_barrier()
    ends = tl.arange(0, KEPT_PAD)[:, None]
    moved = (ends < KEPT) & inside
    tl.store(tail + ends * DIM + read, tl.load(signal + (CHUNK - KEPT + ends) * DIM + read, moved, 0.0), moved)


def position(
    x: Tensor, table: Tensor, slots: Tensor, steps: Tensor, number: int, conv: PositionConv, residual: Tensor | None
) -> Tensor:
    """One of the two convolutions: x [2B, C, dim] -> [2B, C, dim], float32 with the residual added, if there is one.

    Moves its tails on. C is at least the convolution's taps less one.
    """
    pairs, chunk, dim = x.shape
    width, kept = dim // conv.groups, table.shape[4]
    out = torch.empty_like(x, dtype=x.dtype if residual is None else torch.float32)
    _position_kernel[(pairs, conv.groups)](
        x, table, slots, steps, conv.tiles, conv.bias, x if residual is None else residual, out, *table.stride()[:3],
        CHUNK=chunk, KEPT=kept, DIM=dim, WIDTH=width, ROWS_PAD=_side(chunk), KEPT_PAD=_side(kept),
        WIDTH_PAD=_side(width), CONV=number, ADD=residual is not None, PRECISION=_precision(x),
        num_stages=2 if x.dtype == torch.float32 else 4,
    )  # fmt: skip
    return out


@triton.jit
def _norm_kernel(
    x, parts, bias, gate, shift, scale, steps, out, part_size, gate_stride, shift_stride, scale_stride, eps,
    PER_STREAM: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr, PARTS: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    _let_in(OVERLAP)
    row = tl.program_id(0).to(tl.int64)
    step = tl.load(steps + row // PER_STREAM).to(tl.int64)
    columns = tl.arange(0, DIM_PAD)
    inside = columns < DIM
    # None of this comes from the kernel before.
    scales = tl.load(scale + step * scale_stride + columns, inside, 0.0).to(tl.float32)
    shifts = tl.load(shift + step * shift_stride + columns, inside, 0.0).to(tl.float32)
    if PARTS > 0:
        y = tl.load(bias + columns, inside, 0.0).to(tl.float32)
        gates = tl.load(gate + step * gate_stride + columns, inside, 0.0).to(tl.float32)
    _await(OVERLAP)
    value = tl.load(x + row * DIM + columns, inside, 0.0)
    if PARTS > 0:
        for part in tl.static_range(PARTS):
            y += tl.load(parts + part * part_size + row * DIM + columns, inside, 0.0).to(tl.float32)
        value += gates * y
        tl.store(x + row * DIM + columns, value, inside)
    centred = tl.where(inside, value - tl.sum(value, 0) / DIM, 0.0)
    normed = centred / tl.sqrt(tl.sum(centred * centred, 0) / DIM + eps)
    tl.store(out + row * DIM + columns, (normed * scales + shifts).to(out.dtype.element_ty), inside)


def gate_norm_modulate(
    x: Tensor,
    parts: Tensor | None,
    bias: Tensor | None,
    gate: Tensor | None,
    shift: Tensor,
    scale: Tensor,
    steps: Tensor,
    eps: float,
) -> Tensor:
    """As `flow.gate_norm_modulate`; without parts, bias and gate as `flow.norm_modulate`."""
    rows, dim = x.shape
    out = torch.empty_like(x, dtype=shift.dtype)
    _norm_kernel[(rows,)](
        x, x if parts is None else parts, shift if bias is None else bias, shift if gate is None else gate,
        shift, scale, steps, out,
        0 if parts is None else parts.stride(0), 0 if gate is None else gate.stride(0), shift.stride(0),
        scale.stride(0), eps, PER_STREAM=rows // len(steps), DIM=dim, DIM_PAD=triton.next_power_of_2(dim),
        PARTS=0 if parts is None else len(parts), **_early(x),
    )  # fmt: skip
    return out


@triton.jit
def _linear_kernel(
    x, weight, bias, out, rows, outputs, inputs,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, SHARE: tl.constexpr, WHOLE: tl.constexpr,
    GELU: tl.constexpr, PRECISION: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    _follow(OVERLAP)
    lines = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    depth = tl.program_id(2) * SHARE + tl.arange(0, INPUTS)
    present = (lines < rows)[:, None]
    left = x + lines[:, None] * inputs + depth[None, :]
    right = weight + columns[None, :] * inputs + depth[:, None]
    total = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for at in range(0, SHARE, INPUTS):
        total = tl.dot(tl.load(left + at, present, 0.0), tl.load(right + at), total, input_precision=PRECISION)
    if WHOLE:
        total += tl.load(bias + columns).to(tl.float32)[None, :]
    if GELU:
        total = total / (1 + tl.exp(-1.5957691216057308 * (total + 0.044715 * total * total * total)))
    to = out + (tl.program_id(2) * rows + lines[:, None]) * outputs + columns[None, :]
    tl.store(to, total.to(out.dtype.element_ty), present)


_FEW_ROWS = 100
"""Up to here the kernel below is taken; beyond, there is work enough for torch's own."""
_TILE = (64, 32, 128, 4)
"""Rows, outputs and inputs of a tile, and how many are on their way at once."""
_SHARE = 512
"""Inputs that one program adds up, where they are shared out."""


def suits(x: Tensor, weight: Tensor) -> bool:
    """Whether `linear` and `product` can take this, and should."""
    return len(x) <= _FEW_ROWS and x.dtype != torch.float32 and divides(weight)


def follows(x: Tensor, weight: Tensor) -> bool:
    """Whether `linear` should take this although torch's own is a little faster: what comes after can start earlier."""
    return _overlaps(x) and suits(x, weight)


def divides(weight: Tensor) -> bool:
    outputs, inputs = weight.shape
    return outputs % _TILE[1] == 0 and inputs % min(inputs, _SHARE) == 0 and min(inputs, _SHARE) % _TILE[2] == 0


def linear(x: Tensor, weight: Tensor, bias: Tensor, *, gelu: bool) -> Tensor:
    """A linear layer, with GELU in its tanh form behind it if asked for."""
    out = x.new_empty(len(x), len(weight))
    _linear(x, weight, bias, out, shares=1, gelu=gelu)
    return out


def product(x: Tensor, weight: Tensor) -> Tensor:
    """As `flow.product`; float32."""
    shares = max(1, weight.shape[1] // _SHARE)
    out = torch.empty(shares, len(x), len(weight), dtype=torch.float32, device=x.device)
    _linear(x, weight, None, out, shares=shares, gelu=False)
    return out


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, *, shares: int, gelu: bool) -> None:
    outputs, inputs = weight.shape
    rows_tile, outputs_tile, inputs_tile, stages = _TILE
    _linear_kernel[(outputs // outputs_tile, triton.cdiv(len(x), rows_tile), shares)](
        x, weight, weight if bias is None else bias, out, len(x), outputs, inputs,
        ROWS=rows_tile, OUTPUTS=outputs_tile, INPUTS=inputs_tile, SHARE=inputs // shares, WHOLE=bias is not None,
        GELU=gelu, PRECISION=_precision(x), num_warps=4, num_stages=2 if x.dtype == torch.float32 else stages,
        **_early(x),
    )  # fmt: skip


@triton.jit
def _turned(x, place, valid, cos, sin, LINES: tl.constexpr, WIDTH: tl.constexpr, WIDTH_PAD: tl.constexpr):
    """The head x, its channels turned in pairs by the angles of the positions `place`, of which `valid` have some."""
    pairs = tl.arange(0, WIDTH_PAD // 2)
    wanted = valid[:, None] & (pairs < WIDTH // 2)[None, :]
    angle = place[:, None] * (WIDTH // 2) + pairs[None, :]
    c, s = tl.load(cos + angle, wanted, 1.0), tl.load(sin + angle, wanted, 0.0)
    even, odd = tl.split(tl.reshape(x.to(tl.float32), (LINES, WIDTH_PAD // 2, 2)))
    return tl.reshape(tl.join(even * c - odd * s, even * s + odd * c), (LINES, WIDTH_PAD)).to(x.dtype)


@triton.jit
def _seen(query, key, value, known, factor, best, weight, total, PRECISION: tl.constexpr):
    """Take in the `known` [keys] of these keys and values: the running maximum, sum of shares and weighted values."""
    scores = tl.dot(query, tl.trans(key), input_precision=PRECISION)
    scores = tl.where(known[None, :], scores, float("-inf"))
    # Scaled where they are raised: one instruction for both.
    peak = tl.maximum(best, tl.max(scores, 1) * factor)
    shares, fade = tl.exp2(scores * factor - peak[:, None]), tl.exp2(best - peak)
    weight = weight * fade + tl.sum(shares, 1)
    total = tl.dot(shares.to(value.dtype), value, total * fade[:, None], input_precision=PRECISION)
    return peak, weight, total


@triton.jit
def _attend_kernel(
    qkv, cos, sin, pool, steps, starts, frames, pages, out, sums, most, page_size, step_size, layer_offset, kind_size,
    row_size, factor,
    HEADS: tl.constexpr, CHUNK: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, CHUNK_PAD: tl.constexpr,
    WIDTH_PAD: tl.constexpr, SPLITS: tl.constexpr, PRECISION: tl.constexpr, FETCH: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    pair, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    stream, row = pair // 2, pair % 2
    lines, columns = tl.arange(0, CHUNK_PAD), tl.arange(0, WIDTH_PAD)
    inside = (columns < WIDTH)[None, :]
    whole = (lines < CHUNK)[:, None] & inside
    start, count = tl.load(starts + stream), tl.load(frames + stream)
    step = tl.load(steps + stream).to(tl.int64)
    last = start // CHUNK
    held = pool + step * step_size + layer_offset + row * row_size + head * WIDTH
    if FETCH:
        # The pages before the chunk are older than any kernel of this step.
        nearest = held + tl.minimum(lines, CHUNK - 1) * INNER
        for place in range(split, last, SPLITS):
            page = nearest + tl.load(pages + stream * most + place).to(tl.int64) * page_size
            _fetch(page)
            _fetch(page + kind_size)
    _follow(OVERLAP)
    source = qkv + (pair * CHUNK + lines[:, None]) * (3 * INNER) + head * WIDTH + columns[None, :]
    query = tl.load(source, whole, 0.0)
    rows = tl.num_programs(0) * CHUNK
    line = pair * CHUNK + lines
    to = out + (split * rows + line[:, None]) * INNER + head * WIDTH + columns[None, :]
    # [2 (peak, weight), shares, heads, rows]
    peaks = sums + (split * HEADS + head) * rows + line
    weights = peaks + SPLITS * HEADS * rows
    if (count == 0) | (split > last):
        if SPLITS == 1:
            tl.store(to, tl.zeros((CHUNK_PAD, WIDTH_PAD), out.dtype.element_ty), whole)
        else:
            tl.store(weights, tl.zeros((CHUNK_PAD,), tl.float32), lines < CHUNK)
        return
    valid = lines < count
    if head == 0:
        query = _turned(query, start + lines, valid, cos, sin, CHUNK_PAD, WIDTH, WIDTH_PAD)
    best = tl.full((CHUNK_PAD,), float("-inf"), tl.float32)
    weight = tl.zeros((CHUNK_PAD,), tl.float32)
    total = tl.zeros((CHUNK_PAD, WIDTH_PAD), tl.float32)
    base = held + lines[:, None] * INNER + columns[None, :]
    for place in range(split, last, SPLITS):
        where = base + tl.load(pages + stream * most + place).to(tl.int64) * page_size
        key = tl.load(where, whole, 0.0).to(query.dtype)
        value = tl.load(where + kind_size, whole, 0.0).to(query.dtype)
        best, weight, total = _seen(query, key, value, lines < CHUNK, factor, best, weight, total, PRECISION)
    if last % SPLITS == split:
        # The chunk's own keys and values: from where they are, and into their page for the chunks after it.
        wanted = valid[:, None] & inside
        key = tl.load(source + INNER, wanted, 0.0)
        value = tl.load(source + 2 * INNER, wanted, 0.0)
        where = base + tl.load(pages + stream * most + last).to(tl.int64) * page_size
        if head == 0:
            key = _turned(key, start + lines, valid, cos, sin, CHUNK_PAD, WIDTH, WIDTH_PAD)
        tl.store(where, key.to(pool.dtype.element_ty), wanted)
        tl.store(where + kind_size, value.to(pool.dtype.element_ty), wanted)
        best, weight, total = _seen(query, key, value, valid, factor, best, weight, total, PRECISION)
    if SPLITS == 1:
        total = total / tl.where(weight == 0, 1.0, weight)[:, None]
    else:
        tl.store(peaks, best, lines < CHUNK)
        tl.store(weights, weight, lines < CHUNK)
    tl.store(to, total.to(out.dtype.element_ty), whole)


@triton.jit
def _merge_kernel(
    parts, sums, out,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, WIDTH_PAD: tl.constexpr, SPLITS: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    _follow(OVERLAP)
    row, rows = tl.program_id(0), tl.num_programs(0)
    heads, columns = tl.program_id(1) * TILE + tl.arange(0, TILE), tl.arange(0, WIDTH_PAD)
    inside = (heads < HEADS)[:, None] & (columns < WIDTH)[None, :]
    # Shares without a key weigh nothing and have written no more than that.
    best = tl.full((TILE,), float("-inf"), tl.float32)
    for split in tl.static_range(SPLITS):
        at = sums + (split * HEADS + heads) * rows + row
        peak, share = tl.load(at, heads < HEADS, 0.0), tl.load(at + SPLITS * HEADS * rows, heads < HEADS, 0.0)
        best = tl.maximum(best, tl.where(share != 0, peak, float("-inf")))
    weight = tl.zeros((TILE,), tl.float32)
    total = tl.zeros((TILE, WIDTH_PAD), tl.float32)
    for split in tl.static_range(SPLITS):
        at = sums + (split * HEADS + heads) * rows + row
        peak, share = tl.load(at, heads < HEADS, 0.0), tl.load(at + SPLITS * HEADS * rows, heads < HEADS, 0.0)
        fade = tl.where(share != 0, tl.exp2(peak - best), 0.0)
        weight += fade * share
        where = parts + (split * rows + row) * (HEADS * WIDTH) + heads[:, None] * WIDTH + columns[None, :]
        total += fade[:, None] * tl.load(where, inside & (share != 0)[:, None], 0.0)
    total = total / tl.where(weight == 0, 1.0, weight)[:, None]
    to = out + row * (HEADS * WIDTH) + heads[:, None] * WIDTH + columns[None, :]
    tl.store(to, total.to(out.dtype.element_ty), inside)


_STAGES = 5
"""Of the loop over pages; two of them are spent on finding a page, so keys and values are fetched two rounds ahead."""
_MANY_STAGES = 7
"""The same with more rows than one stream has: three rounds ahead, since memory is what the loop waits for then."""
_REGISTERS: int | None = 168
"""Most registers of a thread in 16 bit: with more, two programs fill a multiprocessor, and not three."""


def attend(
    qkv: Tensor, cos: Tensor, sin: Tensor, pool: Tensor, layer: int, heads: int, batch: Batch, splits: int
) -> Tensor:
    """As `flow.attend`; the pool holds the type of qkv."""
    chunk, inner = pool.shape[5:]
    rows, width = len(qkv), inner // heads
    pairs = rows // chunk
    sizes = (pool.stride(0), pool.stride(1), layer * pool.stride(2), pool.stride(3), pool.stride(4))
    places = (batch.steps, batch.starts, batch.frames, batch.pages)
    out = qkv.new_empty(rows, inner)
    whole = splits == 1
    parts = out if whole else torch.empty(splits, rows, inner, dtype=torch.float32, device=qkv.device)
    sums = cos if whole else torch.empty(2, splits, heads, rows, dtype=torch.float32, device=qkv.device)
    _attend_kernel[(pairs, heads, splits)](
        qkv, cos, sin, pool, *places, parts, sums, batch.pages.stride(0), *sizes, _LOG2_E / width**0.5,
        HEADS=heads, CHUNK=chunk, INNER=inner, WIDTH=width, CHUNK_PAD=_side(chunk), WIDTH_PAD=_side(width),
        SPLITS=splits, PRECISION=_precision(qkv), num_warps=4,
        num_stages=2 if qkv.dtype == torch.float32 else _STAGES if rows <= _FEW_ROWS else _MANY_STAGES,
        FETCH=_FETCH_PAGES and _overlaps(qkv),
        maxnreg=None if qkv.dtype == torch.float32 else _REGISTERS, **_early(qkv),
    )  # fmt: skip
    if not whole:
        tile = min(4, triton.next_power_of_2(heads))
        _merge_kernel[(rows, triton.cdiv(heads, tile))](
            parts, sums, out,
            HEADS=heads, WIDTH=width, TILE=tile, WIDTH_PAD=triton.next_power_of_2(width), SPLITS=splits, num_warps=1,
            **_early(qkv),
        )  # fmt: skip
    return out


@triton.jit
def _advance_kernel(
    state, velocity, slots, steps, lengths, out, rate, SIZE: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    stream = tl.program_id(0).to(tl.int64)
    slot, step = tl.load(slots + stream).to(tl.int64), tl.load(steps + stream)
    at = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = at < SIZE
    conditional = tl.load(velocity + stream * 2 * SIZE + at, inside, 0.0).to(tl.float32)
    unconditional = tl.load(velocity + (stream * 2 + 1) * SIZE + at, inside, 0.0).to(tl.float32)
    guided = (1 + rate) * conditional - rate * unconditional
    moved = tl.load(state + slot * SIZE + at, inside, 0.0) + tl.load(lengths + step) * guided
    tl.store(state + slot * SIZE + at, moved, inside)
    tl.store(out + stream * SIZE + at, moved, inside)


def advance(
    state: Tensor, velocity: Tensor, slots: Tensor, steps: Tensor, lengths: Tensor, rate: float, out: Tensor
) -> None:
    """As `flow.advance`."""
    size, tile = state[0].numel(), 512
    _advance_kernel[(len(slots), triton.cdiv(size, tile))](
        state, velocity, slots, steps, lengths, out, rate, SIZE=size, TILE=tile
    )
