"""What a draft does besides matrix products and what it shares with the language model (`lm`): its normed heads.

On a GPU `draft_triton` does it; here is its twin.
"""

from __future__ import annotations

from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.lm import noise


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


def choose(
    logits: Tensor,
    seeds: Tensor,
    said: Tensor,
    history: Tensor,
    limit: float,
    temperature: float,
    speech_ids: int,
) -> Tensor:
    """Draw one id a row from all its speech ids, int64 [B], under the target's noise of that place.

    logits float32 [B, at least speech_ids]. seeds, said int64 [B]: the noise's key. history int64 [B, window]: an id
    that is in there `limit` times or more is drawn anew from the others, as the target would. Logits that are no
    numbers give any id.
    """
    if logits.is_cuda:
        return _fused().choose(logits, seeds, said, history, limit, temperature, speech_ids)  # type: ignore[no-any-return]
    keys = _keys(seeds, said)
    ids = torch.arange(speech_ids)
    scores = (logits[:, :speech_ids] / temperature).double()
    drawn = (scores + noise.gumbel(keys[:, :1], ids)).argmax(-1, keepdim=True)
    others = scores.scatter(-1, drawn, -torch.inf) + noise.gumbel(keys[:, 1:], ids)
    repeated = (history == drawn).sum(-1) >= limit
    return torch.where(repeated, others.argmax(-1), drawn[:, 0])


def _keys(seeds: Tensor, said: Tensor) -> Tensor:
    """`noise.key` of both uses, int64 [B, 2]."""
    word = noise.bits(seeds[:, None], torch.ones_like(said[:, None]))
    return noise.bits(noise.bits(word + 1, said[:, None]) + 2, torch.arange(2))


def _fused() -> ModuleType:
    from oscine_engine.runtime.kernels import draft_triton

    return draft_triton
