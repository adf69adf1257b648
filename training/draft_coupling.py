"""What it costs that drafts are verified by equal noise, and not by the best rule there is.

    python -m training.draft_coupling WORK/draft/valid WORK/export/draft [--model DIRECTORY]

The engine draws a draft and what it is compared with under the same noise, so that ids do not depend on drafts. Optimal
rejection sampling accepts more often: a draft drawn from q in the place of p with the chance 1 - d, d being their total
variation, where equal noise agrees with a chance of at least (1 - d) / (1 + d). This compares both on sentences that
the target has said (`said.npz` of a run of `training.draft`), guess by guess, each after those before it came true.

Chances are worked out, not drawn: along what was said, a rule's chance of x is weighed as if x had been drawn from p,
so that means over many places are those over all that could have been said. Repetitions that are redrawn are left out
of p and q; `redrawn` tells how many there were, and `drawn` what equal noise, redrawing included, has really accepted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from oscine_engine.checkpoint import draft as files
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.config import SamplingConfig
from oscine_engine.lm import noise
from oscine_engine.lm.draft import DraftNetwork
from oscine_engine.lm.sampling import NO_ID, mask_logits, nucleus, sample
from training.draft_data import Spoken, states
from training.lm import SPEECH_FROM


def by_equal_noise(p: Tensor, q: Tensor, ids: Tensor) -> Tensor:
    """Chance [n] that q [n, V] picks ids [n], given that p [n, V] has picked them under the same Gumbel noise.

    Both pick x with chance 1 / sum over y of max(p_y / p_x, q_y / q_x).
    """
    p_x, q_x = (part.gather(1, ids[:, None]) for part in (p, q))
    worst = torch.maximum(p * q_x, q * p_x).sum(1, keepdim=True)
    return torch.where(worst > 0, q_x / worst.clamp(min=1e-300), 0.0)[:, 0]


def by_rejection(p: Tensor, q: Tensor, ids: Tensor) -> Tensor:
    """Weight [n] of ids [n] drawn from p [n, V], whose mean is the chance that optimal rejection keeps a draft of q."""
    p_x, q_x = (part.gather(1, ids[:, None])[:, 0] for part in (p, q))
    return torch.where(p_x > 0, (q_x / p_x.clamp(min=1e-300)).clamp(max=1.0), 0.0)


def truncated(logits: Tensor, sampling: SamplingConfig) -> Tensor:
    """The nucleus [n, V], float64, of masked logits [n, V]."""
    ids, kept, inside = nucleus(logits.float().softmax(-1), sampling)
    kept = torch.where(inside, kept, 0.0).double()
    whole = torch.zeros(logits.shape, dtype=torch.float64)
    return whole.scatter(1, ids, kept / kept.sum(-1, keepdim=True))


class Places(NamedTuple):
    """Of the blocks of one row, [K, count]: what each rule accepts, that guess being made after true ones; `real` where
    there is something to guess. variation: total variation. redrawn: whether the id said was."""

    noise: Tensor
    rejection: Tensor
    drawn: Tensor
    variation: Tensor
    redrawn: Tensor
    real: Tensor


@torch.inference_mode()
def places(network: DraftNetwork, model: Checkpoint, spoken: Spoken, row: int, truncate: bool) -> Places | None:
    """All blocks of a row; None if it has none."""
    lm, sampling, speech = model.lm, model.config.sampling, model.config.lm.speech_token_size
    begin, end = spoken.starts[row : row + 2]
    codes = torch.from_numpy(spoken.codes[begin:end].astype(np.int64))
    goals = torch.from_numpy(spoken.targets[begin:end].astype(np.int64))
    says = (goals >= 0) & (goals < speech)
    anchors = (codes >= SPEECH_FROM) & (codes < SPEECH_FROM + speech) & says
    at = anchors.nonzero()[:, 0]
    if not len(at):
        return None
    features, logits = states(lm, codes[None], network.config.target_layer_ids)
    tail = (codes == SPEECH_FROM + speech + 2).cumsum(0) > 0
    target = mask_logits(logits[0], speech, tail)
    said_before = says.long().cumsum(0) - says.long()
    said = goals[says].tolist()
    history = torch.tensor(
        [([NO_ID] * sampling.win_size + said[:n])[-sampling.win_size :] for n in said_before.tolist()]
    )
    keys = noise.keys(torch.full_like(goals, int(spoken.seeds[row])), said_before)
    redrawn = sample(target, history, keys, replace(sampling, tau_r=1e9)) != goals

    count = network.config.count
    spots = at[:, None] + torch.arange(count)
    real = torch.where(spots < len(goals), says[spots.clamp(max=len(goals) - 1)], False).long().cumprod(1).bool()
    spots = spots.clamp(max=len(goals) - 1)
    wanted = goals[spots].clamp(0, speech - 1)
    first = codes[at] - SPEECH_FROM
    previous = torch.cat((first[:, None], wanted[:, :-1]), dim=1)
    hidden = network(features, first[None], at[None], lm)[0]
    made = network.logits(hidden, previous, lm)[..., : speech + 2].float().flatten(0, 1)
    made[:, speech:] = -torch.inf
    flat, ids = spots.flatten(), wanted.flatten()
    p = truncated(target, sampling)[flat]
    q = truncated(made, sampling) if truncate else made.double().softmax(-1)
    everything = replace(sampling, top_p=2.0, top_k=speech)
    guessed = sample(made, history[flat], keys[flat], sampling if truncate else everything)
    parts = (
        by_equal_noise(p, q, ids),
        by_rejection(p, q, ids),
        (guessed == ids).double(),
        (p - q).abs().sum(1) / 2,
        redrawn[flat].double(),
    )
    return Places(*(part.view(spots.shape) for part in parts), real)


def compare(network: DraftNetwork, model: Checkpoint, spoken: Spoken, truncate: bool) -> dict[str, list[float] | float]:
    """By rule: the chance of each guess after true ones, and ids a step from anywhere in the speech."""
    rows: Iterator[Places | None] = (places(network, model, spoken, row, truncate) for row in range(len(spoken)))
    found = Places(*(torch.cat(parts) for parts in zip(*(row for row in rows if row is not None), strict=True)))
    made: dict[str, list[float] | float] = {}
    for name in ("noise", "rejection", "drawn"):
        kept = getattr(found, name) * found.real
        made[name] = [round(float(kept[:, i].sum() / found.real[:, i].sum()), 4) for i in range(kept.shape[1])]
        made[f"{name}_ids"] = round(1 + float(kept.cumprod(1).sum(1).mean()), 4)
    variation = found.variation[found.real]
    made["variation"] = round(float(variation.mean()), 4)
    made["least"] = round(float(((1 - variation) / (1 + variation)).mean()), 4)
    made["redrawn"] = round(float(found.redrawn[found.real].mean()), 4)
    made["blocks"] = float(len(found.real))
    return made


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where said.npz is")
    parser.add_argument("draft", type=Path)
    parser.add_argument("--model", type=Path, help="directory of the target; default is the embedded voice")
    a = parser.parse_args()
    model, network, spoken = load(a.model), files.load(a.draft), Spoken.load(a.folder / "said.npz")
    for truncate in (True, False):
        print(json.dumps({"from": "nucleus" if truncate else "all ids", **compare(network, model, spoken, truncate)}))


if __name__ == "__main__":
    main()
