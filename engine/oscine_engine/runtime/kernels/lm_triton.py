"""The kernels of `lm` in Triton, with the same arguments and results."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from oscine_engine.runtime.kernels.lm import Tiles
from oscine_engine.runtime.kernels.merge_triton import merge

_LEAST = 16
"""Smallest side of a tile that the matrix units take."""
_KEYS = 64
"""Keys of one turn of the attention's loop."""
_LOG2_E = 1.4426950408889634


@triton.jit
def _add_norm_kernel(x, y, weight, out, eps, DIM: tl.constexpr, DIM_PAD: tl.constexpr, ADD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, DIM_PAD)
    inside = columns < DIM
    value = tl.load(x + row * DIM + columns, inside, 0.0)
    if ADD:
        value += tl.load(y + row * DIM + columns, inside, 0.0).to(tl.float32)
        tl.store(x + row * DIM + columns, value, inside)
    normed = value / tl.sqrt(tl.sum(value * value, 0) / DIM + eps)
    normed = normed * tl.load(weight + columns, inside, 0.0).to(tl.float32)
    tl.store(out + row * DIM + columns, normed.to(out.dtype.element_ty), inside)


def add_norm(x: Tensor, y: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """As `lm.add_norm`."""
    rows, dim = x.shape
    out = torch.empty_like(x, dtype=weight.dtype)
    _add_norm_kernel[(rows,)](
        x, x if y is None else y, weight, out, eps, DIM=dim, DIM_PAD=triton.next_power_of_2(dim), ADD=y is not None
    )
    return out


@triton.jit
def _norm_some_kernel(x, y, rows, weight, out, eps, DIM: tl.constexpr, DIM_PAD: tl.constexpr):
    row = tl.load(rows + tl.program_id(0))
    columns = tl.arange(0, DIM_PAD)
    inside = columns < DIM
    value = tl.load(x + row * DIM + columns, inside, 0.0) + tl.load(y + row * DIM + columns, inside, 0.0)
    normed = value / tl.sqrt(tl.sum(value * value, 0) / DIM + eps)
    normed = normed * tl.load(weight + columns, inside, 0.0).to(tl.float32)
    tl.store(out + tl.program_id(0).to(tl.int64) * DIM + columns, normed.to(out.dtype.element_ty), inside)


def norm_some(x: Tensor, y: Tensor, rows: Tensor, weight: Tensor, eps: float) -> Tensor:
    """As `lm.norm_some`."""
    dim = x.shape[1]
    out = torch.empty(len(rows), dim, dtype=weight.dtype, device=x.device)
    _norm_some_kernel[(len(rows),)](x, y, rows, weight, out, eps, DIM=dim, DIM_PAD=triton.next_power_of_2(dim))
    return out


@triton.jit
def _embed_kernel(kinds, ids, text, speech, out, DIM: tl.constexpr, DIM_PAD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, DIM_PAD)
    inside = columns < DIM
    is_speech = tl.load(kinds + row) == 1
    place = tl.load(ids + row) * DIM + columns
    value = tl.load(speech + place, inside & is_speech, 0.0).to(tl.float32)
    value += tl.load(text + place, inside & (is_speech == 0), 0.0).to(tl.float32)
    tl.store(out + row * DIM + columns, value, inside)


def embed(kinds: Tensor, ids: Tensor, text: Tensor, speech: Tensor) -> Tensor:
    """As `lm.embed`."""
    dim = text.shape[1]
    out = torch.empty(len(ids), dim, dtype=torch.float32, device=ids.device)
    _embed_kernel[(len(ids),)](kinds, ids, text, speech, out, DIM=dim, DIM_PAD=triton.next_power_of_2(dim))
    return out


_FEW_ROWS = 64
"""Up to here the kernels below do a linear layer and what follows it; with more rows torch's own is faster."""
_OUTPUTS = 32


def few(x: Tensor, weight: Tensor, width: int = _OUTPUTS) -> bool:
    """Whether `gated`, or `project` with heads of `width`, can take this, and should."""
    outputs, inputs = weight.shape
    return (
        len(x) <= _FEW_ROWS
        and x.dtype != torch.float32
        and outputs % _OUTPUTS == 0
        and width % _OUTPUTS == 0
        and inputs % _inputs(inputs) == 0
    )


def _inputs(inputs: int) -> int:
    """How many inputs are taken at once."""
    return next((size for size in (128, 64, 32) if inputs % size == 0), 16)


def _stages(rows: int) -> int:
    """Steps of the sum that are on their way at once: as many as let two programs share a multiprocessor."""
    return 4 if rows <= 32 else 3


@triton.jit(do_not_specialize=["rows"])
def _gated_kernel(
    x, weight, out, rows,
    COUNT: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,
):  # fmt: skip
    lines, columns = tl.arange(0, ROWS), tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    depth = tl.arange(0, INPUTS)
    present = (lines < rows)[:, None]
    left = x + lines[:, None] * DIM + depth[None, :]
    right = weight + columns[None, :] * DIM + depth[:, None]
    gate = tl.zeros((ROWS, OUTPUTS), tl.float32)
    up = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for at in range(0, DIM, INPUTS):
        row = tl.load(left + at, present, 0.0)
        gate = tl.dot(row, tl.load(right + at), gate)
        up = tl.dot(row, tl.load(right + (COUNT * DIM + at)), up)
    value = gate * tl.sigmoid(gate) * up
    tl.store(out + lines[:, None] * COUNT + columns[None, :], value.to(out.dtype.element_ty), present)


def gated(x: Tensor, weight: Tensor) -> Tensor:
    """As `lm.gated`, for what is `few`."""
    rows, inputs = x.shape
    count = len(weight) // 2
    out = x.new_empty(rows, count)
    _gated_kernel[(count // _OUTPUTS,)](
        x, weight, out, rows,
        COUNT=count, DIM=inputs, ROWS=max(_LEAST, triton.next_power_of_2(rows)), OUTPUTS=_OUTPUTS,
        INPUTS=_inputs(inputs), num_warps=4, num_stages=_stages(rows),
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["rows"])
def _project_kernel(
    x, weight, bias, out, positions, slots, cos, sin, cache, rows, page_size, kind_size, head_size,
    DIM: tl.constexpr, HEADS: tl.constexpr, KV_HEADS: tl.constexpr, WIDTH: tl.constexpr, PAGE: tl.constexpr,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,
):  # fmt: skip
    begin = tl.program_id(0) * OUTPUTS
    lines, columns = tl.arange(0, ROWS), begin + tl.arange(0, OUTPUTS)
    depth = tl.arange(0, INPUTS)
    present = (lines < rows)[:, None]
    left = x + lines[:, None] * DIM + depth[None, :]
    right = weight + columns[None, :] * DIM + depth[:, None]
    total = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for at in range(0, DIM, INPUTS):
        total = tl.dot(tl.load(left + at, present, 0.0), tl.load(right + at), total)
    total += tl.load(bias + columns).to(tl.float32)[None, :]
    head = begin // WIDTH
    if head < HEADS:
        place = lines[:, None] * ((HEADS + 2 * KV_HEADS) * WIDTH) + columns[None, :]
        tl.store(out + place, total.to(out.dtype.element_ty), present)
    else:
        slot = tl.load(slots + lines, lines < rows, -1)
        kept = (slot >= 0)[:, None]
        channel = begin % WIDTH + tl.arange(0, OUTPUTS)
        to = (slot // PAGE)[:, None] * page_size + (slot % PAGE)[:, None] * WIDTH + channel[None, :]
        if head < HEADS + KV_HEADS:
            pairs = begin % WIDTH // 2 + tl.arange(0, OUTPUTS // 2)
            angle = tl.load(positions + lines, lines < rows, 0)[:, None] * (WIDTH // 2) + pairs[None, :]
            c, s = tl.load(cos + angle), tl.load(sin + angle)
            even, odd = tl.split(tl.reshape(total, (ROWS, OUTPUTS // 2, 2)))
            key = tl.reshape(tl.join(even * c - odd * s, even * s + odd * c), (ROWS, OUTPUTS))
            tl.store(cache + (head - HEADS) * head_size + to, key.to(cache.dtype.element_ty), kept)
        else:
            own = cache + kind_size + (head - HEADS - KV_HEADS) * head_size
            tl.store(own + to, total.to(cache.dtype.element_ty), kept)


def project(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    positions: Tensor,
    slots: Tensor,
    cos: Tensor,
    sin: Tensor,
    cache: Tensor,
    heads: int,
) -> Tensor:
    """As `lm.project`, for what is `few`."""
    kv_heads, page, width = cache.shape[2:]
    (rows, inputs), outputs = x.shape, len(weight)
    out = x.new_empty(rows, outputs)
    _project_kernel[(outputs // _OUTPUTS,)](
        x, weight, bias, out, positions, slots, cos, sin, cache, rows, *cache.stride()[:3],
        DIM=inputs, HEADS=heads, KV_HEADS=kv_heads, WIDTH=width, PAGE=page,
        ROWS=max(_LEAST, triton.next_power_of_2(rows)), OUTPUTS=_OUTPUTS, INPUTS=_inputs(inputs), num_warps=4,
        num_stages=_stages(rows),
    )  # fmt: skip
    return out


@triton.jit
def _silu_kernel(x, out, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < COUNT
    gate = tl.load(x + row * 2 * COUNT + columns, inside, 0.0).to(tl.float32)
    up = tl.load(x + row * 2 * COUNT + COUNT + columns, inside, 0.0).to(tl.float32)
    tl.store(out + row * COUNT + columns, (gate * tl.sigmoid(gate) * up).to(out.dtype.element_ty), inside)


def silu_times(x: Tensor) -> Tensor:
    """As `lm.silu_times`."""
    rows, count = x.shape[0], x.shape[1] // 2
    out = x.new_empty(rows, count)
    _silu_kernel[(rows, triton.cdiv(count, 1024))](x, out, COUNT=count, BLOCK=1024)
    return out


@triton.jit
def _write_kernel(
    qkv, positions, slots, cos, sin, cache, page_size, kind_size, head_size,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, WIDTH: tl.constexpr, WIDTH_PAD: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot = tl.load(slots + row)
    if slot >= 0:
        columns = tl.arange(0, WIDTH_PAD)
        inside = columns < WIDTH
        source = qkv + row * (HEADS + 2 * KV_HEADS) * WIDTH + (HEADS + head) * WIDTH
        key = tl.load(source + columns, inside, 0.0).to(tl.float32)
        partner = tl.load(source + (columns ^ 1), inside, 0.0).to(tl.float32)
        angle = tl.load(positions + row) * (WIDTH // 2) + columns // 2
        c, s = tl.load(cos + angle, inside, 1.0), tl.load(sin + angle, inside, 0.0)
        key = key * c + tl.where(columns % 2 == 0, -s, s) * partner
        own = cache + (slot // PAGE) * page_size + head * head_size + (slot % PAGE) * WIDTH
        tl.store(own + columns, key.to(cache.dtype.element_ty), inside)
        value = tl.load(source + KV_HEADS * WIDTH + columns, inside, 0.0)
        tl.store(own + kind_size + columns, value.to(cache.dtype.element_ty), inside)


def write(qkv: Tensor, positions: Tensor, slots: Tensor, cos: Tensor, sin: Tensor, cache: Tensor, heads: int) -> None:
    """As `lm.write`."""
    kv_heads, page, width = cache.shape[2:]
    _write_kernel[(len(qkv), kv_heads)](
        qkv, positions, slots, cos, sin, cache, *cache.stride()[:3],
        HEADS=heads, KV_HEADS=kv_heads, WIDTH=width, WIDTH_PAD=triton.next_power_of_2(width), PAGE=page, num_warps=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])
def _attend_kernel(
    qkv, positions, cos, sin, cache, first, count, start, sequence, tables, out, sums, most_pages, rows, page_size,
    kind_size, head_size, factor,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, WIDTH: tl.constexpr, WIDTH_PAD: tl.constexpr, PAGE: tl.constexpr,
    LINES: tl.constexpr, KEYS: tl.constexpr, SPLITS: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    tile, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    begin, held, at = tl.load(first + tile).to(tl.int64), tl.load(count + tile), tl.load(start + tile)
    table = tables + tl.load(sequence + tile) * most_pages
    # Query heads that share a key head are rows of one product: line = row * GROUP + head in the group.
    lines, columns = tl.arange(0, LINES), tl.arange(0, WIDTH_PAD)
    row, head = lines // GROUP, kv_head * GROUP + lines % GROUP
    asked = row < held
    inside = (columns < WIDTH)[None, :] & asked[:, None]
    source = qkv + (begin + row)[:, None] * (HEADS + 2 * KV_HEADS) * WIDTH + head[:, None] * WIDTH
    query = tl.load(source + columns[None, :], inside, 0.0).to(tl.float32)
    partner = tl.load(source + (columns ^ 1)[None, :], inside, 0.0).to(tl.float32)
    position = tl.load(positions + begin + row, asked, 0)
    angle = position[:, None] * (WIDTH // 2) + (columns // 2)[None, :]
    c, s = tl.load(cos + angle, inside, 1.0), tl.load(sin + angle, inside, 0.0)
    query = (query * c + tl.where((columns % 2 == 0)[None, :], -s, s) * partner).to(qkv.dtype.element_ty)
    base = cache + kv_head * head_size
    best = tl.full((LINES,), float("-inf"), tl.float32)
    weight = tl.zeros((LINES,), tl.float32)
    total = tl.zeros((LINES, WIDTH_PAD), tl.float32)
    end = tl.where(held > 0, at + held, 0)
    for place in range(split * KEYS, end, SPLITS * KEYS):
        keys = place + tl.arange(0, KEYS)
        known = keys < end
        page = tl.load(table + keys // PAGE, known, 0).to(tl.int64)
        where = base + page[:, None] * page_size + (keys % PAGE)[:, None] * WIDTH + columns[None, :]
        there = known[:, None] & (columns < WIDTH)[None, :]
        key = tl.load(where, there, 0.0).to(query.dtype)
        scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * factor
        seen = known[None, :] & asked[:, None]
        if CAUSAL:
            seen = seen & (keys[None, :] <= (at + row)[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        peak = tl.maximum(best, tl.max(scores, 1))
        # A line that has seen no key yet has no peak to subtract.
        level = tl.where(peak > float("-inf"), peak, 0.0)
        shares = tl.exp2(scores - level[:, None])
        fade = tl.exp2(best - level)
        weight = weight * fade + tl.sum(shares, 1)
        value = tl.load(where + kind_size, there, 0.0).to(query.dtype)
        total = tl.dot(shares.to(query.dtype), value, total * fade[:, None], input_precision=PRECISION)
        best = peak
    to = (begin + row)[:, None] * HEADS * WIDTH + head[:, None] * WIDTH + columns[None, :]
    if SPLITS == 1:
        total = total / tl.where(weight > 0, weight, 1.0)[:, None]
        tl.store(out + to, total.to(out.dtype.element_ty), inside)
    else:
        tl.store(out + split * rows * HEADS * WIDTH + to, total, inside)
        pair = sums + ((split * rows + begin + row) * HEADS + head) * 2
        tl.store(pair, best, asked)
        tl.store(pair + 1, weight, asked)


def attend(qkv: Tensor, positions: Tensor, cos: Tensor, sin: Tensor, cache: Tensor, heads: int, tiles: Tiles) -> Tensor:
    """As `lm.attend`."""
    kv_heads, page, width = cache.shape[2:]
    rows, splits = len(qkv), tiles.splits
    out = qkv.new_empty(rows, heads * width)
    parts, sums = out, cos
    if splits > 1:
        parts = torch.empty(splits, rows, heads * width, dtype=torch.float32, device=qkv.device)
        sums = torch.empty(splits, rows, heads, 2, dtype=torch.float32, device=qkv.device)
    lines = max(_LEAST, triton.next_power_of_2(tiles.most * heads // kv_heads))
    _attend_kernel[(len(tiles.first), kv_heads, splits)](
        qkv, positions, cos, sin, cache, tiles.first, tiles.rows, tiles.start, tiles.sequence, tiles.tables, parts,
        sums, tiles.tables.stride(0), rows, *cache.stride()[:3], _LOG2_E / width**0.5,
        HEADS=heads, KV_HEADS=kv_heads, WIDTH=width, WIDTH_PAD=max(_LEAST, triton.next_power_of_2(width)), PAGE=page,
        LINES=lines, KEYS=_KEYS, SPLITS=splits, CAUSAL=tiles.causal,
        PRECISION="ieee" if qkv.dtype == torch.float32 else "tf32",
    )  # fmt: skip
    if splits > 1:
        merge(parts, sums, out)
    return out
