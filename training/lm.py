"""Train the speech-token language model.

    python -m training.lm WORK --seconds 300 --mix 12 15

Needs WORK/data and WORK/tokens.npy, and takes WORK/align.json.gz (training.align), where there is one, to splice new
utterances from. Each round takes every clip once, alone or followed by up to three of its voice, half of the sequences
whole and half interleaved, the voice tag left out of one in ten. Sequences are the engine's own
(`oscine_engine.lm.sequence`). No two rounds are the same: worker processes make them ahead.

Writes WORK/export/llm.safetensors (averaged weights, fp16) where `ce_own` is lowest: the held-out cross entropy after
histories that are in part the model's own. After recorded ones (`ce`) a model looks good that gets lost when it speaks
freely. The last averaged weights are in WORK/lm/last, once a minute. WORK/export/lm_samples.json holds ids said for
held-out texts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from oscine_engine.checkpoint.weights import read, retie
from oscine_engine.lm.interleave import Kind, Layout
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.sequence import IGNORE, fits_interleaved, training_sequence
from training import sizes
from training.data import Batch, Corpus, Ints, bucketed, on_device, upload
from training.graphed import Graphed, Update, autocast, pick_device
from training.loop import Stage, save_weights, train, weighted
from training.splice import Splicer, Word, read_words

WIDTHS = (80, 96, 112, 144, 192, 272, 400, 640, 1024)
PIECES = (0.62, 0.2, 0.1, 0.08)
MAX_PIECES_TOKENS = 750
TAG_DROP, INTERLEAVED = 0.1, 0.5
DROPOUT, SMOOTHING = 0.3, 0.02
# Up to this share of a sequence's speech inputs are the model's own: otherwise it learns to continue recordings by
# heart, and loses its place in the text as soon as it has said something else.
OWN, VALID_OWN = 0.8, 0.6
SPLICED = 1.5
LR = 1.2e-3
# Text and speech ids share one input array: speech ids come after the text ids.
SPEECH_FROM = sizes.TEXT_ROWS


class Sequences:
    """Many training sequences, flat: `codes` and `targets` int16, row i at starts[i] .. starts[i + 1]."""

    def __init__(self, rows: list[tuple[list[int], list[int]]]) -> None:
        self.codes = np.concatenate([np.asarray(c, np.int16) for c, _ in rows])
        self.targets = np.concatenate([np.asarray(t, np.int16) for _, t in rows])
        self.starts: Ints = np.concatenate([[0], np.cumsum([len(c) for c, _ in rows])]).astype(np.int64)

    def batch(self, rows: Ints, width: int) -> Batch:
        place = self.starts[rows, None] + np.arange(width)
        real = place < self.starts[rows + 1, None]
        place = np.where(real, place, 0)
        codes = np.where(real, self.codes[place], 0).astype(np.int16)
        return Batch({"codes": codes, "targets": np.where(real, self.targets[place], IGNORE).astype(np.int16)})

    def epoch(self, rng: np.random.Generator, budget: int, all_rows: bool = False) -> list[Batch]:
        totals = np.diff(self.starts)
        return [self.batch(rows, width) for width, rows in bucketed(rng, totals, WIDTHS, budget, all_rows)]


def laid_out(
    text: list[int], speech: list[int], voice: int | None, layout: Layout, interleaved: bool
) -> tuple[list[int], list[int]]:
    """Input codes and targets of one utterance; without `voice` there is no voice tag."""
    tag = [sizes.FIRST_VOICE_TAG + voice] if voice is not None else []
    interleaved = interleaved and fits_interleaved(len(text), len(speech), layout)
    made = training_sequence(text, speech, layout, interleaved, prefix=[*tag, sizes.END_OF_PROMPT])
    codes = [i + SPEECH_FROM * (kind == Kind.SPEECH) for kind, i in zip(made.kinds, made.ids, strict=True)]
    return codes, made.targets


def sequence(
    corpus: Corpus, tokens: npt.NDArray[np.int16], clips: list[int], layout: Layout, interleaved: bool, tagged: bool
) -> tuple[list[int], list[int]]:
    """Input codes and targets of one utterance made of whole `clips`, which share a voice."""
    text: list[int] = []
    speech: list[int] = []
    for clip in clips:
        text += corpus.text_of(clip)
        speech += tokens[corpus.starts[clip] : corpus.starts[clip + 1]].tolist()
    return laid_out(text, speech, int(corpus.voice[clips[0]]) if tagged else None, layout, interleaved)


@dataclass(frozen=True, slots=True)
class Source:
    """What rounds are drawn from. A language's `weight` of 2 (others 1) doubles its sequences; all that it adds are
    spliced, since more recordings would only be repeated."""

    corpus: Corpus
    tokens: npt.NDArray[np.int16]
    words: list[list[Word]]
    layout: Layout
    weight: Mapping[str, float] = field(default_factory=dict)

    def round(self, rng: np.random.Generator) -> Sequences:
        """Every training clip once, and SPLICED times as many spliced utterances."""
        corpus, tokens, layout = self.corpus, self.tokens, self.layout
        rows = []
        for voice in np.unique(corpus.voice[corpus.train]):
            clips = corpus.train[corpus.voice[corpus.train] == voice]
            order = rng.permutation(clips).tolist()
            while order:
                group = [order.pop()]
                for _ in range(int(rng.choice(len(PIECES), p=PIECES))):
                    if order and sum(corpus.lengths[c] for c in (*group, order[-1])) <= MAX_PIECES_TOKENS:
                        group.append(order.pop())
                mixed, tagged = rng.random() < INTERLEAVED, rng.random() >= TAG_DROP
                rows.append(sequence(corpus, tokens, group, layout, bool(mixed), bool(tagged)))
            if self.words:
                splicer = Splicer(corpus, tokens, self.words, clips)
                weight = self.weight.get(corpus.clips[clips[0]]["lang"], 1.0)
                for _ in range(int((weight * (1 + SPLICED) - 1) * len(clips))):
                    text, speech = splicer.draw(rng)
                    mixed, tagged = rng.random() < INTERLEAVED, rng.random() >= TAG_DROP
                    rows.append(laid_out(text, speech, int(voice) if tagged else None, layout, bool(mixed)))
        return Sequences(rows)


_source: Source | None = None
"""In a worker process: what it draws from. A fork hands it over without a copy."""


def _set_source(source: Source) -> None:
    global _source
    _source = source


def _epoch(seed: int, budget: int) -> list[Batch]:
    assert _source is not None
    rng = np.random.default_rng(seed)
    return _source.round(rng).epoch(rng, budget)


def workers_on(source: Source, count: int) -> Pool:
    """Processes that make rounds. They are forks: start them before this process touches a device."""
    return multiprocessing.get_context("fork").Pool(count, _set_source, (source,))


def fresh_epochs(pool: Pool, budget: int, seed: int, ahead: int) -> Iterator[list[Batch]]:
    """Endless epochs, each of a round of its own; `ahead` of them are made at once, the rest as these are taken."""
    coming = deque(pool.apply_async(_epoch, (seed * 100003 + i, budget)) for i in range(ahead))

    def epochs() -> Iterator[list[Batch]]:
        for number in itertools.count(ahead):
            yield coming.popleft().get()
            coming.append(pool.apply_async(_epoch, (seed * 100003 + number, budget)))

    return epochs()


def embed(lm: SpeechLM, codes: Tensor) -> Tensor:
    """Input embeddings [B, T, hidden] of combined codes [B, T]."""
    is_speech = codes >= SPEECH_FROM
    text = lm.embed_text(codes.masked_fill(is_speech, 0))
    speech = lm.embed_speech((codes - SPEECH_FROM).clamp(min=0))
    return torch.where(is_speech[..., None], speech, text)


def own_ids(codes: Tensor, logits: Tensor, share: Tensor | float, generator: torch.Generator | None = None) -> Tensor:
    """Replace each speech id with probability `share` (a number or [B, 1]) by what the model would have said there.

    `logits` [B, T, decoder_rows] are its answers to `codes` [B, T]. A history of its own making is what it will speak
    from (scheduled sampling, Bengio et al. 2015); it can be continued only by reading the text.
    """
    size, device = sizes.LM.speech_token_size, codes.device
    noise = torch.rand((*logits.shape[:2], size), device=device, generator=generator).clamp(1e-9, 1 - 1e-7)
    said = (logits[..., :size].float() - torch.log(-torch.log(noise))).argmax(-1)
    said = F.pad(said[:, :-1], (1, 0))
    speech = (codes >= SPEECH_FROM) & (codes < SPEECH_FROM + size)
    chosen = speech & (torch.rand(codes.shape, device=device, generator=generator) < share)
    return torch.where(chosen, SPEECH_FROM + said, codes)


def entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy in nats of `targets` [B, T] under `logits` [B, T, rows], summed over the targets that count."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum")


def say(lm: SpeechLM, prompts: list[list[int]], limit: int, seed: int) -> list[list[int]]:
    """Sample ids (nucleus 0.8, at most 25) for each prompt, until eos or `limit`. A check, not an engine."""
    device = next(lm.parameters()).device
    generator = torch.Generator(device=device).manual_seed(seed)
    said: list[list[int]] = []
    for prompt in prompts:
        codes = list(prompt)
        out: list[int] = []
        while len(out) < limit:
            hidden = lm(embed(lm, torch.tensor([codes], device=device)))[:, -1]
            top, ids = lm.head(hidden).float()[0, : lm.config.speech_token_size + 2].softmax(-1).topk(25)
            keep = top.cumsum(0) - top < 0.8
            pick = int(ids[torch.multinomial(top * keep, 1, generator=generator)])
            if pick >= lm.config.speech_token_size:
                break
            out.append(pick)
            codes.append(SPEECH_FROM + pick)
        said.append(out)
    return said


def fit(
    stage: Stage,
    layout: Layout,
    budget: int,
    seed: int,
    workers: int,
    dropout: float = DROPOUT,
    own: float = OWN,
    lr: float = LR,
    start: Path | None = None,
    weight: Mapping[str, float] | None = None,
    eager_own: bool = False,
) -> None:
    """Train as `stage` says, from the weights `start` if given, and export.

    `weight` is that of `Source`. With `eager_own` own histories stay out of the CUDA graph: slower, and needed only
    where a graph cannot capture them.
    """
    work = stage.work
    corpus = Corpus(work / "data", "cpu")
    tokens = np.load(work / "tokens.npy")
    aligned = work / "align.json.gz"
    words = read_words(aligned, corpus) if aligned.exists() else []
    pool = workers_on(Source(corpus, tokens, words, layout, weight or {}), workers)
    epochs = fresh_epochs(pool, budget, seed, 2 * workers)
    device = pick_device()
    print(f"{stage.name}: on {device}, {len(corpus.train)} clips, {len(corpus.valid)} held out", flush=True)
    torch.manual_seed(seed)
    lm = SpeechLM(sizes.LM).to(device)
    if start is not None:
        lm.load_state_dict({k: v.float() for k, v in retie(read(start)).items()})
    lm.dropout = dropout
    update = Update([lm], lr=lr, betas=(0.9, 0.98), weight_decay=0.05, ema_decay=0.999)

    def predict(codes: Tensor) -> Tensor:
        embedded = embed(lm, codes)
        return lm.head(lm(F.dropout(embedded, dropout, lm.training))).float()

    def mix(codes: Tensor) -> Tensor:
        with torch.no_grad(), autocast(device):
            return own_ids(codes, predict(codes), own * torch.rand(len(codes), 1, device=device))

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        lm.train()
        update.zero()
        codes, targets = batch["codes"].long(), batch["targets"].long()
        if own and not eager_own:
            codes = mix(codes)
        with autocast(device):
            logits = predict(codes)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, label_smoothing=SMOOTHING)
        loss.backward()
        right = ((logits.argmax(-1) == targets) & (targets != IGNORE)).sum() / (targets != IGNORE).sum()
        return {"loss": loss, "accuracy": right, "norm": update.apply()}

    graphed = Graphed(step, device)

    def after_eager_own(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        lm.train()
        return graphed({**batch, "codes": mix(batch["codes"].long())})

    def held_out(clips: list[int], mixed: bool) -> list[dict[str, Tensor]]:
        made = Sequences([sequence(corpus, tokens, [c], layout, mixed, True) for c in clips])
        return [batch for batch, _ in upload(made.epoch(np.random.default_rng(1), 8192, all_rows=True), device)]

    languages = sorted({corpus.clips[c]["lang"] for c in corpus.valid})
    held = {
        (name, lang): held_out([int(c) for c in corpus.valid if corpus.clips[c]["lang"] == lang], mixed)
        for name, mixed in (("whole", False), ("mixed", True))
        for lang in languages
    }

    def validate() -> dict[str, float]:
        lm.eval()
        generator = torch.Generator(device).manual_seed(1)
        sums = {name: torch.zeros(4, device=device) for name in ("whole", "mixed", *languages)}
        with torch.no_grad(), autocast(device):
            for groups, batches in held.items():
                for batch in batches:
                    codes, targets = batch["codes"].long(), batch["targets"].long()
                    logits, real = predict(codes), targets != IGNORE
                    after_own = predict(own_ids(codes, logits, VALID_OWN, generator))
                    right = ((logits.argmax(-1) == targets) & real).sum()
                    counted = torch.stack([entropy(logits, targets), entropy(after_own, targets), right, real.sum()])
                    for group in groups:
                        sums[group] += counted
        found: dict[str, float] = {}
        for group, total in sums.items():
            ce, ce_own, accuracy = (total[:3] / total[3]).tolist()
            found |= {f"ce_{group}": ce, f"ce_own_{group}": ce_own, f"accuracy_{group}": accuracy}
        means = {key: (found[f"{key}_whole"] + found[f"{key}_mixed"]) / 2 for key in ("ce", "ce_own")}
        return {**means, **found}

    def export(folder: Path) -> None:
        save_weights(folder / "llm.safetensors", lm)

    run = after_eager_own if own and eager_own else graphed
    with pool:
        train(stage, [update], run, on_device(epochs, device), validate, export)
    sample(work, corpus, tokens, layout, device)


def sample(work: Path, corpus: Corpus, tokens: npt.NDArray[np.int16], layout: Layout, device: torch.device) -> None:
    """Say a few held-out texts with the exported weights, print how long they got, and keep the ids."""
    lm = SpeechLM(sizes.LM).to(device).eval()
    lm.load_state_dict({k: v.float() for k, v in load_file(work / "export" / "llm.safetensors").items()})
    chosen = [int(c) for c in corpus.valid if 40 <= corpus.lengths[c] <= 120][:4]
    rows = []
    for clip in chosen:
        codes, _ = sequence(corpus, tokens, [clip], layout, False, True)
        rows.append(codes[: codes.index(SPEECH_FROM + layout.task_id.id) + 1])
    with torch.no_grad(), autocast(device):
        said = say(lm, rows, limit=160, seed=0)
    kept: list[dict[str, Any]] = [
        {"id": corpus.clips[c]["id"], "text": corpus.clips[c]["text"], "real": int(corpus.lengths[c]), "ids": ids}
        for c, ids in zip(chosen, said, strict=True)
    ]
    for row in kept:
        print(f"lm: said {len(row['ids'])} ids where the recording has {row['real']}: {row['text']}", flush=True)
    (work / "export" / "lm_samples.json").write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--mix", type=int, nargs=2, required=True, metavar=("TEXT", "SPEECH"), help="interleaved block")
    parser.add_argument("--batch", type=int, default=16384, help="positions a batch")
    parser.add_argument("--max-steps", type=int, default=8000)
    parser.add_argument("--dropout", type=float, default=DROPOUT)
    parser.add_argument("--own", type=float, default=OWN, help="largest share of own ids in the speech inputs")
    parser.add_argument("--lr", type=float, default=LR)
    parser.add_argument("--start", type=Path, help="llm.safetensors to begin from")
    parser.add_argument("--warmup", type=int, help="steps; default 500, or 50 with --start")
    parser.add_argument("--weight", type=weighted, nargs="*", default=[], help="LANG=FACTOR: more of it, spliced")
    parser.add_argument("--eager-own", action="store_true", help="own histories outside of the CUDA graph")
    parser.add_argument("--keep", choices=("best", "last"), default="best", help="which weights are exported")
    parser.add_argument("--name", default="lm", help="folder of this run's checkpoint and tables")
    parser.add_argument("--workers", type=int, default=min(4, multiprocessing.cpu_count()))
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    layout = Layout(sizes.LM.speech_token_size, *a.mix)
    stage = Stage(
        a.name,
        a.work,
        a.seconds,
        max_steps=a.max_steps,
        warmup_steps=a.warmup or (50 if a.start else 500),
        valid_s=max(10.0, a.seconds / 60) if torch.cuda.is_available() else 300,
        keep_best="ce_own" if a.keep == "best" else None,
        keep_last=True,
    )
    fit(
        stage,
        layout,
        a.batch,
        a.seed,
        a.workers,
        dropout=a.dropout,
        own=a.own,
        lr=a.lr,
        start=a.start,
        weight=dict(a.weight),
        eager_own=a.eager_own,
    )


if __name__ == "__main__":
    main()
