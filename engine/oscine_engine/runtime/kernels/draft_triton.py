"""The kernels of `draft` in Triton, with the same arguments and results."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from oscine_engine.runtime.kernels.draft import Layout, Rule, Spare
from oscine_engine.runtime.kernels.lm_lines_triton import _GAMMA, _gumbel, _mixed, _nucleus_draw


@triton.jit
def _norm_kernel(qkv, weight, stride, eps, WIDTH: tl.constexpr, WIDTH_PAD: tl.constexpr):
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.arange(0, WIDTH_PAD)
    inside = columns < WIDTH
    place = qkv + row * stride + head * WIDTH + columns
    value = tl.load(place, inside, 0.0).to(tl.float32)
    value = value / tl.sqrt(tl.sum(value * value, 0) / WIDTH + eps) * tl.load(weight + columns, inside, 0.0)
    tl.store(place, value.to(qkv.dtype.element_ty), inside)


def norm_queries(qkv: Tensor, weight: Tensor, heads: int, eps: float) -> None:
    """As `draft.norm_queries`."""
    width = len(weight)
    _norm_kernel[(len(qkv), heads)](
        qkv, weight, qkv.stride(0), eps, WIDTH=width, WIDTH_PAD=triton.next_power_of_2(width), num_warps=1
    )


@triton.jit
def _keep_kernel(
    kv, weights, positions, slots, cos, sin, cache, row_size, layer_size, page_size, cache_layer, cache_kind,
    cache_head, eps, KV_HEADS: tl.constexpr, WIDTH: tl.constexpr, WIDTH_PAD: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    row, layer, head = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    slot = tl.load(slots + row)
    if slot >= 0:
        columns = tl.arange(0, WIDTH_PAD)
        inside = columns < WIDTH
        source = kv + row * row_size + layer * layer_size + head * WIDTH
        key = tl.load(source + columns, inside, 0.0).to(tl.float32)
        partner = tl.load(source + (columns ^ 1), inside, 0.0).to(tl.float32)
        factor = 1.0 / tl.sqrt(tl.sum(key * key, 0) / WIDTH + eps)
        scale = weights + layer * WIDTH
        key = key * factor * tl.load(scale + columns, inside, 0.0).to(tl.float32)
        partner = partner * factor * tl.load(scale + (columns ^ 1), inside, 0.0).to(tl.float32)
        angle = tl.load(positions + row) * (WIDTH // 2) + columns // 2
        c, s = tl.load(cos + angle, inside, 1.0), tl.load(sin + angle, inside, 0.0)
        key = key * c + tl.where(columns % 2 == 0, -s, s) * partner
        own = cache + (slot // PAGE) * page_size + layer * cache_layer + head * cache_head + (slot % PAGE) * WIDTH
        tl.store(own + columns, key.to(cache.dtype.element_ty), inside)
        value = tl.load(source + KV_HEADS * WIDTH + columns, inside, 0.0)
        tl.store(own + cache_kind + columns, value.to(cache.dtype.element_ty), inside)


def keep(
    kv: Tensor,
    weights: Tensor,
    positions: Tensor,
    slots: Tensor,
    cos: Tensor,
    sin: Tensor,
    cache: Tensor,
    eps: float,
) -> None:
    """As `draft.keep`."""
    rows, layers, _, kv_heads, width = kv.shape
    _keep_kernel[(rows, layers, kv_heads)](
        kv, weights, positions, slots, cos, sin, cache, kv.stride(0), kv.stride(1), *cache.stride()[:4], eps,
        KV_HEADS=kv_heads, WIDTH=width, WIDTH_PAD=triton.next_power_of_2(width), PAGE=cache.shape[4], num_warps=1,
    )  # fmt: skip


@triton.jit
def _lay_out_kernel(
    anchors, positions, tables, lengths, ids, places, slots, pages, most_pages, mask, spare_first,
    ROWS: tl.constexpr, ROWS_PAD: tl.constexpr, PAGE: tl.constexpr, SPARE: tl.constexpr, TABLE_PAD: tl.constexpr,
):  # fmt: skip
    stream = tl.program_id(0).to(tl.int64)
    context = (tl.load(lengths + stream) + PAGE - 1) // PAGE
    own = spare_first + stream * SPARE
    width = most_pages + SPARE
    numbers = tl.arange(0, TABLE_PAD)
    page = tl.load(tables + stream * most_pages + numbers, (numbers < context) & (numbers < most_pages), 0)
    page = tl.where(numbers >= context, own + numbers - context, page)
    tl.store(pages + stream * width + numbers, page.to(tl.int32), numbers < width)
    rows = tl.arange(0, ROWS_PAD)
    inside = rows < ROWS
    place = tl.load(positions + stream) + rows
    number = place // PAGE
    held = tl.load(tables + stream * most_pages + number, inside & (number < context) & (number < most_pages), 0)
    page = tl.where(number >= context, own + number - context, held.to(tl.int64))
    to = stream * ROWS + rows
    tl.store(ids + to, tl.where(rows == 0, tl.load(anchors + stream), mask), inside)
    tl.store(places + to, place, inside)
    tl.store(slots + to, page * PAGE + place % PAGE, inside)


def lay_out(
    anchors: Tensor, positions: Tensor, tables: Tensor, lengths: Tensor, mask: int, rows: int, spare: Spare
) -> Layout:
    """As `draft.lay_out`."""
    streams, most_pages = tables.shape
    ids, places, slots = torch.empty(3, streams * rows, dtype=torch.int64, device=anchors.device)
    pages = torch.empty(streams, most_pages + spare.each, dtype=torch.int32, device=anchors.device)
    _lay_out_kernel[(streams,)](
        anchors, positions, tables, lengths, ids, places, slots, pages, most_pages, mask, spare.first,
        ROWS=rows, ROWS_PAD=triton.next_power_of_2(rows), PAGE=spare.page_tokens, SPARE=spare.each,
        TABLE_PAD=triton.next_power_of_2(most_pages + spare.each), num_warps=1,
    )  # fmt: skip
    return Layout(ids, places, slots, pages)


@triton.jit
def _choose_kernel(
    base, more, barred, seeds, said, past, out, base_size, more_size, past_size, step, inverse_temperature, limit,
    top_p, VOCAB: tl.constexpr, BLOCK: tl.constexpr, TOP_K: tl.constexpr, WINDOW: tl.constexpr,
    WINDOW_PAD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    ids = tl.arange(0, BLOCK)
    inside = ids < VOCAB
    score = tl.load(base + row * base_size + ids, inside, 0.0).to(tl.float32)
    score += tl.load(more + row * more_size + ids, inside, 0.0).to(tl.float32)
    score = (score + tl.load(barred + ids, inside, 0.0)) * inverse_temperature
    legal = inside & (score == score)
    key = _mixed(tl.load(seeds + row) + _GAMMA)
    key = _mixed(key + (tl.load(said + row) + step) * _GAMMA + 1)
    first = _mixed(key + 2)
    if TOP_K == 0:
        noisy = tl.where(legal, score.to(tl.float64) + _gumbel(first, ids), float("-inf"))
        drawn = tl.argmax(noisy, 0).to(tl.int64)
    else:
        peak = tl.max(tl.where(legal, score, float("-inf")), 0)
        shares = tl.where(legal, tl.exp(score - peak), 0.0)
        drawn = _nucleus_draw(shares / tl.maximum(tl.sum(shares, 0), 1e-30), first, top_p, TOP_K, BLOCK)
    window = tl.arange(0, WINDOW_PAD)
    recent = tl.load(past + row * past_size + step + window, window < WINDOW, -1)
    if tl.sum(tl.where((window < WINDOW) & (recent == drawn), 1, 0), 0) >= limit:
        noisy = score.to(tl.float64) + _gumbel(_mixed(key + _GAMMA + 2), ids)
        drawn = tl.argmax(tl.where(legal & (ids != drawn), noisy, float("-inf")), 0).to(tl.int64)
    drawn = tl.minimum(tl.maximum(drawn, 0), VOCAB - 1)
    tl.store(out + row, drawn)
    tl.store(past + row * past_size + WINDOW + step, drawn)


def choose(
    base: Tensor, more: Tensor, barred: Tensor, seeds: Tensor, said: Tensor, past: Tensor, step: int, rule: Rule
) -> Tensor:
    """As `draft.choose`."""
    out = torch.empty_like(seeds)
    _choose_kernel[(len(base),)](
        base, more, barred, seeds, said, past, out, base.stride(0), more.stride(0), past.stride(0), step,
        1.0 / rule.temperature, rule.limit, 1.0 if rule.sampling is None else rule.sampling.top_p,
        VOCAB=rule.speech_ids, BLOCK=triton.next_power_of_2(rule.speech_ids),
        TOP_K=0 if rule.sampling is None else min(rule.sampling.top_k, rule.speech_ids),
        WINDOW=rule.window, WINDOW_PAD=triton.next_power_of_2(rule.window), num_warps=8,
    )  # fmt: skip
    return out
