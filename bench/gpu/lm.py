"""The language model on a GPU: is it right, and how fast is it?

    python -m bench.gpu.lm [--dtype bfloat16] [--only kernels,logits,step] [--tiny]

Random weights of the released sizes. Sections, each of which may fail without hiding the others:

    kernels    every kernel against its twin in float32 on the CPU
    logits     a text and 40 ids after it, alone, in company and with guesses, against the runner for a CPU in float32
    same       ids of many seeds with true, false and no guesses: shares that agree (rounding decides where they do not)
    step       ms of a step by streams and guesses: on the device alone, from call to result, and the host's share
    host       ms that a step of 32 streams costs the host, on whatever machine, and what of it is which part
    choice     ms of a step with a draft of the published shape, by streams and guesses; ids a second if a step of all
               guesses says 2.98 ids, and 1.5; what is chosen, and whether it is the best
    read       ms of reading a text of 128 rows, alone and beside 31 streams that speak
    linear     us of the layers' fused linear layers of few rows, and of torch's with what follows apart
    attention  us of one layer's attention by shares of the keys
    sampler    us of sampling
    profile    which kernels a step of one stream spends its time in

Guesses cost nothing but in `choice`: they are looked up. `bench.gpu.draft` times the draft network. `--tiny` uses
small sizes, which also run on a CPU.
"""

import argparse
import copy
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bench.gpu import sections
from bench.gpu.timing import elapsed_us, launch_us
from oscine_engine.checkpoint import draft
from oscine_engine.config import LMConfig, SamplingConfig, TextRules
from oscine_engine.lm import noise
from oscine_engine.lm.drafter import PackedDraft
from oscine_engine.lm.graphed import GraphedLM
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.sampling import NO_ID, mask_logits, sample
from oscine_engine.lm.speculation import lots
from oscine_engine.lm.stream import LMStream
from oscine_engine.runtime.kernels import lm as twin
from oscine_engine.runtime.kernels import lm_lines
from oscine_engine.runtime.pages import PagePool
from oscine_engine.scheduler.costs import Curve, GuessCosts
from oscine_engine.scheduler.guesses import ids_a_step

FULL = LMConfig()
TINY = LMConfig(
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=96,
    vocab_size=300,
    speech_token_size=200,
    decoder_rows=210,
)
RULES = TextRules(min_token_text_ratio=20, max_token_text_ratio=20)
PAGE_TOKENS = 256
GUESSES = 7
POSITIONS = 2048
KERNEL_ERROR = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
LOGIT_ERROR = {torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.1}
"""Largest root mean square of the error that passes, in shares of the logits' own deviation."""
TARGETS = {(1, 1): 0.9, (1, 8): 1.1}
"""ms a step by streams and rows of each."""


class Known:
    """Guesses the ids of a table, whatever was said; `wrong` is added to them. Fit for a CUDA graph."""

    layers = (0,)

    def __init__(self, table: Tensor, wrong: int = 0) -> None:
        self.count = GUESSES
        self._table = table
        self._wrong = wrong
        self._places = torch.arange(GUESSES, device=table.device)

    def remember(self, features: Tensor, positions: Tensor, slots: Tensor) -> None:
        pass

    def propose(self, *given: Tensor) -> Tensor:
        said, count = given[3], given[7]
        places = said[:, None] + self._places[:count]
        return self._table[places % len(self._table)] + self._wrong


class Bench:
    def __init__(self, config: LMConfig, device: torch.device, dtype: torch.dtype) -> None:
        self.config, self.device, self.dtype = config, device, dtype
        self.sampling = SamplingConfig()
        self.failures: list[str] = []
        torch.manual_seed(3)
        self.lm = SpeechLM(config).eval()
        with torch.no_grad():
            self.lm.llm_decoder.weight.mul_(5)
        self.lm_there = copy.deepcopy(self.lm).to(device)
        random = torch.Generator().manual_seed(4)
        self.table = torch.randint(0, config.speech_token_size, (64,), generator=random)
        self.table_there = self.table.to(device)

    def check(self, name: str, good: bool) -> str:
        if not good:
            self.failures.append(name)
        return "" if good else "   <-- FAILED"

    def runner(self, dtype: torch.dtype, streams: int, drafter: Any = None, **more: Any) -> GraphedLM:
        pool = PagePool(streams * 4 + 8, page_shape(self.config, PAGE_TOKENS), dtype=dtype, device=self.device)
        return GraphedLM(
            copy.deepcopy(self.lm_there).to(dtype),
            pool,
            self.sampling,
            RULES,
            max_streams=streams,
            max_positions=POSITIONS,
            drafter=drafter,
            **more,
        )

    def begun(self, runner: LMRunner, seed: int, text: int = 30, rows: int = 90) -> LMStream:
        ids = [(seed * 31 + i * 7) % self.config.vocab_size for i in range(rows + text)]
        stream = runner.open(Prompt(tuple(ids[:rows])), seed=seed)
        stream.add_text(ids[rows:])
        stream.end_text()
        return stream

    def elapsed(self, work: Callable[[], object]) -> float:
        """us of one call."""
        return elapsed_us(work, self.device, times=10)

    # --- kernels

    def kernels(self) -> None:
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for name, ours, expected in self._kernel_cases(dtype):
                error = _error(ours.float().cpu(), expected.float())
                print(f"  {name:32} {str(dtype)[6:]:9} error {error:.1e}", end="")
                print(self.check(f"kernel {name}", error < KERNEL_ERROR[dtype]))
        self._check_sampler()

    def _kernel_cases(self, dtype: torch.dtype) -> list[tuple[str, Tensor, Tensor]]:
        config, there = self.config, self.device
        random = torch.Generator().manual_seed(5)

        def drawn(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=random).to(dtype)

        hidden, wide = config.hidden_size, config.intermediate_size
        x, y, weight = drawn(37, hidden).float(), drawn(37, hidden), drawn(hidden)
        gated = drawn(37, 2 * wide)
        cases = [
            ("add_norm", twin.add_norm(x.to(there, copy=True), y.to(there), weight.to(there), 1e-6),
             twin.add_norm(x.clone(), y.float(), weight.float(), 1e-6)),
            ("silu_times", twin.silu_times(gated.to(there)), twin.silu_times(gated.float())),
        ]  # fmt: skip
        for most, lengths in ((1, [(700, 1), (5, 1), (300, 1)]), (8, [(300, 8), (40, 3), (0, 8)]), (16, [(0, 120)])):
            for splits in (1, 4):
                cases += self._attention_case(dtype, most, lengths, splits, drawn)
        return cases

    def _attention_case(
        self, dtype: torch.dtype, most: int, lengths: list[tuple[int, int]], splits: int, drawn: Callable[..., Tensor]
    ) -> list[tuple[str, Tensor, Tensor]]:
        config, there = self.config, self.device
        heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        pages = 4 * len(lengths)
        cache = drawn(pages + 1, 2, kv_heads, PAGE_TOKENS, width)
        rows = sum(count for _, count in lengths)
        qkv = drawn(rows, (heads + 2 * kv_heads) * width)
        angles = torch.arange(POSITIONS)[:, None] * 10000.0 ** -(torch.arange(width // 2) * 2 / width)
        tables = 1 + torch.arange(pages, dtype=torch.int32).flip(0).view(len(lengths), 4)
        positions, slots, tiles, row = [], [], [], 0
        for sequence, (start, count) in enumerate(lengths):
            for at in range(start, start + count):
                positions.append(at)
                slots.append(int(tables[sequence, at // PAGE_TOKENS]) * PAGE_TOKENS + at % PAGE_TOKENS)
            cuts = range(0, count, most)
            tiles += [(row + first, min(most, count - first), start + first, sequence) for first in cuts]
            row += count
        numbers = torch.tensor(tiles, dtype=torch.int32).T.contiguous()
        where, slot = torch.tensor(positions), torch.tensor(slots)
        shape = twin.Tiles(*numbers, tables=tables, most=most, splits=splits)
        far = twin.Tiles(*numbers.to(there), tables=tables.to(there), most=most, splits=splits)
        turns = (angles.cos(), angles.sin())
        moved, caches = [part.to(there) for part in turns], (cache.to(there), cache.float())
        twin.write(qkv.to(there), where.to(there), slot.to(there), *moved, caches[0], heads)
        twin.write(qkv.float(), where, slot, *turns, caches[1], heads)
        ours = twin.attend(qkv.to(there), where.to(there), *moved, caches[0], heads, far)
        wanted = twin.attend(qkv.float(), where, *turns, caches[1], heads, shape)
        name = f"tiles of {most}, {splits} shares"
        return [(f"write, {name}", caches[0], caches[1]), (f"attend, {name}", ours, wanted)]

    def _check_sampler(self) -> None:
        if self.device.type != "cuda":
            return
        rule, speech_ids, count = self.sampling, self.config.speech_token_size, 512
        random = torch.Generator().manual_seed(6)
        logits = torch.randn(count, self.config.decoder_rows, generator=random) * torch.linspace(0.5, 6, count)[:, None]
        seeds, places = torch.arange(count) * 7919 - 2**62, torch.arange(count) % 13
        ending, history = torch.arange(count) % 2 == 0, torch.full((count, rule.win_size), NO_ID)
        history[::2, -4:] = logits[::2, :speech_ids].argmax(-1, keepdim=True)
        lines = torch.zeros(count, lm_lines.PAST + rule.win_size, dtype=torch.int64)
        lines[:, lm_lines.SEED], lines[:, lm_lines.SAID] = seeds, places
        lines[:, lm_lines.ENDS], lines[:, lm_lines.PAST :] = torch.where(ending, 0, 1 << 62), history
        how = lm_lines.Rule(rule, 1.0, speech_ids)
        ids = lm_lines.sample(logits.to(self.device), lines.to(self.device), rule.win_size, how).cpu()[:, 0]
        expected = sample(mask_logits(logits, speech_ids, ending), history, noise.keys(seeds, places), rule)
        same = int((ids == expected).sum())
        print(f"  sampler: {same} of {count} ids are the CPU's{self.check('sampler', same >= count - 2)}")

    # --- logits

    def logits(self) -> None:
        start = time.perf_counter()
        pool = PagePool(4, page_shape(self.config, PAGE_TOKENS))
        wanted = self._heard(LMRunner(self.lm, pool, self.sampling, RULES), 1)[0]
        print(f"  reference on the CPU: {time.perf_counter() - start:.1f} s, logits of deviation {wanted.std():.2f}")
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for guesses, wrong in ((False, 0), (True, 0), (True, 1)):
                drafter = Known(self.table_there, wrong) if guesses else None
                runner = self.runner(dtype, 4, drafter)
                for count in (1, 3):
                    got = self._heard(runner, count)
                    error = max(_error(one, wanted) for one in got)
                    how = ("false guesses" if wrong else "true guesses") if guesses else "no guesses"
                    good = self.check(f"logits {dtype} {how}", error < LOGIT_ERROR[dtype])
                    print(f"  {str(dtype)[6:]:9} {count} streams, {how:14} error {error:.1e}{good}")

    def _heard(self, runner: LMRunner, count: int) -> list[Tensor]:
        """Logits [ids, V] of each stream while it says the table's ids, whatever it would have said."""
        streams = [self.begun(runner, 1) for _ in range(count)]
        heard: list[dict[int, Tensor]] = [{} for _ in streams]
        speech_ids, table = self.config.speech_token_size, self.table_there

        def choose(logits: Tensor, draws: list[Any]) -> list[int]:
            for row, draw in zip(logits, draws, strict=True):
                heard[0][len(draw.said)] = row[:speech_ids].float().cpu()
            return [int(self.table[len(draw.said) % len(self.table)]) for draw in draws]

        def draw(logits: Tensor, lines: Tensor) -> Tensor:
            rows = logits.view(len(lines), -1, logits.shape[1])[:, :, :speech_ids].float().cpu()
            first = lines[:, lm_lines.SAID]
            for stream, (said, found) in enumerate(zip(first.tolist()[: len(streams)], rows, strict=False)):
                held = int(lines[stream, lm_lines.HELD])
                # Behind a false guess the model was told something else.
                for place, row in enumerate(found[: 1 + held if self._true(runner) else 1]):
                    heard[stream].setdefault(said + place, row)
            places = first[:, None] + torch.arange(rows.shape[1], device=table.device)
            return table[places % len(table)]

        patched = "_draw" if isinstance(runner, GraphedLM) else "choose"
        setattr(runner, patched, draw if isinstance(runner, GraphedLM) else choose)
        try:
            while len(streams[0].tokens) < 41:
                runner.step(streams)
        finally:
            delattr(runner, patched)
            for stream in streams:
                runner.close(stream)
        return [torch.stack([found[place] for place in range(41)]) for found in heard]

    def _true(self, runner: LMRunner) -> bool:
        drafter = runner.drafter if isinstance(runner, GraphedLM) else None
        return isinstance(drafter, Known) and not drafter._wrong

    # --- same

    def same(self) -> None:
        spoken = {}
        for how, drafter in (
            ("no guesses", None),
            ("guesses of one table", Known(self.table_there)),
            ("other guesses", Known(self.table_there.flip(0))),
        ):
            runner = self.runner(self.dtype, 16, drafter)
            runner.capture()
            streams = [self.begun(runner, seed, text=3, rows=20) for seed in range(16)]
            while any(stream.wants_step for stream in streams):
                runner.step(streams)
            spoken[how] = [stream.tokens for stream in streams]
            assert all(stream.failure is None for stream in streams)
        first = spoken["no guesses"]
        for how, said in spoken.items():
            alike = sum(
                a == b for ours, theirs in zip(said, first, strict=True) for a, b in zip(ours, theirs, strict=False)
            )
            total, whole = sum(map(len, first)), sum(a == b for a, b in zip(said, first, strict=True))
            print(f"  {how:22} {alike / total:.1%} of {total} ids, {whole} of {len(first)} sentences the same")

    # --- step

    def step(self) -> None:
        counts = (1, 2) if self.config is TINY else (1, 8, 32, 64)
        for rows in (1, 1 + GUESSES):
            drafter = Known(self.table_there) if rows > 1 else None
            runner = self.runner(self.dtype, counts[-1], drafter, **({"forced_acceptance": 1.0} if drafter else {}))
            start = time.perf_counter()
            runner.capture()
            print(f"  captured in {time.perf_counter() - start:.1f} s")
            for count in counts:
                streams = [self.begun(runner, seed) for seed in range(count)]
                for stream in streams:
                    runner.step([stream])
                walls = [self._timed(partial(runner.step, streams)) for _ in range(60)]
                device = launch_us(runner._saying(count, rows - 1).run, self.device) / 1e3
                host = self._host(runner, streams, rows - 1)
                wall, target = statistics.median(walls), None if self.config is TINY else TARGETS.get((count, rows))
                good = "" if target is None else self.check(f"{count} x {rows}", device < target)
                print(
                    f"  {count:3} streams x {rows} rows: {device:7.3f} ms on the device, {wall:7.3f} in all, host",
                    end="",
                )
                print(f" {host:6.3f}{'' if target is None else f'; target {target}'}{good}", flush=True)
                for stream in streams:
                    runner.close(stream)

    def _timed(self, work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - start)

    def _host(self, runner: GraphedLM, streams: list[LMStream], guesses: int) -> float:
        """ms of a step but for what it waits for: the same with nothing launched, each stream saying one id."""
        tick = runner._saying(len(streams), guesses)
        run, wait = tick.run, runner._graphs.wait
        tick.outputs.host["ids"][:], tick.outputs.host["tally"][:] = 5, (1, guesses)
        tick.run = runner._graphs.wait = lambda: None  # type: ignore[method-assign]
        try:
            return statistics.median(self._timed(lambda: runner.step(streams, guesses)) for _ in range(40))
        finally:
            tick.run, runner._graphs.wait = run, wait  # type: ignore[method-assign]

    # --- host

    def host(self) -> None:
        for rows in (1, 1 + GUESSES):
            drafter = Known(self.table_there) if rows > 1 else None
            runner = self.runner(self.dtype, 32, drafter, **({"forced_acceptance": 1.0} if drafter else {}))
            streams = [self.begun(runner, seed) for seed in range(32)]
            runner.step(streams)
            runner.step(streams)
            whole = self._host(runner, streams, rows - 1)
            tally = np.array([[3, 7]] * 32)
            parts = {
                "slots": lambda: [stream.slot for stream in streams],  # noqa: B023
                "tally": partial(runner.acceptance.note, tally),
                "rules": lambda: [stream.machine.num_pending for stream in streams],  # noqa: B023
            }
            line = ", ".join(f"{name} {self._middle(part):.3f}" for name, part in parts.items())
            print(f"  32 streams x {rows} rows: {whole:.3f} ms of the host's, nothing launched; of it {line}")
            tick = runner._saying(32, rows - 1)
            if self.device.type == "cuda":
                tick.capture(runner._graphs)
                print(f"    launching {self._middle(tick.run):.3f} ms, a mark {self._middle(runner._graphs.mark):.3f}")
                torch.cuda.synchronize()

    def _middle(self, work: Callable[[], object]) -> float:
        return statistics.median(self._timed(work) for _ in range(40))

    # --- choice

    def choice(self) -> None:
        counts = (1, 2) if self.config is TINY else (1, 8, 32, 64)
        most, numbers = counts[-1], (0, 1, 3, GUESSES)
        pool = PagePool(most * 4 + 8, page_shape(self.config, PAGE_TOKENS), dtype=self.dtype, device=self.device)
        lm = copy.deepcopy(self.lm_there).to(self.dtype)
        network = draft.random(self.config, seed=1, device=self.device, dtype=self.dtype)
        drafter = PackedDraft(network, lm, pool, self.sampling, max_streams=most, max_positions=POSITIONS)
        runner = GraphedLM(
            lm,
            pool,
            self.sampling,
            RULES,
            max_streams=most,
            max_positions=POSITIONS,
            drafter=drafter,
            choices=numbers,
            forced_acceptance=1.0,
        )
        start = time.perf_counter()
        for count in counts:
            for guesses in numbers:
                runner._saying(count, guesses).capture(runner._graphs)
        print(f"  captured {len(counts) * len(numbers)} graphs in {time.perf_counter() - start:.1f} s")
        took: dict[int, list[tuple[int, float]]] = {guesses: [] for guesses in numbers}
        for count in counts:
            for guesses in numbers:
                wall, device, _ = self._said(runner, count, guesses)
                took[guesses].append((count, wall))
                print(f"  {count:3} streams, {guesses} guesses: {device:7.3f} ms on the device, {wall:7.3f} in all")
        curves = tuple((guesses, Curve.through([(c, ms / 1e3) for c, ms in took[guesses]])) for guesses in numbers)
        for mean in (2.98, 1.5):
            assert runner._lots is not None
            table = lots(mean, GUESSES)
            runner._lots.copy_(torch.from_numpy(table))
            reached = [int((table >= place).sum()) for place in range(GUESSES + 1)]
            chances = tuple(more / max(1, fewer) for fewer, more in itertools.pairwise(reached))
            costs = GuessCosts(curves, chances)
            for count in counts:
                rates = {}
                for guesses in numbers:
                    wall, _, ids = self._said(runner, count, guesses)
                    rates[guesses] = count * ids / wall * 1e3
                chosen, line = costs.best(count), ", ".join(f"{g}: {rate:7.0f}" for g, rate in rates.items())
                best = self.device.type != "cuda" or rates[chosen] > 0.9 * max(rates.values())
                good = self.check(f"choice for {count} at {mean}", best)
                wanted = ids_a_step(chosen, chances)
                print(f"  {mean} ids: {count:3} streams say {line} ids a second; chosen {chosen} ({wanted:.2f}){good}")

    def _said(self, runner: GraphedLM, count: int, guesses: int) -> tuple[float, float, float]:
        """(ms in all, ms on the device, ids a stream) of a step."""
        steps = 40 if count > 1 else 240
        streams = [self.begun(runner, seed, text=60) for seed in range(count)]
        try:
            runner.step(streams, guesses)
            runner.step(streams, guesses)
            before = sum(len(stream.tokens) for stream in streams)
            walls = [self._timed(partial(runner.step, streams, guesses)) for _ in range(steps)]
            ids = sum(len(stream.tokens) for stream in streams) - before
            device = launch_us(runner._saying(count, guesses).run, self.device) / 1e3
        finally:
            for stream in streams:
                runner.close(stream)
        return statistics.median(walls), device, ids / steps / count

    # --- read

    def read(self) -> None:
        count = 2 if self.config is TINY else 31
        for rows in (1, 1 + GUESSES):
            drafter = Known(self.table_there) if rows > 1 else None
            runner = self.runner(self.dtype, count + 1, drafter, **({"forced_acceptance": 1.0} if drafter else {}))
            runner.capture()
            speaking = [self.begun(runner, seed) for seed in range(count)]
            for stream in speaking:
                runner.step([stream])
            for beside in (0, count):
                walls = []
                for seed in range(12):
                    stream = self.begun(runner, seed, text=36)
                    walls.append(self._timed(partial(runner.step, [*speaking[:beside], stream])))
                    runner.close(stream)
                print(f"  a text of 128 rows beside {beside:2} streams x {rows}: {statistics.median(walls):7.3f} ms")

    # --- linear

    def linear(self) -> None:
        if self.device.type != "cuda":
            return
        from oscine_engine.runtime.kernels import lm_triton

        config, there = self.config, self.device
        hidden, wide, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
        kv_heads, width = config.num_key_value_heads, config.head_dim
        random = torch.Generator(device=there).manual_seed(8)

        def drawn(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=random, device=there).to(self.dtype)

        # Enough layers that weights do not stay in the cache, as in the model.
        layers = range(10)
        up = [drawn(2 * wide, hidden) * hidden**-0.5 for _ in layers]
        outputs = (heads + 2 * kv_heads) * width
        qkv, bias = [drawn(outputs, hidden) * hidden**-0.5 for _ in layers], drawn(outputs)
        out, down = [drawn(hidden, heads * width) for _ in layers], [drawn(hidden, wide) for _ in layers]
        cache = drawn(1, 2, kv_heads, PAGE_TOKENS, width)
        turns = torch.zeros(POSITIONS, width // 2, device=there)
        few = lm_triton._FEW_ROWS
        for rows in (1, 2, 8, 16, 32, 64, 128):
            x, seen, acted = drawn(rows, hidden), drawn(rows, heads * width), drawn(rows, wide)
            at = torch.arange(rows, device=there)
            line, results = f"  {rows:3} rows:", []
            for ours in (True, False):
                lm_triton._FEW_ROWS = 128 if ours else 0
                both = (
                    lambda x=x: [twin.gated(x, weight) for weight in up],
                    lambda x=x, at=at: [twin.project(x, w, bias, at, at, turns, turns, cache, heads) for w in qkv],
                )
                results.append(both[0]()[0])
                line += f" {'ours' if ours else '; torch'} up {self.elapsed(both[0]) / 10:5.1f}"
                line += f" qkv {self.elapsed(both[1]) / 10:5.1f}"
            lm_triton._FEW_ROWS = few
            line += f"; out {self.elapsed(lambda seen=seen: [F.linear(seen, weight) for weight in out]) / 10:5.1f}"  # type: ignore[misc]
            line += f" down {self.elapsed(lambda acted=acted: [F.linear(acted, weight) for weight in down]) / 10:5.1f}"  # type: ignore[misc]
            error = _error(results[0].float(), results[1].float())
            print(f"{line} us; they differ by {error:.1e}{self.check(f'linear {rows}', error < 3e-2)}", flush=True)

    # --- attention

    def attention(self) -> None:
        config, there = self.config, self.device
        heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        angles = torch.zeros(POSITIONS, width // 2, device=there)
        for most in (1, 8):
            for count in (1, 8, 32, 64):
                for length in (120, 500):
                    cache = torch.zeros(4 * count, 2, kv_heads, PAGE_TOKENS, width, dtype=self.dtype, device=there)
                    qkv = torch.zeros(count * most, (heads + 2 * kv_heads) * width, dtype=self.dtype, device=there)
                    numbers = torch.arange(count, dtype=torch.int32, device=there)
                    held, start = torch.full_like(numbers, most), torch.full_like(numbers, length)
                    tables = torch.arange(4 * count, dtype=torch.int32, device=there).view(count, 4)
                    where = torch.full((count * most,), length, device=there)
                    line = f"  {count:2} streams x {most} rows, {length} before:"
                    for splits in (1, 2, 4, 8):
                        tiles = twin.Tiles(numbers * most, held, start, numbers, tables, most=most, splits=splits)
                        given = (qkv, where, angles, angles, cache, heads, tiles)
                        line += f" {splits}: {self.elapsed(partial(twin.attend, *given)):6.1f}"
                    print(line + " us by shares", flush=True)

    # --- sampler

    def sampler(self) -> None:
        if self.device.type != "cuda":
            return
        rule, speech_ids = self.sampling, self.config.speech_token_size
        how = lm_lines.Rule(rule, 1.0, speech_ids)
        for count in (1, 8, 64, 512):
            for spread in (1.0, 4.0):
                logits = spread * torch.randn(count, self.config.decoder_rows, device=self.device)
                lines = torch.zeros(count, lm_lines.PAST + rule.win_size, dtype=torch.int64, device=self.device)
                lines[:, lm_lines.SEED] = torch.arange(count, device=self.device)
                lines[:, lm_lines.ENDS], lines[:, lm_lines.PAST :] = 1 << 62, NO_ID
                took = self.elapsed(partial(lm_lines.sample, logits, lines, rule.win_size, how))
                print(f"  {count:3} rows of deviation {spread}: {took:6.1f} us")

    # --- profile

    def profile(self) -> None:
        if self.device.type != "cuda":
            return
        for rows in (1, 1 + GUESSES):
            runner = self.runner(self.dtype, 1, Known(self.table_there) if rows > 1 else None)
            runner.capture()
            stream = self.begun(runner, 1)
            runner.step([stream])
            runner.step([stream])
            run = runner._saying(1, rows - 1).run
            run()
            torch.cuda.synchronize()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
                for _ in range(5):
                    run()
                torch.cuda.synchronize()
            found = sorted(profiled.key_averages(), key=lambda event: -event.self_device_time_total)
            total = sum(event.self_device_time_total for event in found)
            calls = sum(event.count for event in found)
            print(f"  {rows} rows: kernels take {total / 5:.0f} us in {calls / 5:.0f} launches")
            for event in found[:14]:
                took = event.self_device_time_total
                print(f"    {took / 5:7.1f} us {event.count / 5:5.0f} x {took / event.count:5.2f}  {event.key[:90]}")


SECTIONS = ("kernels", "logits", "same", "step", "host", "choice", "read", "linear", "attention", "sampler", "profile")


def _error(ours: Tensor, wanted: Tensor) -> float:
    """Root mean square of the difference in shares of what is wanted."""
    return float((ours - wanted).square().mean().sqrt() / wanted.square().mean().sqrt())


def _section(bench: Bench, name: str) -> None:
    getattr(bench, name)()


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float16", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by commas")
    parser.add_argument("--tiny", action="store_true", help="small sizes")
    options = parser.parse_args()
    config = TINY if options.tiny else FULL
    bench = Bench(config, torch.device(options.device), getattr(torch, options.dtype))
    with torch.inference_mode():
        chosen = ((name, partial(_section, bench, name)) for name in options.only.split(","))
        sys.exit(sections.run(chosen, bench.failures))


if __name__ == "__main__":
    main()
