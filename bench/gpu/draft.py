"""The draft network on a GPU: is it right, and what does it cost?

    python -m bench.gpu.draft [--dtype float32,bfloat16] [--only states,guesses,time,profile] [--tiny]

A random draft of the published shape for a random target of the released sizes. Sections:

    states   final states of a block against the same network in float32 on the CPU, alone and among others
    guesses  ids guessed: the same as on the CPU in float32, the same in a graph and without one
    time     ms of remembering a step's rows and of guessing, each as a graph, by streams; and both ways of drawing
    profile  which kernels guessing spends its time in

`--tiny` uses small sizes, which also run on a CPU.
"""

import argparse
import copy
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from bench.gpu import sections
from bench.gpu.timing import launch_us
from oscine_engine.checkpoint import draft
from oscine_engine.config import LMConfig, SamplingConfig
from oscine_engine.lm.draft import DraftNetwork
from oscine_engine.lm.drafter import PackedDraft
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import page_shape
from oscine_engine.runtime.graphs import Graphs
from oscine_engine.runtime.pages import PagePool

FULL = replace(LMConfig(), vocab_size=2048)
"""The released sizes but for the text ids, of which a draft sees none."""
TINY = replace(FULL, hidden_size=64, num_hidden_layers=6, num_attention_heads=4, intermediate_size=96, vocab_size=300)
TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
STATE_ERROR = {torch.float32: 2e-3, torch.float16: 1e-2, torch.bfloat16: 6e-2}
"""Largest root mean square of the error that passes; a state's own is 1."""
PAGE_TOKENS = 256
CONTEXTS = (1, 100, 255, 256, 300, 511)


class Case:
    """Contexts of some streams, remembered by a drafter, and all that `propose` is told."""

    def __init__(
        self,
        bench: "Bench",
        contexts: tuple[int, ...],
        device: torch.device,
        dtype: torch.dtype,
        truncate: bool = True,
    ) -> None:
        generator = torch.Generator().manual_seed(7)
        self.drafter = bench.drafter(device, dtype, len(contexts), truncate)
        config, window = bench.network.config, bench.sampling.win_size
        self.features = [
            torch.randn(length, config.target_hidden_size * len(config.target_layer_ids), generator=generator)
            for length in contexts
        ]
        each = 4
        for stream, features in enumerate(self.features):
            at = torch.arange(len(features))
            slots = stream * each * PAGE_TOKENS + at
            self.drafter.remember(features.to(device, dtype), at.to(device), slots.to(device))
        count, speech = len(contexts), bench.target.speech_token_size
        said = torch.randint(0, speech, (count, window), generator=generator)
        lengths = torch.tensor(contexts)
        tables = torch.arange(count * each, dtype=torch.int32).view(count, each)
        given = (said[:, -1], lengths, torch.arange(count) * 10**11 - 3, torch.full((count,), 40))
        self.given = [part.to(device) for part in (*given, said, tables, lengths.int())]

    def propose(self) -> Tensor:
        return self.drafter.propose(*self.given)


class Bench:
    def __init__(self, target: LMConfig, device: torch.device, tiny: bool) -> None:
        self.target, self.device, self.tiny = target, device, tiny
        self.failures: list[str] = []
        self.sampling = SamplingConfig()
        self.network: DraftNetwork = draft.random(target, seed=1)
        torch.manual_seed(2)
        # A draft takes the embeddings from its target; layers would only take time to draw.
        self.lm = SpeechLM(replace(target, num_hidden_layers=1)).eval().requires_grad_(False)
        self.lm.config = target
        self.lm.speech_embedding.weight.normal_()

    def drafter(self, device: torch.device, dtype: torch.dtype, streams: int, truncate: bool) -> PackedDraft:
        shape = page_shape(replace(self.target, num_hidden_layers=1), PAGE_TOKENS)
        pool = PagePool(4 * streams, shape, dtype=dtype, device=device)
        network = copy.deepcopy(self.network).to(dtype)
        return PackedDraft(
            network, self.lm, pool, self.sampling, max_streams=streams, max_positions=1024, truncate=truncate
        )

    def check(self, name: str, good: bool) -> str:
        if not good:
            self.failures.append(name)
        return "" if good else "  FAILED"

    def _states(self, case: Case, rows: list[int]) -> Tensor:
        """States [B, count, hidden] of the blocks of some streams, seen where the ids are drawn from them."""
        seen: list[Tensor] = []
        draw = case.drafter._draw

        def keep(hidden: Tensor, *rest: Tensor) -> Tensor:
            seen.append(hidden.float().cpu())
            return draw(hidden, *rest)

        case.drafter._draw = keep  # type: ignore[method-assign]
        case.drafter.propose(*(part[rows].contiguous() for part in case.given))
        case.drafter._draw = draw  # type: ignore[method-assign]
        return seen[0]

    def states(self, dtype: torch.dtype) -> None:
        everyone = list(range(len(CONTEXTS)))
        wanted = self._states(Case(self, CONTEXTS, torch.device("cpu"), torch.float32), everyone)
        case = Case(self, CONTEXTS, self.device, dtype)
        together = self._states(case, everyone)
        for stream, length in enumerate(CONTEXTS):
            alone = self._states(case, [stream])[0]
            errors = [float((found - wanted[stream]).square().mean().sqrt()) for found in (together[stream], alone)]
            good = self.check(f"states after {length} {dtype}", max(errors) < STATE_ERROR[dtype])
            print(f"  {length:4} rows before: error {errors[0]:.1e} among others, {errors[1]:.1e} alone{good}")

    def guesses(self, dtype: torch.dtype) -> None:
        for truncate in (False, True):
            wanted = Case(self, CONTEXTS, torch.device("cpu"), torch.float32, truncate).propose()
            case = Case(self, CONTEXTS, self.device, dtype, truncate)
            launched = case.propose()
            out = torch.zeros_like(launched)
            step = Graphs(self.device).capture(lambda case=case, out=out: out.copy_(case.propose()))
            step()
            same = float((launched.cpu() == wanted).float().mean())
            good = self.check(f"guesses {dtype}", same == 1 or dtype != torch.float32)
            graph = self.check(f"guesses in a graph {dtype}", torch.equal(out, launched))
            how = "from a nucleus" if truncate else "from all ids"
            print(f"  {how}: {100 * same:.0f} % as on the CPU in float32{good}; in a graph the same{graph}")

    def time(self, dtype: torch.dtype) -> None:
        for streams in (1, 2) if self.tiny else (1, 8, 32, 64):
            took = []
            for truncate in (False, True):
                case = Case(self, (200,) * streams, self.device, dtype, truncate)
                took.append(self._ms(case.propose))
            rows = streams * case.drafter.config.block_size
            features = torch.cat(case.features)[:1].repeat(rows, 1).to(self.device, dtype)
            at = torch.arange(rows, device=self.device) % 200
            remember = self._ms(lambda case=case, features=features, at=at: case.drafter.remember(features, at, at))
            print(
                f"  {streams:3} streams: remember {rows:3} rows {remember:.3f} ms; guess "
                f"{took[0]:.3f} ms from all ids, {took[1]:.3f} ms from a nucleus",
                flush=True,
            )

    def _ms(self, call: Callable[[], object]) -> float:
        step = Graphs(self.device).capture(lambda: (call(), None)[1])
        step()
        return statistics.median(launch_us(step, self.device, 10) for _ in range(5)) / 1e3

    def profile(self, dtype: torch.dtype) -> None:
        for streams in (2,) if self.tiny else (1, 32):
            case = Case(self, (200,) * streams, self.device, dtype)
            case.propose()
            activity = torch.profiler.ProfilerActivity
            wanted = activity.CUDA if self.device.type == "cuda" else activity.CPU
            with torch.profiler.profile(activities=[wanted]) as profile:
                case.propose()
                if self.device.type == "cuda":
                    torch.cuda.synchronize()
            rows = [(row.self_device_time_total, row.count, row.key) for row in profile.key_averages()]
            rows.sort(reverse=True)
            print(
                f"  {streams} streams: {sum(row[0] for row in rows) / 1e3:.3f} ms in {sum(r[1] for r in rows)} kernels"
            )
            for total, calls, name in rows[:12]:
                print(f"    {total:8.1f} us  {calls:4} times {total / max(1, calls):6.1f} us  {name[:90]}")


def _section(bench: Bench, section: str, name: str) -> None:
    getattr(bench, section)(TYPES[name])


SECTIONS = ("states", "guesses", "time", "profile")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.draft", description=__doc__.split("\n")[0])
    parser.add_argument("--dtype", default="float32,bfloat16", help=f"of {', '.join(TYPES)}, separated by commas")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--tiny", action="store_true", help="small sizes, also on a CPU")
    parsed = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not parsed.tiny:
        parser.error("no GPU here; --tiny runs on a CPU")
    torch.set_grad_enabled(False)
    bench = Bench(TINY if parsed.tiny else FULL, device, parsed.tiny)
    chosen = (
        (f"{section}, {name}", partial(_section, bench, section, name))
        for section in parsed.only.split(",")
        for name in parsed.dtype.split(",")
    )
    return sections.run(chosen, bench.failures)


if __name__ == "__main__":
    sys.exit(main())
