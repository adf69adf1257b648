"""What a step of the language model does besides matrix products. On a GPU `lm_triton` does it; here is its twin.

R rows are packed; the residual stream is float32 whatever the weights are. A tile is up to M rows of one sequence that
follow each other.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Tiles(NamedTuple):
    """T tiles, all int32 [T] on the device: the first row, how many there are (0: none), the first one's position, and
    the row of `tables` [sequences, most pages] with the sequence's pages.

    most: rows of a tile at most. splits: programs that share the keys of one tile. causal: whether a row sees no row of
    its tile behind it.
    """

    first: Tensor
    rows: Tensor
    start: Tensor
    sequence: Tensor
    tables: Tensor
    most: int
    splits: int
    causal: bool = True


def add_norm(x: Tensor, y: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """Add y [R, hidden], if there is one, to x [R, hidden] in place; its root-mean-square norm, in weight's type."""
    if x.is_cuda:
        return _fused().add_norm(x, y, weight, eps)  # type: ignore[no-any-return]
    if y is not None:
        x += y.float()
    return F.rms_norm(x, x.shape[1:], weight.float(), eps).to(weight.dtype)


def embed(kinds: Tensor, ids: Tensor, text: Tensor, speech: Tensor) -> Tensor:
    """Rows `ids` [R] of the table `text`, or of `speech` where `kinds` [R] is 1: float32 [R, hidden]."""
    if ids.is_cuda:
        return _fused().embed(kinds, ids, text, speech)  # type: ignore[no-any-return]
    is_speech = kinds == 1
    spoken, written = F.embedding(torch.where(is_speech, ids, 0), speech), F.embedding(ids * ~is_speech, text)
    return torch.where(is_speech[:, None], spoken, written).float()


def norm_some(x: Tensor, y: Tensor, rows: Tensor, weight: Tensor, eps: float) -> Tensor:
    """As `add_norm` for rows [S] of x and y alone, which stay as they are: [S, hidden]."""
    if x.is_cuda:
        return _fused().norm_some(x, y, rows, weight, eps)  # type: ignore[no-any-return]
    return add_norm(x[rows], y[rows], weight, eps)


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
    """A linear layer that makes queries, keys and values of x [R, hidden], and `write` of the latter two.

    Returns [R, (heads + 2 * kv_heads) * D], of which the queries alone are sure to be there.
    """
    if x.is_cuda and _fused().few(x, weight, int(cache.shape[-1])):
        return _fused().project(x, weight, bias, positions, slots, cos, sin, cache, heads)  # type: ignore[no-any-return]
    qkv = F.linear(x, weight, bias)
    write(qkv, positions, slots, cos, sin, cache, heads)
    return qkv


def gated(x: Tensor, weight: Tensor) -> Tensor:
    """A linear layer, and `silu_times` of what it gives."""
    if x.is_cuda and _fused().few(x, weight[: len(weight) // 2]):
        return _fused().gated(x, weight)  # type: ignore[no-any-return]
    return silu_times(F.linear(x, weight))


def silu_times(x: Tensor) -> Tensor:
    """x [R, 2 * n] -> SiLU of the first half times the second, [R, n]."""
    if x.is_cuda:
        return _fused().silu_times(x)  # type: ignore[no-any-return]
    gate, up = x.float().chunk(2, dim=-1)
    return (F.silu(gate) * up).to(x.dtype)


def write(qkv: Tensor, positions: Tensor, slots: Tensor, cos: Tensor, sin: Tensor, cache: Tensor, heads: int) -> None:
    """Turn the keys of qkv [R, (heads + 2 * kv_heads) * D] by their positions [R] and put them and the values by.

    cache: one layer's pages [pages, 2, kv_heads, page_tokens, D]. slots int64 [R]: page * page_tokens + offset, below 0
    for a row that is not kept. cos, sin: float32 [positions, D / 2].
    """
    if qkv.is_cuda:
        _fused().write(qkv, positions, slots, cos, sin, cache, heads)
        return
    page_tokens, width = cache.shape[3:]
    kept = slots >= 0
    rows, slots, positions = qkv[kept].view(int(kept.sum()), -1, width), slots[kept], positions[kept]
    kv_heads = cache.shape[2]
    keys = _turned(rows[:, heads : heads + kv_heads], cos[positions], sin[positions])
    both = torch.stack((keys, rows[:, heads + kv_heads :]), dim=1)
    cache[slots // page_tokens, :, :, slots % page_tokens] = both.to(cache.dtype)


def attend(qkv: Tensor, positions: Tensor, cos: Tensor, sin: Tensor, cache: Tensor, heads: int, tiles: Tiles) -> Tensor:
    """Attention of the rows over their sequences' pages, into which their own keys and values were written already.

    Arguments as in `write`. Returns [R, heads * D]; rows in no tile are undefined.
    """
    if qkv.is_cuda:
        return _fused().attend(qkv, positions, cos, sin, cache, heads, tiles)  # type: ignore[no-any-return]
    kv_heads, page_tokens, width = cache.shape[2:]
    out = torch.zeros(len(qkv), heads, width, dtype=qkv.dtype)
    queries = _turned(qkv.view(len(qkv), -1, width)[:, :heads], cos[positions], sin[positions])
    parts = (tiles.first.tolist(), tiles.rows.tolist(), tiles.start.tolist(), tiles.sequence.tolist())
    for first, count, start, sequence in zip(*parts, strict=True):
        if count == 0:
            continue
        end = start + count
        pages = tiles.tables[sequence, : -(-end // page_tokens)].long()
        keys, values = cache[pages].permute(1, 2, 0, 3, 4).flatten(2, 3)[:, :, :end].to(qkv.dtype)
        rows = queries[first : first + count].view(count, kv_heads, -1, width).permute(1, 2, 0, 3)
        mask = torch.ones(count, end, dtype=torch.bool)
        if tiles.causal:
            mask = torch.arange(end) <= torch.arange(start, end)[:, None]
        seen = F.scaled_dot_product_attention(rows, keys[:, None], values[:, None], attn_mask=mask)
        out[first : first + count] = seen.permute(2, 0, 1, 3).reshape(count, heads, width)
    return out.flatten(1)


def _turned(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Channel pairs (0, 1), (2, 3) ... of heads [R, h, D] turned by cos and sin [R, D / 2]."""
    even, odd = heads[..., 0::2].float(), heads[..., 1::2].float()
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).to(heads.dtype)


def _fused() -> ModuleType:
    from oscine_engine.runtime.kernels import lm_triton

    return lm_triton
