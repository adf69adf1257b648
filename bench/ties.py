"""Was an id a toss-up? Reads a segment again, dictating what it said, and measures how close the next draw was."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.lm import noise
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import Draw, LMRunner
from oscine_engine.lm.sampling import NO_ID, mask_logits, nucleus, repeats, without
from oscine_engine.runtime.pages import PagePool
from oscine_engine.runtime.trace import Said

PAGE, PAGES = 256, 16
ROUNDING = 1e-4
"""Scores and probabilities of two batches differ by less; they are sums of float32 products in another order."""


def margin(logits: Tensor, draw: Draw, runner: LMRunner) -> float:
    """The closest of all decisions of one draw from raw logits [1, rows].

    How far the two best scores are apart, how far the nucleus' edge is from the probability that it is cut at, and how
    far the last id inside is from the next.
    """
    sampling = runner.sampling
    masked = mask_logits(logits, runner.layout.speech_token_size, torch.tensor([draw.may_end]))
    probs = masked.softmax(-1)
    ids, kept, inside = nucleus(probs, sampling)
    before = kept.cumsum(-1) - kept
    edge = float((before - sampling.top_p).abs().min())
    count = int(inside.sum())
    last, outside = probs[0].topk(count + 1).values[-2:].log()
    edge = min(edge, float(last - outside))
    first, second = (torch.tensor([[noise.key(draw.seed, len(draw.said), use)]]) for use in (0, 1))
    scores = torch.where(inside, kept.double().log() + noise.gumbel(first, ids), -torch.inf)
    found = min(edge, _gap(scores))
    drawn = ids.gather(-1, scores.argmax(-1, keepdim=True))
    window = ([NO_ID] * sampling.win_size + list(draw.said))[-sampling.win_size :]
    if bool(repeats(drawn, torch.tensor([window]), sampling)):
        everything = torch.arange(masked.shape[-1])
        found = min(found, _gap(without(masked, drawn).double() + noise.gumbel(second, everything)))
    return found


def _gap(scores: Tensor) -> float:
    """Infinite where there is nothing else to choose."""
    best = scores[0].topk(2).values
    return float(best[0] - best[1])


class Dictated(LMRunner):
    """Says `ids` whatever the model would say, and notes in `margin` how close the draw after them was."""

    def __init__(self, checkpoint: Checkpoint, ids: tuple[int, ...]) -> None:
        config = checkpoint.config
        super().__init__(checkpoint.lm, PagePool(PAGES, page_shape(config.lm, PAGE)), config.sampling, config.text)
        self.ids = ids
        self.margin = math.inf

    def choose(self, logits: Tensor, draws: list[Draw]) -> list[int]:
        """One stream's next id; past the end of `ids` what the model would say."""
        (draw,) = draws
        if len(draw.said) < len(self.ids):
            return [self.ids[len(draw.said)]]
        self.margin = margin(logits, draw, self)
        return super().choose(logits, draws)


def closeness(checkpoint: Checkpoint, said: Said, position: int) -> float:
    """How close the draw of `said.ids[position]` was; below ROUNDING either outcome is right."""
    seed = [drawn for start, drawn in said.draws if start <= position][-1]
    runner = Dictated(checkpoint, said.ids[:position])
    stream = runner.open(said.prompt, mode="interleaved" if said.interleaved else "whole", seed=seed)
    stream.add_text(said.text)
    stream.end_text()
    while stream.wants_step and runner.margin == math.inf:
        runner.step([stream])
    return runner.margin
