"""Other ways to write the flow's attention, to be timed against the one it has.

`paged` reads a page a round, as that one does; `dense` rounds of 64 or 128 keys, whatever pages they lie in, so that no
round is filled up; `bulk` a page a round through the unit that copies whole tiles. Each can have the pages of later
rounds brought to the second-level cache, which keeps more bytes on their way than the rounds' own buffers hold.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from oscine_engine.flow.slotted import Batch
from oscine_engine.runtime.kernels.flow_triton import _LOG2_E, _fetch, _merge_kernel, _side, _turned


@triton.jit
def _seen(query, key, value, known, factor, best, weight, total, MASKED: tl.constexpr):
    """As the flow's, with the scores scaled where they are raised, and no mask where none is needed."""
    scores = tl.dot(query, tl.trans(key))
    if MASKED:
        scores = tl.where(known[None, :], scores, float("-inf"))
    peak = tl.maximum(best, tl.max(scores, 1) * factor)
    shares, fade = tl.exp2(scores * factor - peak[:, None]), tl.exp2(best - peak)
    weight = weight * fade + tl.sum(shares, 1)
    total = tl.dot(shares.to(value.dtype), value, total * fade[:, None])
    return peak, weight, total


@triton.jit
def _begun(
    qkv, cos, sin, steps, starts, frames, pool, step_size, layer_offset, row_size,
    CHUNK: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, CHUNK_PAD: tl.constexpr,
):  # fmt: skip
    """What every variant begins with: where the program's keys lie, its query, and where that comes from."""
    pair, head = tl.program_id(0), tl.program_id(1)
    stream, row = pair // 2, pair % 2
    lines, columns = tl.arange(0, CHUNK_PAD), tl.arange(0, WIDTH)
    start, count = tl.load(starts + stream), tl.load(frames + stream)
    step = tl.load(steps + stream).to(tl.int64)
    held = pool + step * step_size + layer_offset + row * row_size + head * WIDTH
    source = qkv + (pair * CHUNK + lines[:, None]) * (3 * INNER) + head * WIDTH + columns[None, :]
    query = tl.load(source, (lines < CHUNK)[:, None], 0.0)
    if head == 0:
        query = _turned(query, start + lines, lines < count, cos, sin, CHUNK_PAD, WIDTH, WIDTH)
    return stream, head, start, count, held, source, query


@triton.jit
def _ended(
    source, held, pages, cos, sin, query, start, count, stream, head, split, mine, factor, best, weight, total, out,
    sums, most, page_size, kind_size,
    HEADS: tl.constexpr, CHUNK: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, CHUNK_PAD: tl.constexpr,
    SPLITS: tl.constexpr,
):  # fmt: skip
    """What every variant ends with: the chunk's own keys, and the result or the program's share of it."""
    lines, columns = tl.arange(0, CHUNK_PAD), tl.arange(0, WIDTH)
    valid, whole = lines < count, (lines < CHUNK)[:, None]
    if mine:
        wanted = valid[:, None]
        key = tl.load(source + INNER, wanted, 0.0)
        value = tl.load(source + 2 * INNER, wanted, 0.0)
        if head == 0:
            key = _turned(key, start + lines, valid, cos, sin, CHUNK_PAD, WIDTH, WIDTH)
        page = tl.load(pages + stream * most + start // CHUNK).to(tl.int64)
        where = held + page * page_size + lines[:, None] * INNER + columns[None, :]
        tl.store(where, key, wanted)
        tl.store(where + kind_size, value, wanted)
        best, weight, total = _seen(query, key, value, valid, factor, best, weight, total, True)
    rows = tl.num_programs(0) * CHUNK
    line = tl.program_id(0) * CHUNK + lines
    if SPLITS == 1:
        total = total / tl.where(weight == 0, 1.0, weight)[:, None]
    else:
        peaks = sums + (split * HEADS + head) * rows + line
        tl.store(peaks, best, lines < CHUNK)
        tl.store(peaks + SPLITS * HEADS * rows, weight, lines < CHUNK)
    to = out + (split * rows + line[:, None]) * INNER + head * WIDTH + columns[None, :]
    tl.store(to, total.to(out.dtype.element_ty), whole)


@triton.jit(do_not_specialize=["most"])
def _paged_kernel(
    qkv, cos, sin, pool, steps, starts, frames, pages, out, sums, most, page_size, step_size, layer_offset, kind_size,
    row_size, factor,
    HEADS: tl.constexpr, CHUNK: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, CHUNK_PAD: tl.constexpr,
    SPLITS: tl.constexpr, KEYS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(2)
    stream, head, start, count, held, source, query = _begun(
        qkv, cos, sin, steps, starts, frames, pool, step_size, layer_offset, row_size, CHUNK, INNER, WIDTH, CHUNK_PAD
    )
    lines, columns = tl.arange(0, CHUNK_PAD), tl.arange(0, WIDTH)
    whole = (lines < CHUNK)[:, None]
    best = tl.full((CHUNK_PAD,), float("-inf"), tl.float32)
    weight = tl.zeros((CHUNK_PAD,), tl.float32)
    total = tl.zeros((CHUNK_PAD, WIDTH), tl.float32)
    last = start // CHUNK
    base = held + lines[:, None] * INNER + columns[None, :]
    nearest = held + tl.minimum(lines, CHUNK - 1) * INNER
    table = pages + stream * most
    if AHEAD > 0:
        for place in range(split, tl.minimum(last, AHEAD * SPLITS), SPLITS):
            page = nearest + tl.load(table + place).to(tl.int64) * page_size
            _fetch(page)
            _fetch(page + kind_size)
    for place in range(split, last, SPLITS):
        where = base + tl.load(table + place).to(tl.int64) * page_size
        key = tl.load(where, whole, 0.0)
        value = tl.load(where + kind_size, whole, 0.0)
        if AHEAD > 0:
            later = tl.minimum(place + AHEAD * SPLITS, last)
            page = nearest + tl.load(table + later).to(tl.int64) * page_size
            _fetch(page)
            _fetch(page + kind_size)
        best, weight, total = _seen(query, key, value, lines < CHUNK, factor, best, weight, total, True)
    _ended(
        source, held, pages, cos, sin, query, start, count, stream, head, split, (last % SPLITS == split) & (count > 0),
        factor, best, weight, total, out, sums, most, page_size, kind_size, HEADS, CHUNK, INNER, WIDTH, CHUNK_PAD,
        SPLITS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["most"])
def _dense_kernel(
    qkv, cos, sin, pool, steps, starts, frames, pages, out, sums, most, page_size, step_size, layer_offset, kind_size,
    row_size, factor,
    HEADS: tl.constexpr, CHUNK: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, CHUNK_PAD: tl.constexpr,
    SPLITS: tl.constexpr, KEYS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(2)
    stream, head, start, count, held, source, query = _begun(
        qkv, cos, sin, steps, starts, frames, pool, step_size, layer_offset, row_size, CHUNK, INNER, WIDTH, CHUNK_PAD
    )
    columns, keys = tl.arange(0, WIDTH), tl.arange(0, KEYS)
    best = tl.full((CHUNK_PAD,), float("-inf"), tl.float32)
    weight = tl.zeros((CHUNK_PAD,), tl.float32)
    total = tl.zeros((CHUNK_PAD, WIDTH), tl.float32)
    table = pages + stream * most
    full = start // KEYS
    if AHEAD > 0:
        for turn in range(split, tl.minimum(full, AHEAD * SPLITS), SPLITS):
            at = turn * KEYS + keys
            page = held + tl.load(table + at // CHUNK).to(tl.int64) * page_size + (at % CHUNK) * INNER
            _fetch(page)
            _fetch(page + kind_size)
    for turn in range(split, full, SPLITS):
        at = turn * KEYS + keys
        page = tl.load(table + at // CHUNK).to(tl.int64) * page_size + (at % CHUNK) * INNER
        where = held + page[:, None] + columns[None, :]
        key = tl.load(where)
        value = tl.load(where + kind_size)
        if AHEAD > 0:
            # Behind the last full round is at least the chunk's own page.
            at = tl.minimum(at + AHEAD * SPLITS * KEYS, start)
            later = held + tl.load(table + at // CHUNK).to(tl.int64) * page_size + (at % CHUNK) * INNER
            _fetch(later)
            _fetch(later + kind_size)
        best, weight, total = _seen(query, key, value, keys < KEYS, factor, best, weight, total, False)
    if (start % KEYS != 0) & (full % SPLITS == split):
        at = full * KEYS + keys
        known = at < start
        page = tl.load(table + at // CHUNK, known, 0).to(tl.int64) * page_size + (at % CHUNK) * INNER
        where = held + page[:, None] + columns[None, :]
        key = tl.load(where, known[:, None], 0.0)
        value = tl.load(where + kind_size, known[:, None], 0.0)
        best, weight, total = _seen(query, key, value, known, factor, best, weight, total, True)
    mine = ((full + 1) % SPLITS == split) & (count > 0)
    _ended(
        source, held, pages, cos, sin, query, start, count, stream, head, split, mine, factor, best, weight, total, out,
        sums, most, page_size, kind_size, HEADS, CHUNK, INNER, WIDTH, CHUNK_PAD, SPLITS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["most", "layer", "depth", "euler_steps"])
def _bulk_kernel(
    whole_pool, qkv, cos, sin, pool, steps, starts, frames, pages, out, sums, most, page_size, step_size, layer_offset,
    kind_size, row_size, factor, layer, depth, euler_steps,
    HEADS: tl.constexpr, CHUNK: tl.constexpr, INNER: tl.constexpr, WIDTH: tl.constexpr, CHUNK_PAD: tl.constexpr,
    SPLITS: tl.constexpr, KEYS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(2)
    stream, head, start, count, held, source, query = _begun(
        qkv, cos, sin, steps, starts, frames, pool, step_size, layer_offset, row_size, CHUNK, INNER, WIDTH, CHUNK_PAD
    )
    lines = tl.arange(0, CHUNK_PAD)
    best = tl.full((CHUNK_PAD,), float("-inf"), tl.float32)
    weight = tl.zeros((CHUNK_PAD,), tl.float32)
    total = tl.zeros((CHUNK_PAD, WIDTH), tl.float32)
    last = start // CHUNK
    nearest = held + tl.minimum(lines, CHUNK - 1) * INNER
    table = pages + stream * most
    step, row = tl.load(steps + stream).to(tl.int32), tl.program_id(0) % 2
    first = (step * depth + layer) * 4 + row
    if AHEAD > 0:
        for place in range(split, tl.minimum(last, AHEAD * SPLITS), SPLITS):
            page = nearest + tl.load(table + place).to(tl.int64) * page_size
            _fetch(page)
            _fetch(page + kind_size)
    for place in range(split, last, SPLITS):
        at = tl.load(table + place) * (euler_steps * depth * 4) + first
        key = whole_pool.load([at, 0, head * WIDTH]).reshape(CHUNK_PAD, WIDTH)
        value = whole_pool.load([at + 2, 0, head * WIDTH]).reshape(CHUNK_PAD, WIDTH)
        if AHEAD > 0:
            later = tl.minimum(place + AHEAD * SPLITS, last)
            page = nearest + tl.load(table + later).to(tl.int64) * page_size
            _fetch(page)
            _fetch(page + kind_size)
        best, weight, total = _seen(query, key, value, lines < CHUNK, factor, best, weight, total, True)
    _ended(
        source, held, pages, cos, sin, query, start, count, stream, head, split, (last % SPLITS == split) & (count > 0),
        factor, best, weight, total, out, sums, most, page_size, kind_size, HEADS, CHUNK, INNER, WIDTH, CHUNK_PAD,
        SPLITS,
    )  # fmt: skip


VARIANTS: dict[str, dict[str, Any]] = {
    "paged, 7 stages": {"kind": "paged", "stages": 7, "registers": 168},
    "paged, 8 ahead": {"kind": "paged", "ahead": 8, "registers": 168},
    "dense 64, 7 stages": {"kind": "dense", "stages": 7, "registers": 168},
    "dense 64, 6 ahead": {"kind": "dense", "ahead": 6, "registers": 168},
    "dense 128": {"kind": "dense", "keys": 128, "stages": 4},
    "dense 128, 5 stages": {"kind": "dense", "keys": 128},
    "dense 128, 3 ahead": {"kind": "dense", "keys": 128, "stages": 4, "ahead": 3},
    "bulk, 6 stages": {"kind": "bulk", "stages": 6, "registers": 168},
    "bulk, 8 stages": {"kind": "bulk", "stages": 8, "registers": 168},
    "bulk, 8 ahead": {"kind": "bulk", "stages": 5, "ahead": 8, "registers": 168},
}
KERNELS = {"paged": _paged_kernel, "dense": _dense_kernel, "bulk": _bulk_kernel}


def attend(
    qkv: Tensor, cos: Tensor, sin: Tensor, pool: Tensor, layer: int, heads: int, batch: Batch, splits: int,
    *, kind: str, keys: int = 64, ahead: int = 0, stages: int = 5, registers: int | None = None,
) -> Tensor:  # fmt: skip
    """As `flow_triton.attend`, for heads whose width is a power of two."""
    chunk, inner = pool.shape[5:]
    rows, width = len(qkv), inner // heads
    sizes = (pool.stride(0), pool.stride(1), layer * pool.stride(2), pool.stride(3), pool.stride(4))
    places = (batch.steps, batch.starts, batch.frames, batch.pages)
    out = qkv.new_empty(rows, inner)
    whole = splits == 1
    parts = out if whole else torch.empty(splits, rows, inner, dtype=torch.float32, device=qkv.device)
    sums = cos if whole else torch.empty(2, splits, heads, rows, dtype=torch.float32, device=qkv.device)
    given = (qkv, cos, sin, pool, *places, parts, sums, batch.pages.stride(0), *sizes, _LOG2_E / width**0.5)
    if kind == "bulk":
        flat = pool.view(-1, chunk, inner)
        tile = [1, _side(chunk), width]
        given = (TensorDescriptor(flat, list(flat.shape), list(flat.stride()), tile), *given)
        given += (layer, pool.shape[2], pool.shape[1])
    KERNELS[kind][(rows // chunk, heads, splits)](
        *given, HEADS=heads, CHUNK=chunk, INNER=inner, WIDTH=width, CHUNK_PAD=_side(chunk), SPLITS=splits, KEYS=keys,
        AHEAD=ahead, num_warps=4, num_stages=stages, maxnreg=registers,
    )  # fmt: skip
    if not whole:
        tile_heads = min(4, triton.next_power_of_2(heads))
        _merge_kernel[(rows, triton.cdiv(heads, tile_heads))](
            parts, sums, out, HEADS=heads, WIDTH=width, TILE=tile_heads, WIDTH_PAD=width, SPLITS=splits, num_warps=1,
            OVERLAP=False,
        )  # fmt: skip
    return out
