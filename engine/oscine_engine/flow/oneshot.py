"""The flow over a whole utterance at once: no state, no pages. For parity checks and to measure streaming against."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from oscine_engine.flow.network import Flow
from oscine_engine.flow.schedule import euler_steps, time_span


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Outcome of one solve. mel: [1, 80, n], prompt removed. The rest, by Euler step: states x [steps, 80, T], times
    [steps], and velocities of the conditional and the unconditional row [steps, 80, T]."""

    mel: Tensor
    states: Tensor
    times: Tensor
    conditional: Tensor
    unconditional: Tensor


@torch.no_grad()
def solve(
    flow: Flow,
    prompt_tokens: Tensor,
    tokens: Tensor,
    prompt_mel: Tensor,
    embedding: Tensor,
    noise: Tensor,
    *,
    streaming: bool,
    finalize: bool = True,
) -> Solution:
    """Solve `tokens` [1, n] after `prompt_tokens` [1, P] with their mel [1, 2P, 80] and speaker `embedding` [1, 192].

    `noise` [1, 80, at least all frames]. With `streaming` frames see to the end of their chunk, else everything.
    Without `finalize` the last `pre_lookahead_len` tokens serve as look-ahead only and get no mel.
    """
    config = flow.config
    joined = torch.cat((prompt_tokens, tokens), dim=1)
    if finalize:
        mu = flow.encode(joined)
    else:
        mu = flow.encode(joined[:, : -config.pre_lookahead_len], context=joined[:, -config.pre_lookahead_len :])
    frames, prompt_frames = mu.shape[2], prompt_mel.shape[1]
    cond = F.pad(prompt_mel.transpose(1, 2), (0, frames - prompt_frames))
    speaker = flow.speaker(embedding)
    both_mu, both_cond, both_speaker = (torch.cat((part, torch.zeros_like(part))) for part in (mu, cond, speaker))
    mask = torch.ones(2, 1, frames, device=mu.device)
    x, rate = noise[:, :, :frames], config.cfm.inference_cfg_rate
    times, lengths = (part.to(mu.device) for part in euler_steps(time_span(config.cfm, config.cfm.n_timesteps)))
    states, velocities = [], []
    for time, length in zip(times, lengths, strict=True):
        velocity = flow.estimator(
            x.expand(2, -1, -1), mask, both_mu, time.expand(2), both_speaker, both_cond, streaming
        )
        states.append(x[0])
        velocities.append(velocity)
        x = x + length * ((1 + rate) * velocity[:1] - rate * velocity[1:])
    conditional, unconditional = torch.stack(velocities, dim=1)
    return Solution(x[:, :, prompt_frames:], torch.stack(states), times, conditional, unconditional)
