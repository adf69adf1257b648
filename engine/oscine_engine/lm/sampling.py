"""Repetition-aware sampling (RAS; VALL-E 2, arXiv:2406.05370), exact and reproducible.

Order, for each row: mask the logits; p, their softmax; q, the nucleus of p renormalised; draw from q with the noise of
use 0. If the id drawn fills at least win_size * tau_r of the last win_size places, take it out and draw from all of p
that is left with the noise of use 1. Noise is keyed (see `noise`), so a row's outcome depends on its own logits,
history, seed and position only, and a speculative verifier may ask for any position again and get the same answer.

Rows may be drawn by one rule or each by its own (`Rows`).
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from oscine_engine.config import SamplingConfig
from oscine_engine.lm import noise
from oscine_engine.lm.drawing import Drawing

NO_ID = -1


class Rows(NamedTuple):
    """How each of B rows is drawn: the fields of `Drawing`, [B, 1] each, float32 or int64. most: the largest top_k."""

    scale: Tensor
    top_p: Tensor
    top_k: Tensor
    window: Tensor
    limit: Tensor
    most: int

    @classmethod
    def of(cls, drawings: Sequence[Drawing], device: torch.device | str = "cpu") -> Self:
        """From plain numbers."""
        words = torch.tensor([drawing.words for drawing in drawings], device=device)
        return cls.from_words(words)

    @classmethod
    def from_words(cls, words: Tensor) -> Self:
        """From `Drawing.words`, int64 [B, 5]. Waits for the device."""
        numbers = words[:, :2].int().view(torch.float32)
        top_k, window, limit = (words[:, place : place + 1] for place in (2, 3, 4))
        return cls(numbers[:, :1], numbers[:, 1:], top_k, window, limit, int(top_k.max()))


def mask_logits(logits: Tensor, speech_token_size: int, may_end: Tensor) -> Tensor:
    """Keep speech ids, and eos where `may_end` [B] (bool) is true, of logits [B, V]: float32 [B, speech ids + 2].

    All other ids (control and unused ones) get -inf or are cut off. `logits` stay as they are.
    """
    kept = logits[:, : speech_token_size + 2].to(torch.float32, copy=True)
    kept[:, speech_token_size] = -torch.inf
    kept[:, speech_token_size + 1].masked_fill_(~may_end, -torch.inf)
    return kept


def nucleus(probs: Tensor, rule: SamplingConfig | Rows) -> tuple[Tensor, Tensor, Tensor]:
    """The nucleus of probs [B, V] (float32): ids [B, k], their probabilities [B, k], and which are inside (bool).

    Ids come by falling probability, ties by rising id. An id is inside while those before it sum to less than top_p
    and are fewer than top_k, so the id that crosses top_p is kept.
    """
    vocab = probs.shape[-1]
    # Bits of a non-negative float order as the float does; the id below them makes every key unique and ties stable.
    rank = probs.contiguous().view(torch.int32).long() << 32
    rank += torch.arange(vocab - 1, -1, -1, device=probs.device)
    most = rule.most if isinstance(rule, Rows) else rule.top_k
    ids = vocab - 1 - (rank.topk(min(most, vocab), dim=-1).values & 0xFFFFFFFF)
    kept = probs.gather(-1, ids)
    before = torch.zeros_like(kept)
    before[:, 1:] = kept.cumsum(-1)[:, :-1]
    inside = (before < rule.top_p) & (kept > 0)
    if isinstance(rule, Rows):
        inside &= torch.arange(ids.shape[-1], device=ids.device) < rule.top_k
    return ids, kept, inside


def repeats(ids: Tensor, history: Tensor, rule: SamplingConfig | Rows) -> Tensor:
    """Whether each of ids [B, n] occurs too often in history [B, window] (padded with NO_ID): bool [B, n].

    history is as long as the longest window there is; of a row with a shorter one the last ids count.
    """
    same = history[:, None, :] == ids[:, :, None]
    if not isinstance(rule, Rows):
        return same.sum(-1) >= rule.win_size * rule.tau_r
    size = history.shape[-1]
    recent = torch.arange(size, device=history.device) >= size - rule.window
    return (same & recent[:, None]).sum(-1) >= rule.limit


def without(logits: Tensor, ids: Tensor) -> Tensor:
    """Logits [B, V] with the one id of each row, ids [B, 1], made impossible: what a repetition is redrawn from."""
    return logits.scatter(-1, ids, -torch.inf)


def sample(
    logits: Tensor, history: Tensor, keys: Tensor, rule: SamplingConfig | Rows, temperature: float = 1.0
) -> Tensor:
    """Draw one id per row: int64 [B].

    logits: masked, float32 [B, V]. history: the last ids of each row, int64 [B, window], NO_ID where there are fewer.
    keys: int64 [B, 2], `noise.key` of uses 0 and 1. temperature divides the logits and must be positive; Rows have
    their own.
    """
    logits = scaled(logits, rule, temperature)
    ids, kept, inside = nucleus(logits.softmax(-1), rule)
    scores = torch.where(inside, kept.double().log() + noise.gumbel(keys[:, :1], ids), -torch.inf)
    drawn = ids.gather(-1, scores.argmax(-1, keepdim=True))
    fires = repeats(drawn, history, rule)
    if not bool(fires.any()):
        return drawn[:, 0]
    everything = torch.arange(logits.shape[-1], device=logits.device)
    scores = without(logits, drawn).double() + noise.gumbel(keys[:, 1:], everything)
    return torch.where(fires, scores.argmax(-1, keepdim=True), drawn)[:, 0]


def scaled(logits: Tensor, rule: SamplingConfig | Rows, temperature: float = 1.0) -> Tensor:
    """Logits by temperature: a product in float32 however it is asked for, so that a row is the same in any batch."""
    if isinstance(rule, Rows):
        return logits * rule.scale
    return logits if temperature == 1.0 else logits * (1.0 / temperature)


def distribution(logits: Tensor, history: Tensor, rule: SamplingConfig | Rows, temperature: float = 1.0) -> Tensor:
    """The exact distribution of `sample` in closed form, float64 [B, V]; arguments as there.

    With R the ids that repeat, w_y = q(y) / (1 - p(y)) for y in R and S their sum,
    P(x) = q(x) [x not in R] + p(x) (S - w_x [x in R]); 1 - p(y) is summed over the others, never subtracted.
    """
    logits = scaled(logits, rule, temperature)
    ids, kept, inside = nucleus(logits.softmax(-1), rule)
    p = logits.double().softmax(-1)
    q = torch.zeros_like(p).scatter(-1, ids, torch.where(inside, kept, 0.0).double())
    q = q / q.sum(-1, keepdim=True)
    everything = torch.arange(p.shape[-1], device=p.device).expand(p.shape)
    repeated = repeats(everything, history, rule)
    others = torch.ones_like(p)
    for row, column in (repeated & (q > 0)).nonzero().tolist():
        rest = p[row].clone()
        rest[column] = 0
        others[row, column] = rest.sum()
    weight = torch.where(repeated, q / others, 0.0)
    return torch.where(repeated, 0.0, q) + p * (weight.sum(-1, keepdim=True) - weight)
