"""Causal attention of packed rows over their streams' pages."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Span:
    """One stream's rows in a packed step: rows `first` .. `first + count - 1`, at positions `start` and on.

    pages: every page of the stream up to and including these rows, in order. mask [count, start + count] is true where
    a row may look; None for a single row, which sees everything.
    """

    first: int
    count: int
    start: int
    pages: list[int]
    mask: Tensor | None


def causal_mask(start: int, count: int, device: torch.device) -> Tensor | None:
    """The mask of a span: row i sees positions up to start + i."""
    if count == 1:
        return None
    keys = torch.arange(start + count, device=device)
    rows = torch.arange(start, start + count, device=device)
    return keys <= rows[:, None]


def attend(queries: Tensor, cache: Tensor, spans: list[Span]) -> Tensor:
    """Attention outputs [n, heads, head_dim] of queries [n, heads, head_dim].

    cache: one layer's pages, [pages, 2, kv_heads, page_tokens, head_dim], the rows' own K and V already in them.
    """
    heads, kv_heads = queries.shape[1], cache.shape[2]
    group = heads // kv_heads
    outputs = []
    for span in spans:
        keys, values = _context(cache, span)
        # Query heads that share a K/V head become rows of it: [kv_heads, group * count, head_dim].
        rows = queries[span.first : span.first + span.count].view(span.count, kv_heads, group, -1)
        rows = rows.permute(1, 2, 0, 3).reshape(kv_heads, group * span.count, -1).to(cache.dtype)
        mask = span.mask if span.mask is None else span.mask.repeat(group, 1)
        out = F.scaled_dot_product_attention(rows[None], keys[None], values[None], attn_mask=mask)[0]
        out = out.view(kv_heads, group, span.count, -1).permute(2, 0, 1, 3)
        outputs.append(out.reshape(span.count, heads, -1))
    return (outputs[0] if len(outputs) == 1 else torch.cat(outputs)).to(queries.dtype)


def _context(cache: Tensor, span: Span) -> tuple[Tensor, Tensor]:
    """K and V of a stream, each [kv_heads, start + count, head_dim]: a view of one page, or a copy of several."""
    *full, last = (cache[page] for page in span.pages)
    used = last[:, :, : span.start + span.count - len(full) * cache.shape[3]]
    both = torch.cat((*full, used), dim=2) if full else used
    return both[0], both[1]
