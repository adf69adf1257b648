"""The flow on a GPU: is it right, and how fast is it?

    python -m bench.gpu.flow [--dtype float16] [--kept float8_e4m3fn] [--only mel,chunk] [--tiny]

Random weights of the released sizes. Sections, each of which may fail without hiding the others:

    kernels    every kernel against its twin in float32 on the CPU
    mel        a whole utterance in float32 and both 16-bit types against the runner for a CPU
    chunk      ms of a chunk (all Euler steps) by streams and seconds of context; host time of a step
    attention  one layer's attention by shares of the keys, beside torch's own over contiguous keys
    choices    chunks with other constants than the kernels have
    linear     the linear layers of a block, by rows
    apart      kernels and chunks again, with no kernel started before the one before it ends
    profile    which kernels a chunk spends its time in, early and late
    tiles      the linear layers of few rows and the attention under other constants than theirs

`--tiny` uses small sizes, which also run on a CPU.
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.gpu import sections
from bench.gpu.timing import elapsed_us
from oscine_engine.config import CFMConfig, DiTConfig, FlowConfig
from oscine_engine.flow.graphed import GraphedFlow
from oscine_engine.flow.network import Flow
from oscine_engine.flow.runner import FlowRunner
from oscine_engine.flow.slotted import Batch
from oscine_engine.flow.stream import FlowPrefix, FlowStream
from oscine_engine.flow.streams import GUIDANCE_ROWS, FlowStreams, page_shape
from oscine_engine.runtime.kernels import flow as kernels
from oscine_engine.runtime.pages import PagePool

FULL = FlowConfig()
TINY = FlowConfig(cfm=CFMConfig(n_timesteps=3), dit=DiTConfig(dim=64, depth=2, heads=2, dim_head=32, conv_pos_groups=4))
ALL_TYPES = (torch.float32, torch.float16, torch.bfloat16)
SIXTEEN = {"float16": torch.float16, "bfloat16": torch.bfloat16}
MEL_ERROR = {torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.15}
"""Largest root mean square of the error that passes, in shares of the mel's own."""
TARGETS = {(1, 5): 11.0, (8, 5): 18.0, (32, 5): 49.0}
"""ms a chunk by streams and seconds of context."""
STRETCH = {1: 1.1, 8: 1.3}
"""Most that 30 s of context may cost over 5 s, by streams."""


class Bench:
    def __init__(
        self,
        config: FlowConfig,
        device: torch.device,
        dtype: torch.dtype,
        tiny: bool,
        kept: torch.dtype | None = None,
    ) -> None:
        """kept: the type of keys and values in pages, if not `dtype` like all else."""
        self.config, self.device, self.dtype, self.tiny = config, device, dtype, tiny
        self.kept = dtype if kept is None else kept
        self.steps = config.cfm.n_timesteps
        self.failures: list[str] = []
        torch.manual_seed(3)
        with torch.device(device):
            self.flow = Flow(config).eval()

    def check(self, name: str, good: bool) -> str:
        if not good:
            self.failures.append(name)
        return "" if good else "   <-- FAILED"

    def runner(self, pages: int, streams: int, dtype: torch.dtype) -> GraphedFlow:
        kept = self.kept if dtype is self.dtype else dtype
        pool = PagePool(pages, page_shape(self.config, self.steps), dtype=kept, device=self.device)
        return GraphedFlow(self.flow, pool, self.steps, max_streams=streams, max_prefixes=streams, dtype=dtype)

    def elapsed(self, work: Callable[[], object]) -> float:
        """us of one call."""
        return elapsed_us(work, self.device)

    def sync(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    # --- kernels

    def kernels(self, types: tuple[torch.dtype, ...] = ALL_TYPES) -> None:
        for dtype in types:
            bound = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
            for name, ours, twin in _kernel_cases(self.config, self.steps, self.device, dtype):
                error = (ours.float().cpu() - twin.float()).square().mean().sqrt() / twin.float().square().mean().sqrt()
                good = bool(error < bound)
                print(f"  {name:24} {str(dtype)[6:]:9} error {error:.1e}{self.check(f'kernel {name}', good)}")

    # --- mel

    def mel(self, types: tuple[torch.dtype, ...] = ALL_TYPES) -> None:
        generator = torch.Generator().manual_seed(1)
        prompt = torch.randint(0, self.config.vocab_size, (40,), generator=generator)
        ids = torch.randint(0, self.config.vocab_size, (66,), generator=generator).tolist()
        voice = torch.randn(80, 80, generator=generator), torch.randn(192, generator=generator)
        torch.manual_seed(3)
        reference_flow = Flow(self.config).eval()
        reference_flow.load_state_dict({name: value.cpu() for name, value in self.flow.state_dict().items()})
        pool = PagePool(6, page_shape(self.config, self.steps))
        start = time.perf_counter()
        wanted = _spoken(FlowRunner(reference_flow, pool, self.steps), prompt, ids, voice, 1)[0]
        print(f"  reference on the CPU: {time.perf_counter() - start:.1f} s, mel of deviation {wanted.std():.3f}")
        for dtype in types:
            runner = self.runner(16, 3, dtype)
            eager = _spoken(runner, prompt, ids, voice, 1)
            runner.capture()
            for count, mels in ((1, eager), (1, None), (3, None)):
                for mel in mels or _spoken(runner, prompt, ids, voice, count):
                    error, worst = (mel - wanted).square().mean().sqrt() / wanted.std(), (mel - wanted).abs().max()
                    how = "launched" if mels else "graphs"
                    good = self.check(f"mel {dtype}", bool(error < MEL_ERROR[dtype]))
                    print(f"  {str(dtype)[6:]:9} {count} streams, {how:8} error {error:.1e}, at most {worst:.1e}{good}")

    # --- chunk

    def chunk(self) -> None:
        self._chunks()

    def apart(self) -> None:
        """The kernels' check and the chunks once more, no kernel let in before the one before it ends."""
        if self.device.type != "cuda":
            return
        from oscine_engine.runtime.kernels import flow_triton

        before, flow_triton._OVERLAP = flow_triton._OVERLAP, False
        try:
            self.kernels((self.dtype,))
            self._chunks()
        finally:
            flow_triton._OVERLAP = before

    def choices(self) -> None:
        """The chunks with other constants than the kernels', one at a time."""
        if self.device.type != "cuda":
            return
        from oscine_engine.flow import graphed
        from oscine_engine.runtime.kernels import flow_triton

        for owner, name, value, counts in (
            (flow_triton, "_FETCH_PAGES", False, (1,)),
            (graphed, "_MOST_SPLITS", 4, (1,)),
            (flow_triton, "_MANY_STAGES", 5, (8, 32)),
        ):
            before = getattr(owner, name)
            setattr(owner, name, value)
            print(f"  {name} = {value}, not {before}")
            try:
                self._chunks(counts)
            finally:
                setattr(owner, name, before)
            torch.cuda.empty_cache()

    def _chunks(self, counts: tuple[int, ...] = (1, 8, 32)) -> None:
        counts, seconds = ((1, 2), (1,)) if self.tiny else (counts, (5, 30))
        frames = self.config.dit.static_chunk_size
        most = max(counts) * (max(seconds) + 1)
        if self.device.type == "cuda":
            free = torch.cuda.mem_get_info()[0] - (8 << 30)
            shape = page_shape(self.config, self.steps)
            most = min(most, free // (torch.Size(shape).numel() * self.kept.itemsize))
        runner = self.runner(most, max(counts), self.dtype)
        fill(runner.pool.data)
        start = time.perf_counter()
        runner.capture()
        print(f"  {most} pages; captured in {time.perf_counter() - start:.1f} s")
        took: dict[tuple[int, int], float] = {}
        for count in counts:
            for second in seconds:
                if count * (second + 1) > most:
                    print(f"  {count:3} streams, {second:3} s: too much memory")
                    continue
                voices = [self._context(runner, second * 50 // frames) for _ in range(count)]
                chunks = [self._one_chunk(runner, voices) for _ in range(6)]
                ms = took[count, second] = statistics.median(total for total, _ in chunks[1:])
                host = self._host(runner, voices)
                for voice in voices:
                    runner.release(voice)
                line = f"  {count:3} streams, {second:3} s: {ms:7.2f} ms a chunk, {ms / self.steps:6.3f} a step"
                line += f"; begun in {statistics.median(begin for _, begin in chunks[1:]):.2f}"
                line += f"; host {host[0]:.3f} ms a step, {host[1]:.3f} to begin"
                if not self.tiny:
                    target = TARGETS.get((count, second))
                    line += f"; target {target}" if target else ""
                    line += self.check(f"{count} streams", ms < (target or 1e9))
                    if second == 30 and (count, 5) in took:
                        ratio = ms / took[count, 5]
                        line += f"; {ratio:.2f} times"
                        line += self.check(f"{count} streams at 30 s", ratio <= STRETCH.get(count, 1e9))
                print(line)

    def _context(self, runner: GraphedFlow, pages: int) -> FlowPrefix:
        """A voice of so many pages, whose numbers are whatever is there."""
        frames = pages * self.config.dit.static_chunk_size
        (slot,) = runner._slots.alloc(1)
        mel = torch.zeros(frames, self.config.output_size)
        return FlowPrefix(tuple(runner.pool.alloc(pages)), frames, (), mel, torch.randn(192), slot=slot)

    def _opened(self, runner: GraphedFlow, voices: list[FlowPrefix]) -> list[FlowStream]:
        streams = [runner.open(voice) for voice in voices]
        for stream in streams:
            runner.feed(stream, [5] * (runner._chunk_tokens + self.config.pre_lookahead_len), last=False)
        return streams

    def _one_chunk(self, runner: GraphedFlow, voices: list[FlowPrefix]) -> tuple[float, float]:
        """ms of a whole chunk, its beginning included, and of its beginning on the host."""
        streams = self._opened(runner, voices)
        self.sync()
        start = time.perf_counter()
        for stream in streams:
            runner.begin(stream)
        begun = time.perf_counter()
        for _ in range(self.steps):
            runner.step(streams)
        end = time.perf_counter()
        for stream in streams:
            runner.close(stream)
        return 1e3 * (end - start), 1e3 * (begun - start)

    def _host(self, runner: GraphedFlow, voices: list[FlowPrefix]) -> tuple[float, float]:
        """ms of the host alone: for a step, and for one that begins every chunk."""
        streams = self._opened(runner, voices)
        took = []
        for stream in streams:
            runner.begin(stream)
        for _ in range(self.steps - 1):
            self.sync()
            start = time.perf_counter()
            runner.step(streams)
            took.append(1e3 * (time.perf_counter() - start))
        self.sync()
        for stream in streams:
            runner.close(stream)
        return statistics.median(took[1:]), took[0]

    # --- attention

    def attention(self) -> None:
        counts, seconds = ((1, 2), (1,)) if self.tiny else ((1, 8, 32), (5, 30))
        for count in counts:
            for second in seconds:
                shares = (1, 2, 4, 8) if count == 1 else (1, 2) if count == 8 else (1,)
                line = f"  {count:3} streams, {second:3} s:"
                for splits, took in self._paged(count, second, shares).items():
                    line += f" {splits}: {took:6.1f} us, {self._moved(count, second) / took / 1e6:4.2f} TB/s;"
                plain = self._contiguous(count, second)
                print(f"{line} a layer by shares; torch's, contiguous: {plain:6.1f} us", flush=True)

    def _moved(self, count: int, second: int) -> float:
        """Bytes that a layer's attention cannot do without."""
        dit = self.config.dit
        values = count * GUIDANCE_ROWS * dit.static_chunk_size * dit.heads * dit.dim_head
        # Keys and values of the past; of the chunk three parts are read, two kept and one given.
        return float(values * ((2 * second + 2) * self.kept.itemsize + 4 * self.dtype.itemsize))

    def _paged(self, count: int, second: int, shares: tuple[int, ...] = (1, 2, 4, 8)) -> dict[int, float]:
        """us of one layer's attention over pages, by shares of the keys."""
        dit = self.config.dit
        # Enough layers that none finds its keys in the cache, and 3 steps, as the batch's streams have.
        pages, layers, inner = second + 1, 2 if self.tiny else 8, dit.heads * dit.dim_head
        shape = (3, layers, 2, GUIDANCE_ROWS, dit.static_chunk_size, inner)
        pool = fill(torch.empty(count * pages, *shape, dtype=self.kept, device=self.device))
        rows = count * GUIDANCE_ROWS * dit.static_chunk_size
        qkv = torch.randn(rows, 3 * inner, dtype=self.dtype, device=self.device)
        cos, sin = torch.randn(2, 4000, dit.dim_head // 2, device=self.device).clamp(-1, 1)
        batch = _batch(count, pages, second * 50, dit.static_chunk_size, self.device)

        def work(splits: int) -> None:
            for layer in range(layers):
                kernels.attend(qkv, cos, sin, pool, layer, dit.heads, batch, splits)

        return {splits: self.elapsed(partial(work, splits)) / layers for splits in shares}

    def _contiguous(self, count: int, second: int) -> float:
        """us of one layer's attention by torch, were keys and values of each stream in one piece."""
        dit, chunk, layers = self.config.dit, self.config.dit.static_chunk_size, 2 if self.tiny else 4
        shape = (count * GUIDANCE_ROWS, dit.heads, (second + 1) * chunk, dit.dim_head)
        held = torch.randn(layers, 2, *shape, dtype=self.dtype, device=self.device)
        query = torch.randn(*shape[:2], chunk, dit.dim_head, dtype=self.dtype, device=self.device)

        def work() -> None:
            for key, value in held:
                F.scaled_dot_product_attention(query, key, value)

        return self.elapsed(work) / layers

    # --- linear

    def linear(self) -> None:
        dim, inner = self.config.dit.dim, self.config.dit.heads * self.config.dit.dim_head
        wide = self.config.dit.ff_mult * dim
        shapes = {"qkv": (3 * inner, dim), "out": (dim, inner), "up": (wide, dim), "down": (dim, wide)}
        for count in (1, 2) if self.tiny else (1, 2, 4, 8, 32):
            rows = count * GUIDANCE_ROWS * self.config.dit.static_chunk_size
            took = {name: self._linear(name, rows, *shape) for name, shape in shapes.items()}
            parts = (f"{name} {ours:6.1f} ({theirs:6.1f})" for name, (ours, theirs) in took.items())
            print(f"  {rows:5} rows: {', '.join(parts)} us; in brackets torch's, bias and activation apart")

    def _linear(self, name: str, rows: int, outputs: int, inputs: int) -> tuple[float, float]:
        """us of ours for few rows, and of torch's."""
        layers = 2 if self.tiny else 12
        weights = torch.randn(layers, outputs, inputs, dtype=self.dtype, device=self.device) / inputs**0.5
        bias = torch.randn(outputs, dtype=self.dtype, device=self.device)
        x = torch.randn(rows, inputs, dtype=self.dtype, device=self.device)

        def ours() -> None:
            from oscine_engine.runtime.kernels import flow_triton

            for weight in weights:
                if name in ("out", "down"):
                    flow_triton.product(x, weight)
                else:
                    flow_triton.linear(x, weight, bias, gelu=name == "up")

        def theirs() -> None:
            for weight in weights:
                F.linear(x, weight)

        mine = self.elapsed(ours) / layers if self.device.type == "cuda" else float("nan")
        return mine, self.elapsed(theirs) / layers

    # --- profile

    def profile(self) -> None:
        counts, seconds = ((2,), (1,)) if self.tiny else ((1, 8), (5, 30))
        runner = self.runner(max(counts) * (max(seconds) + 1), max(counts), self.dtype)
        runner.capture()
        for count, second in itertools.product(counts, seconds):
            voices = [self._context(runner, second) for _ in range(count)]
            self._one_chunk(runner, voices)
            activity = torch.profiler.ProfilerActivity
            wanted = activity.CUDA if self.device.type == "cuda" else activity.CPU
            with torch.profiler.profile(activities=[wanted]) as profile:
                self._one_chunk(runner, voices)
                self.sync()
            for voice in voices:
                runner.release(voice)
            rows = [(row.self_device_time_total, row.count, row.key) for row in profile.key_averages()]
            rows.sort(reverse=True)
            print(f"  {count} streams, {second} s, a chunk: {sum(row[0] for row in rows) / 1e3:.2f} ms in kernels")
            for total, calls, name in rows[:16]:
                print(f"    {total / 1e3:7.3f} ms  {calls:5} times {total / max(1, calls):7.1f} us  {name[:90]}")

    # --- tiles

    def tiles(self) -> None:
        if self.device.type != "cuda":
            return
        from oscine_engine.runtime.kernels import flow_triton

        dim, inner = self.config.dit.dim, self.config.dit.heads * self.config.dit.dim_head
        wide = self.config.dit.ff_mult * dim
        chosen = flow_triton._TILE, flow_triton._SHARE, flow_triton._STAGES, flow_triton._REGISTERS
        try:
            for tile in ((64, 32, 128, 4), (64, 64, 64, 5), (64, 64, 128, 3), (128, 32, 64, 5), (128, 64, 64, 4)):
                flow_triton._TILE = tile
                for rows in (100, 200):
                    line = f"  {tile} {rows:4} rows:"
                    for name, outputs, inputs in (("qkv", 3 * inner, dim), ("up", wide, dim)):
                        line += f" {name} {self._linear(name, rows, outputs, inputs)[0]:5.1f}"
                    for share in (256, 512, 1024):
                        flow_triton._SHARE = share
                        out, down = self._linear("out", rows, dim, inner)[0], self._linear("down", rows, dim, wide)[0]
                        line += f"; shares of {share}: out {out:5.1f} down {down:5.1f}"
                    flow_triton._SHARE = chosen[1]
                    print(line, flush=True)
            flow_triton._TILE = chosen[0]
            for stages, registers in ((3, 168), (5, 168), (5, 128), (7, None)):
                flow_triton._STAGES, flow_triton._REGISTERS = stages, registers
                for count, splits in ((1, 8), (8, 1), (8, 2), (32, 1)):
                    took = [self._paged(count, second, (splits,))[splits] for second in (5, 30)]
                    line = f"  attention, {stages} stages, registers {registers}, {count} streams, {splits} shares:"
                    print(f"{line} {took[0]:6.1f} us at 5 s, {took[1]:6.1f} at 30", flush=True)
        finally:
            flow_triton._TILE, flow_triton._SHARE, flow_triton._STAGES, flow_triton._REGISTERS = chosen


def _spoken(
    runner: FlowStreams, prompt: Tensor, ids: list[int], voice: tuple[Tensor, Tensor], count: int
) -> list[Tensor]:
    """The mel of `ids` in a voice, said by `count` streams at once."""
    prefix = runner.register(prompt, *voice)
    streams = [runner.open(prefix) for _ in range(count)]
    mels: list[list[Tensor]] = [[] for _ in streams]
    for stream in streams:
        runner.feed(stream, ids, last=True)
    while not all(map(runner.finished, streams)):
        for stream in streams:
            if runner.ready(stream):
                runner.begin(stream)
        runner.step([stream for stream in streams if stream.chunk is not None])
        for mel, stream in zip(mels, streams, strict=True):
            mel.append(runner.take_mel(stream))
    for stream in streams:
        runner.close(stream)
    runner.release(prefix)
    return [torch.cat(mel) for mel in mels]


def fill(pages: Tensor) -> Tensor:
    """Draw what pages hold, one after the other: of 8 bits, which torch cannot draw, out of 16."""
    for page in pages:
        page.copy_(torch.randn(page.shape, dtype=torch.float16, device=page.device))
    return pages


def _batch(count: int, pages: int, start: int, frames: int, device: torch.device) -> Batch:
    """Streams that all are in the same place, on pages of their own, at different steps."""
    whole = {"dtype": torch.int32, "device": device}
    return Batch(
        slots=torch.arange(count, device=device),
        steps=torch.arange(count, device=device) % 3,
        starts=torch.full((count,), start, **whole),
        frames=torch.full((count,), frames, **whole),
        pages=torch.randperm(count * pages).view(count, pages).to(**whole),
    )


def _kernel_cases(
    config: FlowConfig, steps: int, device: torch.device, dtype: torch.dtype
) -> list[tuple[str, Tensor, Tensor]]:
    """What each kernel gives, and its twin in float32 on the CPU from the same numbers."""
    dit, count, pages = config.dit, 3, 3
    chunk, inner, taps = dit.static_chunk_size, dit.heads * dit.dim_head, dit.conv_pos_kernel
    generator = torch.Generator().manual_seed(2)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    def both(value: Tensor) -> tuple[Tensor, Tensor]:
        return value.to(device, copy=True), value.to(torch.float32, copy=True)

    cases: list[tuple[str, Tensor, Tensor]] = []
    rows = count * GUIDANCE_ROWS * chunk
    host = _batch(count, pages, 2 * chunk, chunk, torch.device("cpu"))
    host = host._replace(frames=torch.tensor([chunk, 0, chunk - 13], dtype=torch.int32))
    host = host._replace(starts=torch.tensor([2 * chunk, 0, chunk], dtype=torch.int32))
    there = Batch(*(part.to(device) for part in host))
    qkv, pool = both(drawn(rows, 3 * inner)), drawn(count * pages, steps, 2, 2, GUIDANCE_ROWS, chunk, inner)
    cos, sin = torch.randn(2, 4 * chunk, dit.dim_head // 2, generator=generator).clamp(-1, 1)
    shown = (torch.arange(chunk) < host.frames[:, None, None]).expand(-1, GUIDANCE_ROWS, -1).reshape(-1)
    for splits in (1, 2, 4):
        ours = both(pool)
        out = kernels.attend(qkv[0], cos.to(device), sin.to(device), ours[0], 1, dit.heads, there, splits)
        twin = kernels.attend(qkv[1], cos, sin, ours[1], 1, dit.heads, host, splits)
        cases.append((f"attend, {splits} shares", out.cpu()[shown], twin[shown]))
        cases.append((f"pages, {splits} shares", ours[0], ours[1]))
    alone = [Batch(*(part[:1] for part in batch)) for batch in (there, host)]
    ours = both(pool)
    out = kernels.attend(qkv[0][: 2 * chunk], cos.to(device), sin.to(device), ours[0], 1, dit.heads, alone[0], 8)
    twin = kernels.attend(qkv[1][: 2 * chunk], cos, sin, ours[1], 1, dit.heads, alone[1], 8)
    cases += [("attend, alone", out, twin), ("pages, alone", ours[0], ours[1])]
    state, static = torch.randn(5, chunk, dit.mel_dim, generator=generator), drawn(5, GUIDANCE_ROWS, chunk, dit.dim)
    into = both(drawn(dit.dim, dit.mel_dim) / 9)
    out = kernels.embed(state.to(device), static.to(device), into[0], there.slots)
    cases.append(("embed", out, kernels.embed(state, static.float(), into[1], host.slots)))
    x, table = both(drawn(count * 2, chunk, dit.dim)), both(drawn(count, 2, steps, GUIDANCE_ROWS, taps - 1, dit.dim))
    scale = (dit.dim // dit.conv_pos_groups * taps) ** -0.5
    weights = [(drawn(dit.dim, dit.dim // dit.conv_pos_groups, taps) * scale, drawn(dit.dim)) for _ in range(2)]
    convs = [kernels.position_weights(w.to(device), bias.to(device), dit.conv_pos_groups) for w, bias in weights]
    plain = [kernels.position_weights(w.float(), bias.float(), dit.conv_pos_groups) for w, bias in weights]
    out = kernels.position(x[0], table[0], there.slots, there.steps, convs)
    cases.append(("position", out, kernels.position(x[1], table[1], host.slots, host.steps, plain)))
    cases.append(("position tails", table[0], table[1]))
    for many in (1, count):
        flat = both(drawn(many * GUIDANCE_ROWS * chunk, dit.dim))
        for name, outputs in (("qkv", 3 * inner), ("up", dit.ff_mult * dit.dim), ("down", dit.dim)):
            weight, bias = both(drawn(outputs, dit.dim) / dit.dim**0.5), both(drawn(outputs))
            if name == "down":
                pair = [kernels.product(flat[n], weight[n]).float().sum(0) for n in (0, 1)]
            else:
                layer = kernels.linear if name == "qkv" else kernels.linear_gelu
                pair = [layer(flat[n], weight[n], bias[n]) for n in (0, 1)]
            cases.append((f"{name}, {len(flat[0])} rows", *pair))
    modulation, bias = both(drawn(steps, 3, dit.dim)), both(drawn(dit.dim))
    y = both(drawn(2, rows, dit.dim))
    residual = torch.randn(rows, dit.dim, generator=generator)
    moved = residual.to(device, copy=True), residual
    normed = [
        kernels.gate_norm_modulate(moved[n], y[n], bias[n], *modulation[n].unbind(1), where.steps, 1e-6)
        for n, where in ((0, there), (1, host))
    ]
    cases += [("gate, norm, modulate", *normed), ("residual", *moved)]
    return cases


SECTIONS = ("kernels", "mel", "chunk", "choices", "apart", "profile", "attention", "linear", "tiles")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.flow", description=__doc__.split("\n")[0])
    parser.add_argument("--dtype", choices=sorted(SIXTEEN), default="float16", help="of the timings")
    parser.add_argument("--kept", choices=("float8_e4m3fn",), help="of keys and values in pages, if not the same")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by comma")
    parser.add_argument("--tiny", action="store_true", help="small sizes, which also run on a CPU")
    parsed = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not parsed.tiny:
        parser.error("no GPU here; --tiny runs on a CPU")
    torch.set_grad_enabled(False)
    kept = None if parsed.kept is None else getattr(torch, parsed.kept)
    bench = Bench(TINY if parsed.tiny else FULL, device, SIXTEEN[parsed.dtype], parsed.tiny, kept)
    chosen = ((name, partial(_section, bench, name)) for name in parsed.only.split(","))
    return sections.run(chosen, bench.failures)


def _section(bench: Bench, name: str) -> None:
    """With the device's memory for itself."""
    if bench.device.type == "cuda":
        torch.cuda.empty_cache()
    getattr(bench, name)()


if __name__ == "__main__":
    sys.exit(main())
