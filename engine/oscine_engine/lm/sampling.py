"""Repetition-aware sampling (RAS; VALL-E 2, arXiv:2406.05370), exact and reproducible.

Order, for each row: mask the logits; p, their softmax; q, the nucleus of p renormalised; draw from q with the noise of
use 0. If the id drawn fills at least win_size * tau_r of the last win_size places, take it out and draw from all of p
that is left with the noise of use 1. Noise is keyed (see `noise`), so a row's outcome depends on its own logits,
history, seed and position only, and a speculative verifier may ask for any position again and get the same answer.
"""

import torch
from torch import Tensor

from oscine_engine.config import SamplingConfig
from oscine_engine.lm import noise

NO_ID = -1


def mask_logits(logits: Tensor, speech_token_size: int, may_end: Tensor) -> Tensor:
    """Keep speech ids, and eos where `may_end` [B] (bool) is true, of logits [B, V]: float32 [B, speech ids + 2].

    All other ids (control and unused ones) get -inf or are cut off. `logits` stay as they are.
    """
    kept = logits[:, : speech_token_size + 2].to(torch.float32, copy=True)
    kept[:, speech_token_size] = -torch.inf
    kept[:, speech_token_size + 1].masked_fill_(~may_end, -torch.inf)
    return kept


def nucleus(probs: Tensor, sampling: SamplingConfig) -> tuple[Tensor, Tensor, Tensor]:
    """The nucleus of probs [B, V] (float32): ids [B, k], their probabilities [B, k], and which are inside (bool).

    Ids come by falling probability, ties by rising id. An id is inside while those before it sum to less than top_p
    and are fewer than top_k, so the id that crosses top_p is kept.
    """
    vocab = probs.shape[-1]
    # Bits of a non-negative float order as the float does; the id below them makes every key unique and ties stable.
    rank = probs.contiguous().view(torch.int32).long() << 32
    rank += torch.arange(vocab - 1, -1, -1, device=probs.device)
    ids = vocab - 1 - (rank.topk(min(sampling.top_k, vocab), dim=-1).values & 0xFFFFFFFF)
    kept = probs.gather(-1, ids)
    before = torch.zeros_like(kept)
    before[:, 1:] = kept.cumsum(-1)[:, :-1]
    return ids, kept, (before < sampling.top_p) & (kept > 0)


def repeats(ids: Tensor, history: Tensor, sampling: SamplingConfig) -> Tensor:
    """Whether each of ids [B, n] occurs too often in history [B, win_size] (padded with NO_ID): bool [B, n]."""
    counts = (history[:, None, :] == ids[:, :, None]).sum(-1)
    return counts >= sampling.win_size * sampling.tau_r


def without(logits: Tensor, ids: Tensor) -> Tensor:
    """Logits [B, V] with the one id of each row, ids [B, 1], made impossible: what a repetition is redrawn from."""
    return logits.scatter(-1, ids, -torch.inf)


def sample(logits: Tensor, history: Tensor, keys: Tensor, sampling: SamplingConfig, temperature: float = 1.0) -> Tensor:
    """Draw one id per row: int64 [B].

    logits: masked, float32 [B, V]. history: the last win_size ids of each row, int64 [B, win_size], NO_ID where there
    are fewer. keys: int64 [B, 2], `noise.key` of uses 0 and 1. temperature divides the logits and must be positive.
    """
    if temperature != 1.0:
        logits = logits / temperature
    ids, kept, inside = nucleus(logits.softmax(-1), sampling)
    scores = torch.where(inside, kept.double().log() + noise.gumbel(keys[:, :1], ids), -torch.inf)
    drawn = ids.gather(-1, scores.argmax(-1, keepdim=True))
    fires = repeats(drawn, history, sampling)
    if not bool(fires.any()):
        return drawn[:, 0]
    everything = torch.arange(logits.shape[-1], device=logits.device)
    scores = without(logits, drawn).double() + noise.gumbel(keys[:, 1:], everything)
    return torch.where(fires, scores.argmax(-1, keepdim=True), drawn)[:, 0]


def distribution(logits: Tensor, history: Tensor, sampling: SamplingConfig, temperature: float = 1.0) -> Tensor:
    """The exact distribution of `sample` in closed form, float64 [B, V]; arguments as there.

    With R the ids that repeat, w_y = q(y) / (1 - p(y)) for y in R and S their sum,
    P(x) = q(x) [x not in R] + p(x) (S - w_x [x in R]); 1 - p(y) is summed over the others, never subtracted.
    """
    logits = logits / temperature
    ids, kept, inside = nucleus(logits.softmax(-1), sampling)
    p = logits.double().softmax(-1)
    q = torch.zeros_like(p).scatter(-1, ids, torch.where(inside, kept, 0.0).double())
    q = q / q.sum(-1, keepdim=True)
    everything = torch.arange(p.shape[-1], device=p.device).expand(p.shape)
    repeated = repeats(everything, history, sampling)
    others = torch.ones_like(p)
    for row, column in (repeated & (q > 0)).nonzero().tolist():
        rest = p[row].clone()
        rest[column] = 0
        others[row, column] = rest.sum()
    weight = torch.where(repeated, q / others, 0.0)
    return torch.where(repeated, 0.0, q) + p * (weight.sum(-1, keepdim=True) - weight)
