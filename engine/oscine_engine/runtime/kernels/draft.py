"""What a draft does besides matrix products and what it shares with the language model (`lm`): its normed heads.

On a GPU `draft_triton` does it; here is its twin.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.config import SamplingConfig
from oscine_engine.lm import noise
from oscine_engine.lm.sampling import nucleus


class Spare(NamedTuple):
    """Pages that blocks may use: `each` a stream, from page `first` on."""

    first: int
    each: int
    page_tokens: int


class Layout(NamedTuple):
    """Rows of all blocks, int64 [B * rows] each, and the pages of contexts and blocks, int32 [B, pages]."""

    ids: Tensor
    places: Tensor
    slots: Tensor
    tables: Tensor


class Rule(NamedTuple):
    """How guesses are drawn: from the nucleus of `sampling`, or from all ids if that is None; see `choose`."""

    speech_ids: int
    window: int
    limit: float
    temperature: float
    sampling: SamplingConfig | None


def norm_queries(qkv: Tensor, weight: Tensor, heads: int, eps: float) -> None:
    """Norm each of the first `heads` heads of qkv [R, all heads * D] in place; weight [D]."""
    if qkv.is_cuda:
        _fused().norm_queries(qkv, weight, heads, eps)
        return
    width = len(weight)
    queries = qkv.view(len(qkv), -1, width)[:, :heads]
    queries.copy_(F.rms_norm(queries.float(), (width,), weight.float(), eps))


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
    """Norm the keys of kv [R, layers, 2, kv_heads, D], turn them, and put them and the values by.

    The last three axes of kv are contiguous. weights [layers, D]: of the keys' norms. positions [R]. slots int64 [R]:
    page * page_tokens + offset, below 0 for a row that is not kept. cos, sin: float32 [positions, D / 2]; channels 2i
    and 2i + 1 are a pair. cache [pages, layers, 2, kv_heads, page_tokens, D].
    """
    if kv.is_cuda:
        _fused().keep(kv, weights, positions, slots, cos, sin, cache, eps)
        return
    kept = slots >= 0
    kv, positions, slots = kv[kept], positions[kept], slots[kept]
    page_tokens = cache.shape[4]
    keys = F.rms_norm(kv[:, :, 0].float(), kv.shape[-1:], None, eps) * weights[:, None].float()
    even, odd = keys[..., 0::2], keys[..., 1::2]
    c, s = cos[positions][:, None, None], sin[positions][:, None, None]
    keys = torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)
    both = torch.stack((keys, kv[:, :, 1].float()), dim=2)
    cache[slots // page_tokens, :, :, :, slots % page_tokens] = both.to(cache.dtype)


def lay_out(
    anchors: Tensor, positions: Tensor, tables: Tensor, lengths: Tensor, mask: int, rows: int, spare: Spare
) -> Layout:
    """Blocks of `rows` rows, an anchor and masks, at the ends of B contexts.

    anchors, positions int64 [B]. tables int32 [B, most pages]: pages of the contexts, of which only those that hold
    some of the first `lengths` (int32 [B]) rows are looked at. What does not fit in a context's last page goes to spare
    pages, of which every stream has its own.
    """
    if anchors.is_cuda:
        return _fused().lay_out(anchors, positions, tables, lengths, mask, rows, spare)  # type: ignore[no-any-return]
    streams, size = len(anchors), spare.page_tokens
    numbers = torch.arange(tables.shape[1] + spare.each)
    beyond = numbers - (lengths[:, None].long() + size - 1) // size
    own = spare.first + torch.arange(streams)[:, None] * spare.each + beyond
    pages = torch.where(beyond >= 0, own, F.pad(tables, (0, spare.each)).long())
    places = positions[:, None] + torch.arange(rows)
    slots = pages.gather(1, places // size) * size + places % size
    ids = torch.full((streams, rows), mask)
    ids[:, 0] = anchors
    return Layout(ids.flatten(), places.flatten(), slots.flatten(), pages.int())


def choose(
    base: Tensor, more: Tensor, barred: Tensor, seeds: Tensor, said: Tensor, past: Tensor, step: int, rule: Rule
) -> Tensor:
    """Draw guess number `step` of B blocks, int64 [B], under the noise that the target will draw with at that place.

    base, more [B, at least speech_ids]: two parts of the logits; barred float32 [as many] is added, too. seeds, said
    int64 [B]: the noise's key for guess 0. past int64 [B, window + guesses]: what was said and guessed before, into
    which the guess is written; an id that is in the last `window` of it `limit` times or more is drawn anew from all
    others, as the target would. Logits that are no numbers give any id.
    """
    if base.is_cuda:
        return _fused().choose(base, more, barred, seeds, said, past, step, rule)  # type: ignore[no-any-return]
    keys = noise.keys(seeds, said + step)
    everything = torch.arange(rule.speech_ids)
    scores = (base.float() + more.float() + barred)[:, : rule.speech_ids] / rule.temperature
    if rule.sampling is None:
        drawn = (scores.double() + noise.gumbel(keys[:, :1], everything)).argmax(-1, keepdim=True)
    else:
        ids, kept, inside = nucleus(scores.softmax(-1), rule.sampling)
        noisy = torch.where(inside, kept.double().log() + noise.gumbel(keys[:, :1], ids), -torch.inf)
        drawn = ids.gather(-1, noisy.argmax(-1, keepdim=True))
    others = scores.double().scatter(-1, drawn, -torch.inf) + noise.gumbel(keys[:, 1:], everything)
    repeated = (past[:, step : step + rule.window] == drawn).sum(-1) >= rule.limit
    chosen = torch.where(repeated, others.argmax(-1), drawn[:, 0])
    past[:, rule.window + step] = chosen
    return chosen


def _fused() -> ModuleType:
    from oscine_engine.runtime.kernels import draft_triton

    return draft_triton
