"""The flow for a GPU: a tick is one launch or two, whatever the streams' number, steps and lengths.

Every stream has a slot of `SlottedDiT`'s tables. Steps are captured for 1, 2, 4 ... streams and filled up with rows of
no frames on a spare slot. What begins is collected and begun together, right before the next step.

A step is not waited for unless a chunk ends in it; but no step is launched before the one before the last is done, so
that what the host decides is never more than a tick old. So there are two graphs of each size, taken in turn: one can
be told what to do while the other is at work.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from oscine_engine.flow.network import Flow
from oscine_engine.flow.noise import initial_noise
from oscine_engine.flow.schedule import euler_steps, time_span
from oscine_engine.flow.slotted import Batch, Opening, SlottedDiT
from oscine_engine.flow.stream import FlowChunk, FlowPrefix, FlowStream
from oscine_engine.flow.streams import GUIDANCE_ROWS, FlowStreams
from oscine_engine.runtime.graphs import Graphs, Inputs, Outputs, Pulled, Step
from oscine_engine.runtime.pages import PagePool

_PROGRAMS = 256
"""Programs of an attention that keep a GPU busy: with few streams keys are shared out to come near it."""
_MOST_SPLITS = 8


class _Begun(NamedTuple):
    """A chunk whose tokens are taken, and whose beginning the device has not been told of yet."""

    stream: FlowStream
    start: int
    tokens: list[int]


class _Start:
    """The graph that begins up to `size` chunks."""

    def __init__(self, dit: SlottedDiT, graphs: Graphs, size: int) -> None:
        config = dit.config
        chunk = config.dit.static_chunk_size
        tokens = chunk // config.token_mel_ratio + config.pre_lookahead_len
        self.inputs = Inputs(
            {
                "slots": ((size,), torch.int64),
                "sources": ((size,), torch.int64),
                "starts": ((size,), torch.int64),
                "tokens": ((size, tokens), torch.int64),
                "known": ((size,), torch.int64),
                "cond": ((size, chunk, config.output_size), torch.float32),
                "speakers": ((size, config.spk_embed_dim), torch.float32),
            },
            dit.device,
        )
        self._opening = Opening(**self.inputs.device)
        self._dit, self._graphs = dit, graphs
        self.run: Step = self._step

    def capture(self, spare: int, silent: int) -> None:
        self.inputs.host["slots"][:] = spare
        self.inputs.host["sources"][:] = silent
        self.inputs.send()
        self.run = self._graphs.capture(self._step)

    def _step(self) -> None:
        self._dit.begin(self._opening)


class _Tick:
    """The graph of one Euler step of up to `size` streams."""

    def __init__(self, dit: SlottedDiT, graphs: Graphs, size: int, most_pages: int) -> None:
        config = dit.config
        self.inputs = Pulled(
            {
                "slots": ((size,), torch.int64),
                "steps": ((size,), torch.int64),
                "starts": ((size,), torch.int32),
                "frames": ((size,), torch.int32),
                "pages": ((size, most_pages), torch.int32),
            },
            dit.device,
        )
        self.slots, self.steps, self.starts, self.frames, self.pages = self.inputs.host.values()
        self.outputs = Outputs(
            {"mel": ((size, config.dit.static_chunk_size, config.output_size), torch.float32)}, dit.device
        )
        programs = GUIDANCE_ROWS * config.dit.heads * size
        self._splits = max(1, min(_MOST_SPLITS, _PROGRAMS // programs))
        self._batch = Batch(**self.inputs.device)
        self._dit, self._graphs = dit, graphs
        self.run: Step = self._step

    def capture(self, spare: int) -> None:
        self.slots[:], self.steps[:], self.starts[:], self.frames[:] = spare, 0, 0, 0
        self.run = self._graphs.capture(self._step)

    def _step(self) -> None:
        self.inputs.pull()
        self._dit.step(self._batch, self._splits, self.outputs.device["mel"])
        self.outputs.fetch()


class GraphedFlow(FlowStreams):
    """Owns `pool` with streams and prefixes; used by one thread.

    max_streams: most streams in a step. max_prefixes: prompts and prefixes alive at once, besides. dtype: of weights
    and activations; the residual stream and a chunk's state are float32. The pool's type is that of the keys and values
    kept, float8_e4m3fn if not `dtype`. noise [1, 80, frames] replaces the fixed one.
    """

    def __init__(
        self,
        flow: Flow,
        pool: PagePool,
        n_timesteps: int = 10,
        noise: Tensor | None = None,
        *,
        max_streams: int = 8,
        max_prefixes: int = 8,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        config = flow.config
        drawn = (noise if noise is not None else initial_noise(config.cfm))[0].transpose(0, 1)
        super().__init__(config, pool, n_timesteps, len(drawn))
        self.device = device = pool.data.device
        self._max_streams = max_streams
        slots = max_streams + max_prefixes
        self._spare, self._silent = slots, slots + 1
        """Slots of rows that fill up a batch, and of tails before any frame: zeros, which nothing writes."""
        times, lengths = euler_steps(time_span(config.cfm, n_timesteps))
        self._dit = SlottedDiT(flow, times, lengths, drawn, slots + 2, pool.data, dtype, device)
        self._slots = PagePool(slots, (1,))
        self._chunk = config.dit.static_chunk_size
        most_pages = -(-len(drawn) // self._chunk)
        self._pages = np.zeros((slots + 2, most_pages), np.int32)
        self._starts = np.zeros(slots + 2, np.int32)
        self._frames = np.zeros(slots + 2, np.int32)
        self._graphs = Graphs(device)
        self._sizes = [1 << power for power in range((max_streams - 1).bit_length() + 1)]
        self._ticks = {
            size: [_Tick(self._dit, self._graphs, size, most_pages) for _ in range(2)] for size in self._sizes
        }
        self._starting = {size: _Start(self._dit, self._graphs, size) for size in self._sizes}
        self._begun: list[_Begun] = []
        self._lets_go = device.type == "cuda"
        """Whether a step goes on when it has been launched."""

    def capture(self, progress: Callable[[str], object] | None = None) -> None:
        """Capture every size, so that no tick ever has to. Takes seconds."""
        for size in reversed(self._sizes):
            if progress is not None:
                progress(f"flow, {size} streams")
            self._starting[size].capture(self._spare, self._silent)
            for tick in self._ticks[size]:
                tick.capture(self._spare)

    def prompt(self, tokens: Tensor, mel: Tensor, embedding: Tensor) -> FlowStream:
        ids = self._checked(tokens, mel, embedding)
        (slot,) = self._slots.alloc(1)
        speaker = embedding.float().cpu().flatten()
        prompt = FlowStream(mel.float().cpu(), speaker, [], 0, [], slot=slot, source=self._silent)
        self.feed(prompt, ids, last=False)
        return prompt

    def prefix(self, prompt: FlowStream) -> FlowPrefix:
        self._check_solved(prompt)
        return FlowPrefix(
            tuple(prompt.pages),
            prompt.frames,
            tuple(prompt.tokens),
            prompt.prefix_mel,
            prompt.speaker,
            slot=prompt.slot,
        )

    def release(self, prefix: FlowPrefix) -> None:
        self.pool.release(list(prefix.pages))
        self._slots.release([prefix.slot])

    def open(self, prefix: FlowPrefix) -> FlowStream:
        pages = list(prefix.pages)
        (slot,) = self._slots.alloc(1)
        self.pool.retain(pages)
        self._slots.retain([prefix.slot])
        source = prefix.slot
        if not prefix.frames:
            self._slots.release([prefix.slot])
            source = self._silent
        self._pages[slot, : len(pages)] = pages
        return FlowStream(
            prefix.mel, prefix.speaker, pages, prefix.frames, list(prefix.tokens), slot=slot, source=source
        )

    def close(self, stream: FlowStream) -> None:
        if stream.closed:
            return
        self._begun = [begun for begun in self._begun if begun.stream is not stream]
        self.pool.release(stream.pages)
        self._leave_source(stream)
        self._slots.release([stream.slot])
        stream.pages, stream.tokens, stream.chunk, stream.closed = [], [], None, True

    def begin(self, stream: FlowStream) -> None:
        if not self.ready(stream):
            raise ValueError("begin on a stream that is not ready")
        (page,) = self.pool.alloc(1)
        slot, start, place = stream.slot, stream.frames, len(stream.pages)
        taken = min(self._chunk_tokens, len(stream.tokens))
        stream.pages.append(page)
        self._pages[slot, place] = page
        self._starts[slot] = start
        self._frames[slot] = taken * self.config.token_mel_ratio
        ahead = stream.tokens[: taken + self.config.pre_lookahead_len]
        self._begun.append(_Begun(stream, start, ahead))
        del stream.tokens[:taken]
        stream.chunk = FlowChunk(int(self._frames[slot]), step=0)

    def step(self, streams: Sequence[FlowStream]) -> None:
        if not streams or any(stream.chunk is None for stream in streams):
            raise ValueError("step needs streams with a begun chunk")
        most = self._sizes[-1]
        for first in range(0, len(streams), most):
            self._step(streams[first : first + most])

    def settle(self) -> None:
        self._graphs.wait()

    def sound(self, stream: FlowStream) -> bool:
        if stream.end is None:
            return True
        # The square of a log mel is far from what float32 holds. A tenth of what torch takes for so few numbers.
        numbers = stream.end.numpy().ravel()
        return math.isfinite(numbers @ numbers)

    def _step(self, streams: Sequence[FlowStream]) -> None:
        if self._begun:
            self._start()
        count = len(streams)
        ticks = self._ticks[self._size(count)]
        ticks.reverse()
        tick = ticks[0]
        chunks = [stream.chunk for stream in streams if stream.chunk is not None]
        # The graph was last launched before the one before the last: from here on nobody reads what it is told.
        self._graphs.keep_up()
        slots = tick.slots[:count]
        slots[:] = [stream.slot for stream in streams]
        tick.slots[count:], tick.frames[count:], tick.starts[count:] = self._spare, 0, 0
        tick.steps[:count], tick.steps[count:] = [chunk.step for chunk in chunks], 0
        tick.frames[:count] = self._frames[slots]
        starts = tick.starts[:count] = self._starts[slots]
        # Of a row that only fills up, and behind the last page, nothing is read.
        pages = int(starts.max()) // self._chunk + 1
        tick.pages[:count, :pages] = self._pages[slots, :pages]
        tick.run()
        self._graphs.mark()
        ended = False
        for chunk in chunks:
            chunk.step += 1
            ended |= chunk.step == self.n_timesteps
        self.pending = not ended and self._lets_go
        if ended:
            self._graphs.wait()
            self._finish(streams, tick)

    def _finish(self, streams: Sequence[FlowStream], tick: _Tick) -> None:
        ended = [
            (row, stream, chunk)
            for row, stream in enumerate(streams)
            if (chunk := stream.chunk) is not None and chunk.step == self.n_timesteps
        ]
        # Copies: the next step of this size writes there again.
        mels = torch.from_numpy(tick.outputs.host["mel"][[row for row, _, _ in ended]])
        for mel, (_, stream, chunk) in zip(mels.unbind(), ended, strict=True):
            # Mostly they are whole, and to cut nothing off takes torch as long as to cut something.
            stream.end = mel if chunk.frames == self._chunk else mel[: chunk.frames]
            prompt = max(0, stream.prompt_frames - stream.frames)
            stream.out.append(stream.end[prompt:] if prompt else stream.end)
            stream.frames += chunk.frames
            stream.chunk = None

    def _start(self) -> None:
        """Tell the device of the chunks that were begun."""
        while self._begun:
            begun, self._begun = self._begun[: self._sizes[-1]], self._begun[self._sizes[-1] :]
            start, count = self._starting[self._size(len(begun))], len(begun)
            host = start.inputs.host
            host["cond"][:], host["tokens"][:], host["known"][count:], host["starts"][count:] = 0, 0, 0, 0
            host["slots"][count:], host["sources"][count:] = self._spare, self._silent
            host["slots"][:count] = [stream.slot for stream, _, _ in begun]
            host["sources"][:count] = [stream.source for stream, _, _ in begun]
            host["starts"][:count] = [first for _, first, _ in begun]
            host["known"][:count] = [len(tokens) for _, _, tokens in begun]
            for cond, ids, speaker, (stream, first, tokens) in zip(
                host["cond"], host["tokens"], host["speakers"], begun, strict=False
            ):
                ids[: len(tokens)], speaker[:] = tokens, stream.speaker.numpy()
                if first < stream.prompt_frames:
                    prompt = stream.prefix_mel[first : first + self._chunk].numpy()
                    cond[: len(prompt)] = prompt
                self._leave_source(stream)
            start.inputs.send()
            start.run()

    def _leave_source(self, stream: FlowStream) -> None:
        """From here on the stream goes on from what it left behind itself."""
        if stream.source not in (stream.slot, self._silent):
            self._slots.release([stream.source])
        stream.source = stream.slot

    def _size(self, count: int) -> int:
        return 1 << (count - 1).bit_length()
