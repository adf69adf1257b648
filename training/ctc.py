"""Connectionist temporal classification (Graves et al. 2006) in plain tensor code.

torch's own loss reads lengths on the host, which a captured graph cannot do. Gradients come from the forward-backward
posteriors, not from autograd through the recursion.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from oscine_service.listening.scoring import edits as edits

BLANK = 0
_NEVER = -1e30


class _CTC(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_probs: Tensor, targets: Tensor, frames: Tensor, labels: Tensor) -> Tensor:
        batch, steps, _ = log_probs.shape
        states = 2 * targets.shape[1] + 1
        path = targets.new_full((batch, states), BLANK)
        path[:, 1::2] = targets
        emit = log_probs.gather(2, path[:, None].expand(-1, steps, -1)).transpose(0, 1).contiguous()
        # A state may be entered from two below where its label is no blank and differs from that one.
        skip = torch.full((batch, states), _NEVER, device=log_probs.device)
        skip[:, 3::2] = (path[:, 3::2] == path[:, 1:-2:2]).float() * _NEVER

        alpha = torch.full((steps, batch, states + 2), _NEVER, device=log_probs.device)
        alpha[0, :, 2:4] = emit[0, :, :2]
        for t in range(1, steps):
            before = alpha[t - 1]
            near = torch.logaddexp(before[:, 2:], before[:, 1:-1])
            torch.add(torch.logaddexp(near, before[:, :-2] + skip), emit[t], out=alpha[t, :, 2:])

        last = torch.full((batch, states + 2), _NEVER, device=log_probs.device)
        ends = 2 * labels[:, None]
        place = torch.arange(states + 2, device=log_probs.device)
        last = last.masked_fill((place == ends) | (place == ends - 1), 0.0)
        skip_ahead = torch.cat([skip, skip.new_full((batch, 2), _NEVER)], 1)
        beta = torch.full((steps, batch, states + 2), _NEVER, device=log_probs.device)
        ending = frames[:, None] - 1
        for t in range(steps - 1, -1, -1):
            if t == steps - 1:
                found = last.new_full((batch, states), _NEVER)
            else:
                after = beta[t + 1].clone()
                after[:, :states] += emit[t + 1]
                near = torch.logaddexp(after[:, :states], after[:, 1 : states + 1])
                found = torch.logaddexp(near, after[:, 2:] + skip_ahead[:, 2:])
            torch.where(ending == t, last[:, :states], found, out=beta[t, :, :states])

        final = alpha.gather(0, (frames - 1).clamp(min=0)[None, :, None].expand(1, -1, states + 2))[0]
        score = torch.logaddexp(final.gather(1, ends + 2)[:, 0], final.gather(1, (ends + 1).clamp(min=2))[:, 0])
        possible = (score > _NEVER / 2) & (labels > 0)
        posterior = torch.exp(alpha[:, :, 2:] + beta[:, :, :states] - score[:, None])
        counted = possible & (torch.arange(steps, device=log_probs.device)[:, None] < frames)
        posterior = posterior.masked_fill(~counted[..., None], 0.0).transpose(0, 1)
        grad = torch.zeros_like(log_probs).scatter_add_(2, path[:, None].expand(-1, steps, -1), -posterior)
        ctx.save_for_backward(grad)
        return (-score).masked_fill(~possible, 0.0)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (grad,) = ctx.saved_tensors
        return grad * upstream[:, None, None], None, None, None


def ctc_loss(log_probs: Tensor, targets: Tensor, frames: Tensor, labels: Tensor) -> Tensor:
    """Negative log-likelihood [B] of `targets` int64 [B, L], the first `labels` [B] of each row, given log-softmaxed
    `log_probs` float32 [B, T, V] of which the first `frames` [B] count. Blank is id 0. Rows whose labels do not fit
    in their frames give 0 and no gradient."""
    found: Tensor = _CTC.apply(log_probs, targets, frames, labels)
    return found


def greedy(log_probs: Tensor, frames: Tensor) -> list[list[int]]:
    """Best-path decoding of each row: repeats merged, blanks removed."""
    best = log_probs.argmax(-1).cpu()
    rows = []
    for ids, count in zip(best, frames.tolist(), strict=True):
        merged = torch.unique_consecutive(ids[:count]).tolist()
        rows.append([i for i in merged if i != BLANK])
    return rows
