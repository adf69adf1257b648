"""What a draft does besides matrix products and what it shares with the language model (`lm`): its normed heads.

On a GPU `draft_triton` does it; here is its twin.
"""

from __future__ import annotations

from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor


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


def _fused() -> ModuleType:
    from oscine_engine.runtime.kernels import draft_triton

    return draft_triton
