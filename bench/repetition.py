"""What does sampling without regard to what was said cost? python -m bench.repetition [--seeds N] [--own] [--json]

The language model says every line of `bench/sentences`, by three rules that draw from the same logits:

* `ras`: ours, the nucleus, and another draw from all ids for one that was said within the last ten;
* `nucleus`: the same without that;
* `vllm`: vLLM's order, in which top-p counts among the ids that top-k has left. Without RAS too.

Lines are read whole, with every one of the seeds 1 to N. Nothing is spoken: the ids alone tell, and their guard. The
nucleus, and what counts as a repetition, are those of the released model; with `--own`, those of the model that is
measured (the embedded voice draws from half as much, and allows any repetition but nine in ten).

Keys of the printed object: `benchmark`, `model`, `host`, `sampling`, `sentences` (of each rule), and by rule:

* `ids`; `repeated_percent`: ids that were said within the ten before; `twice_percent`: right before;
* `looped`: sentences that the guard found to go round in circles, `silent`: or to be silent, in their first attempt;
* `capped`: sentences that reached their cap instead of an end; `ids_per_sentence`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.figures import host
from bench.model import add_model, model_directory, model_name
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.config import SamplingConfig
from oscine_engine.guards.segment import GuardRules, SegmentGuard
from oscine_engine.lm import noise
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import Draw, LMRunner
from oscine_engine.lm.sampling import NO_ID, mask_logits, sample
from oscine_engine.lm.stream import LMStream
from oscine_engine.runtime.pages import PagePool
from oscine_engine.text.front_end import FrontEnd

SENTENCES = Path(__file__).parent / "sentences"
TOGETHER = 32
PAGE, PAGES = 256, 4 * TOGETHER
LIMIT = 750
"""The engine's: 30 s."""
RULES = ("ras", "nucleus", "vllm")


class Ruled(LMRunner):
    """Draws by one of the rules."""

    rule = "ras"

    def choose(self, logits: Tensor, draws: list[Draw]) -> list[int]:
        if self.rule == "ras":
            return super().choose(logits, draws)
        masked = mask_logits(logits, self.layout.speech_token_size, torch.tensor([draw.may_end for draw in draws]))
        if self.rule == "vllm":
            least = masked.topk(self.sampling.top_k).values[:, -1:]
            masked = masked.masked_fill(masked < least, -torch.inf)
        keys = torch.tensor([[noise.key(draw.seed, len(draw.said), use) for use in (0, 1)] for draw in draws])
        # Nobody has said anything, so nothing is drawn again.
        history = torch.full((len(draws), self.sampling.win_size), NO_ID)
        ids: list[int] = sample(masked, history, keys, self.sampling, self.temperature).tolist()
        return ids


def lines() -> list[str]:
    return [line for path in sorted(SENTENCES.glob("*.txt")) for line in path.read_text().splitlines() if line]


class Counted:
    """What one rule's sentences come to."""

    def __init__(self) -> None:
        self.sentences = self.ids = self.repeated = self.twice = self.looped = self.silent = self.capped = 0

    def add(self, stream: LMStream, text: Sequence[int], guard: SegmentGuard) -> None:
        ids = stream.tokens
        self.sentences += 1
        self.ids += len(ids)
        self.repeated += sum(token in ids[max(0, place - 10) : place] for place, token in enumerate(ids))
        self.twice += sum(before == token for before, token in pairwise(ids))
        self.capped += stream.capped
        # Told of one id more at a time, as the engine would tell it; what it finds first counts.
        for count in range(1, len(ids) + 1):
            verdict = guard.said(ids[:count], text=text, done=False, capped=False).verdict
            if verdict is not None:
                silent = guard._silence.run > 0
                self.silent += silent
                self.looped += not silent
                return

    def figures(self) -> dict[str, float | int]:
        return {
            "ids": self.ids,
            "repeated_percent": round(100 * self.repeated / self.ids, 2),
            "twice_percent": round(100 * self.twice / self.ids, 2),
            "looped": self.looped,
            "silent": self.silent,
            "capped": self.capped,
            "ids_per_sentence": round(self.ids / self.sentences, 1),
        }


def measure(checkpoint: Checkpoint, sampling: SamplingConfig, seeds: int) -> dict[str, Any]:
    config = checkpoint.config
    pool = PagePool(PAGES, page_shape(config.lm, PAGE))
    runner = Ruled(checkpoint.lm, pool, sampling, config.text)
    front_end = FrontEnd(config.text.front_end, checkpoint.tokenizer)
    voice = next(iter(checkpoint.voices.values()))
    prompt = Prompt(tuple(checkpoint.tokenizer.encode(voice.prompt_text)))
    work = [(front_end.whole(line), seed) for line in lines() for seed in range(1, seeds + 1)]
    # Those of a length together, so that nobody waits for the longest.
    work.sort(key=lambda item: len(item[0]))
    rules = GuardRules(config.vocoder.sampling_rate, 0.0, silent_ids=config.silence)
    found: dict[str, Any] = {"sampling": asdict(sampling), "sentences": len(work)}
    for runner.rule in RULES:
        counted = Counted()
        for first in range(0, len(work), TOGETHER):
            some = work[first : first + TOGETHER]
            streams = [runner.open(prompt, seed=seed, limit=LIMIT) for _, seed in some]
            for stream, (text, _) in zip(streams, some, strict=True):
                stream.add_text(text)
                stream.end_text()
            while any(stream.wants_step for stream in streams):
                runner.step(streams)
            for stream, (text, seed) in zip(streams, some, strict=True):
                counted.add(stream, text, SegmentGuard(rules, seed))
                runner.close(stream)
        found[runner.rule] = counted.figures()
    return found


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(
        prog="python -m bench repetition", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_model(parser)
    parser.add_argument("--seeds", type=int, default=4, help="of every line (default %(default)s)")
    parser.add_argument("--own", action="store_true", help="draw as the model says, not as the released one does")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with model_directory(options.model) as directory:
        checkpoint = load(directory)
        sampling = checkpoint.config.sampling if options.own else SamplingConfig()
        found = measure(checkpoint, sampling, options.seeds)
    figures = {"benchmark": "repetition", "model": model_name(options.model), "host": host(), **found}
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{found['sentences']} sentences by each rule")
    names = list(found[RULES[0]])
    print(" " * 18 + "".join(f"{rule:>10}" for rule in RULES))
    for name in names:
        print(f"{name:18}" + "".join(f"{found[rule][name]:>10}" for rule in RULES))


if __name__ == "__main__":
    main()
