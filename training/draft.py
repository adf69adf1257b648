"""Train a draft head (DSpark) for the embedded voice, and measure how many ids a step it buys.

    python -m training.draft WORK --seconds 900 --utterances 3000

Needs WORK/data (training.data). The target is the embedded voice, or the model of --model; it says the corpus' texts
first (`draft_data`). Its embedding and head are shared and stay as they are.

The head imitates what the target really draws from, its nucleus. Half of the loss is cross entropy, to that and to the
ids said in equal parts, which teaches fast; half is total variation, the share of drafts that no way of verifying could
accept. Writes
WORK/export/draft (config.json and model.safetensors, int8) where `tokens` is highest: ids a step on held-out texts if
drafts are verified as well as can be. `accepted.json` beside it says what the engine's rule, equal noise for both,
really accepts.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from oscine_engine.checkpoint import draft as files
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.config import LMConfig
from oscine_engine.lm.draft import DraftConfig, DraftNetwork
from oscine_engine.lm.drafter import PackedDraft
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.sampling import NO_ID
from oscine_engine.runtime.pages import PagePool
from training.data import Batch, Corpus, upload
from training.draft_data import PAGE_TOKENS, Source, Spoken, speak
from training.graphed import Graphed, Update, autocast, pick_device
from training.lm import SPEECH_FROM
from training.loop import Stage, train

LR = 1.5e-3
CE, VARIATION = 0.25, 0.5
FADE = 0.8
"""A guess counts only if those before it were right: each weighs this much of the one before."""
BLOCKS = 12
TOGETHER = 32


def shape(lm: LMConfig, layers: int, block: int, rank: int) -> DraftConfig:
    """A head with `layers` layers that guesses block - 1 ids from outputs of three of the target's layers."""
    last = lm.num_hidden_layers - 1
    return DraftConfig(
        hidden_size=lm.hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=lm.num_attention_heads,
        num_key_value_heads=lm.num_key_value_heads,
        head_dim=lm.head_dim,
        intermediate_size=2 * lm.hidden_size,
        vocab_size=lm.decoder_rows,
        draft_vocab_size=lm.decoder_rows,
        target_hidden_size=lm.hidden_size,
        target_layer_ids=tuple(sorted({last // 3, 2 * last // 3, last})),
        mask_token_id=lm.decoder_rows - 1,
        markov_rank=rank,
        block_size=block,
        rope_theta=lm.rope_theta,
        rms_norm_eps=lm.rms_norm_eps,
        own_embedding=False,
        own_head=False,
    )


class Guesses(NamedTuple):
    """Of every block's guesses, [B, K, count]: the share that the target's choice and the guess can have in common, and
    cross entropies in nats under what the target draws from and of the id that was said. real: speech was said up to
    there without a break, so there is something to guess."""

    shared: Tensor
    soft: Tensor
    hard: Tensor
    real: Tensor


def guess(network: DraftNetwork, lm: SpeechLM, batch: Mapping[str, Tensor]) -> Guesses:
    """All blocks of a batch of `draft_data.Source`, each guess after the ids that were really said."""
    speech_ids, count = lm.config.speech_token_size, network.config.count
    codes, targets, at = batch["codes"].long(), batch["targets"].long(), batch["anchors"]
    places = (at[..., None] + torch.arange(count, device=at.device)).clamp(max=codes.shape[1] - 1)
    flat = places.flatten(1)
    goals = targets.gather(1, flat).view(places.shape)
    real = ((goals >= 0) & (goals < speech_ids)).long().cumprod(-1).bool()
    goals = goals.clamp(0, speech_ids - 1)
    anchors = codes.gather(1, at) - SPEECH_FROM
    previous = torch.cat((anchors[..., None], goals[..., :-1]), dim=-1)
    hidden = network(batch["features"].float(), anchors, at, lm)
    chances = network.logits(hidden, previous, lm)[..., :speech_ids].float().log_softmax(-1)
    ids, shares = (
        batch[name].gather(1, flat[..., None].expand(-1, -1, batch[name].shape[-1])).view(*places.shape, -1)
        for name in ("ids", "shares")
    )
    of_target = chances.gather(-1, ids.long())
    return Guesses(
        shared=torch.minimum(of_target.exp(), shares.float()).sum(-1),
        soft=-(shares.float() * of_target).sum(-1),
        hard=-chances.gather(-1, goals[..., None])[..., 0],
        real=real,
    )


def batches(source: Iterator[Batch], device: torch.device) -> Iterator[tuple[dict[str, Tensor], tuple[Any, ...]]]:
    """Batches on a device, one at a time: their states are large."""
    for batch in source:
        yield from upload([batch], device)


@torch.inference_mode()
def steps_taken(
    network: DraftNetwork, model: Checkpoint, source: Source, rows: Sequence[int], truncate: bool
) -> tuple[int, int]:
    """(ids, steps) of saying `rows` once more with drafts verified under the target's noise, as the engine does it.

    A step that reads text says one id, as it does without drafts. truncate: as in PackedDraft.
    """
    spoken, config, sampling = source.spoken, model.config.lm, model.config.sampling
    device = model.lm.llm_decoder.weight.device
    each = -(-int(np.diff(spoken.starts).max()) // PAGE_TOKENS)
    pool = PagePool(len(rows) * each, page_shape(config, PAGE_TOKENS), device=device)
    drafter = PackedDraft(
        network, model.lm, pool, sampling, max_streams=len(rows), max_positions=each * PAGE_TOKENS, truncate=truncate
    )
    replays = [Replay(spoken, row, place * each, config) for place, row in enumerate(rows)]
    window = sampling.win_size
    while open_ := [replay for replay in replays if replay.wants_drafts()]:
        new = [(replay, at) for replay in open_ for at in range(replay.known, replay.at)]
        drafter.remember(
            torch.from_numpy(np.stack([source.arrays["features"][replay.begin + at] for replay, at in new])).to(device),
            torch.tensor([at for _, at in new], device=device),
            torch.tensor([replay.page * PAGE_TOKENS + at for replay, at in new], device=device),
        )
        places = torch.tensor([replay.at for replay in open_], device=device)
        drafts = drafter.propose(
            torch.tensor([replay.said[-1] for replay in open_], device=device),
            places,
            torch.tensor([replay.seed for replay in open_], device=device),
            torch.tensor([len(replay.said) for replay in open_], device=device),
            torch.tensor([([NO_ID] * window + replay.said)[-window:] for replay in open_], device=device),
            torch.tensor(
                [list(range(replay.page, replay.page + each)) for replay in open_], dtype=torch.int32, device=device
            ),
            places.int(),
        )
        for replay, guessed in zip(open_, drafts.tolist(), strict=True):
            replay.verify(guessed)
    return sum(len(replay.said) for replay in replays), sum(replay.steps for replay in replays)


class Replay:
    """One spoken row, said again step by step. `at` is the place whose id the next step draws first."""

    def __init__(self, spoken: Spoken, row: int, page: int, lm: LMConfig) -> None:
        self.begin, end = (int(place) for place in spoken.starts[row : row + 2])
        self.page, self.seed = page, int(spoken.seeds[row])
        self._codes, self._goals = spoken.codes[self.begin : end].tolist(), spoken.targets[self.begin : end].tolist()
        self._draws = [at for at, goal in enumerate(self._goals) if 0 <= goal < lm.speech_token_size or goal == lm.eos]
        self._speech, self._next = range(SPEECH_FROM, SPEECH_FROM + lm.speech_token_size), 0
        self.said: list[int] = []
        self.known = self.steps = 0

    @property
    def at(self) -> int:
        return self._draws[self._next]

    def wants_drafts(self) -> bool:
        """Take the steps that have none, those that read text; whether one comes then that has."""
        while self._next < len(self._draws) and self._codes[self.at] not in self._speech:
            self._take(1)
        return self._next < len(self._draws)

    def verify(self, drafts: Sequence[int]) -> None:
        """One step: all drafts up to the first wrong one, and the id after."""
        self.known, run = self.at, 1
        for guessed, (at, then) in zip(drafts, itertools.pairwise(self._draws[self._next :]), strict=False):
            if guessed != self._goals[at] or then != at + 1:
                break
            run += 1
        self._take(run)

    def _take(self, count: int) -> None:
        goals = [self._goals[at] for at in self._draws[self._next : self._next + count]]
        self.said += [goal for goal in goals if goal < self._speech.stop - SPEECH_FROM]
        self._next, self.steps = self._next + count, self.steps + 1


def measure(network: DraftNetwork, model: Checkpoint, source: Source) -> dict[str, float]:
    """Ids a step on all rows of `source`, by layout, with drafts drawn from all ids and from the draft's nucleus."""
    found: dict[str, float] = {}
    for kind, mixed in (("whole", False), ("interleaved", True)):
        rows = np.flatnonzero(source.spoken.mixed == mixed).tolist()
        for name, truncate in (("all", False), ("nucleus", True)):
            counts = np.array(
                [
                    steps_taken(network, model, source, rows[first : first + TOGETHER], truncate)
                    for first in range(0, len(rows), TOGETHER)
                ]
            ).sum(0)
            found[f"{kind}_{name}"] = float(counts[0] / counts[1])
    return found


def fit(stage: Stage, model: Checkpoint, config: DraftConfig, clips: int, batch: int, seed: int, lr: float) -> None:
    """Let the model speak, train a head as `stage` says, export it, and measure what its drafts are worth."""
    work, lm = stage.work, model.lm
    corpus = Corpus(work / "data", "cpu")
    rng = np.random.default_rng(seed)
    parts = {"train": rng.permutation(corpus.train)[:clips].tolist(), "valid": corpus.valid.tolist()}
    sources: dict[str, Source] = {}
    for number, (name, chosen) in enumerate(parts.items()):
        folder = stage.folder / name
        if not (folder / "said.npz").exists():
            speak(model, corpus, chosen, seed + number).save(folder / "said.npz")
        sources[name] = Source(Spoken.load(folder / "said.npz"), model, config.target_layer_ids, folder)
    device = lm.llm_decoder.weight.device
    spoken = sources["train"].spoken
    print(f"{stage.name}: on {device}, {len(spoken)} texts said, {len(spoken.codes)} positions", flush=True)
    torch.manual_seed(seed)
    network = DraftNetwork(config).to(device)
    update = Update([network], lr=lr, betas=(0.9, 0.98), weight_decay=0.05, ema_decay=0.99)
    fade = FADE ** torch.arange(config.count, device=device)

    def step(given: dict[str, Tensor]) -> dict[str, Tensor]:
        network.train()
        update.zero()
        with autocast(device):
            made = guess(network, lm, given)
        weight = fade * made.real
        loss = (weight * (CE * (made.soft + made.hard) + VARIATION * (1 - made.shared))).sum() / weight.sum()
        loss.backward()
        return {"loss": loss, "first": made.shared[..., 0].mean(), "norm": update.apply()}

    held = list(upload(list(sources["valid"].epoch(np.random.default_rng(1), batch, BLOCKS)), device))

    def validate() -> dict[str, float]:
        network.eval()
        sums = torch.zeros(config.count + 1, device=device)
        with torch.no_grad(), autocast(device):
            for given, _ in held:
                made = guess(network, lm, given)
                sums[:-1] += (made.shared * made.real).cumprod(-1).flatten(0, 1).sum(0)
                sums[-1] += made.real[..., 0].sum()
        kept = (sums[:-1] / sums[-1]).tolist()
        return {"tokens": 1 + sum(kept), "negative": -sum(kept), **{f"kept_{i}": k for i, k in enumerate(kept, 1)}}

    def export(folder: Path) -> None:
        files.save(network, folder / "draft", "int8", target=model.directory.name)

    endless = batches(sources["train"].epochs(seed, batch, BLOCKS), device)
    train(stage, [update], Graphed(step, device), endless, validate, export)
    best = files.load(stage.export / "draft", device=device)
    found = measure(best, model, sources["valid"])
    (stage.export / "draft" / "accepted.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"{stage.name}: ids a step {json.dumps(found)}", flush=True)


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--model", type=Path, help="directory of the target; default is the embedded voice")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--max-steps", type=int, default=20000)
    parser.add_argument("--utterances", type=int, default=3000, help="texts that the target says")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--block", type=int, default=6, help="ids guessed at a time, and one")
    parser.add_argument("--rank", type=int, default=64, help="of the Markov head")
    parser.add_argument("--batch", type=int, default=2048, help="positions a batch")
    parser.add_argument("--lr", type=float, default=LR)
    parser.add_argument("--name", default="draft", help="folder of this run's checkpoint and tables")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    model = load(a.model, device=pick_device())
    stage = Stage(
        a.name,
        a.work,
        a.seconds,
        max_steps=a.max_steps,
        warmup_steps=100,
        ema_start=200,
        valid_s=max(10.0, a.seconds / 12),
        keep_best="negative",
    )
    config = shape(model.config.lm, a.layers, a.block, a.rank)
    fit(stage, model, config, a.utterances, a.batch, a.seed, a.lr)


if __name__ == "__main__":
    main()
