"""The language model for a GPU: a step is one copy, one launch and one wait, whatever the streams feed.

Two families of graphs. `say` is a row for each of 1, 2, 4 ... streams, all of which speak. `read` is rows in tiles:
texts and single rows in any mixture, filled up to the next size. A step that fits no size is cut in several.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.config import SamplingConfig, TextRules
from oscine_engine.lm import noise
from oscine_engine.lm.interleave import Feed
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import PackedLM
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.sampling import NO_ID, mask_logits, sample
from oscine_engine.lm.stream import LMStream
from oscine_engine.runtime.graphs import Graphs, Inputs, Outputs, Step
from oscine_engine.runtime.kernels import lm as kernels
from oscine_engine.runtime.pages import PagePool, PoolExhausted

_TILE = 16
"""Rows of a tile of a text."""
_READ_ROWS = (32, 64, 128, 256, 512, 1024)
_PROGRAMS = 32
"""Programs of an attention that fill a GPU well enough; with fewer tiles keys are shared out."""
_MOST_SPLITS = 8


class _Shape(NamedTuple):
    """rows, in tiles of at most `most`; sampled: rows that may say."""

    rows: int
    tiles: int
    most: int
    sampled: int


class _Tick:
    """One graph and what goes in and out of it."""

    def __init__(self, runner: "GraphedLM", shape: _Shape, max_pages: int) -> None:
        rows, tiles, most, sampled = shape
        window = runner.sampling.win_size
        self.shape = shape
        self.inputs = Inputs(
            {
                "ids": ((rows,), torch.int64),
                "kinds": ((rows,), torch.int64),
                "positions": ((rows,), torch.int64),
                "slots": ((rows,), torch.int64),
                "first": ((tiles,), torch.int32),
                "count": ((tiles,), torch.int32),
                "start": ((tiles,), torch.int32),
                "sequence": ((tiles,), torch.int32),
                "tables": ((sampled, max_pages), torch.int32),
                "says": ((sampled,), torch.int64),
                "seeds": ((sampled,), torch.int64),
                "said": ((sampled,), torch.int64),
                "ending": ((sampled,), torch.bool),
                "history": ((sampled, window), torch.int64),
            },
            runner.device,
        )
        self.outputs = Outputs({"ids": ((sampled,), torch.int64)}, runner.device)
        there = self.inputs.device
        splits = max(1, min(_MOST_SPLITS, _PROGRAMS // (runner.packed.config.num_key_value_heads * tiles)))
        places = (there["first"], there["count"], there["start"], there["sequence"], there["tables"])
        self._tiles = kernels.Tiles(*places, most=most, splits=splits)
        self._runner = runner
        self.run: Step = self._step

    def capture(self, graphs: Graphs) -> None:
        for array in self.inputs.host.values():
            array[:] = 0
        self.inputs.host["slots"][:] = -1
        self.inputs.send()
        self.run = graphs.capture(self._step)

    def _step(self) -> None:
        self._runner.compute(self.inputs.device, self._tiles, self.outputs.device["ids"])
        self.outputs.fetch()


class GraphedLM(LMRunner):
    """As LMRunner, over weights of the type that `lm` has. max_streams: most streams of one launch."""

    def __init__(
        self,
        lm: SpeechLM,
        pool: PagePool,
        sampling: SamplingConfig,
        rules: TextRules,
        *,
        temperature: float = 1.0,
        max_streams: int = 8,
        max_positions: int = 2048,
    ) -> None:
        super().__init__(lm, pool, sampling, rules, temperature=temperature)
        self.device = pool.data.device
        self._max_streams = max_streams
        self._head = self.packed.head_weight.float()
        config = self.packed.config
        exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        angles = torch.arange(max_positions, dtype=torch.float32)[:, None] * config.rope_theta**-exponent
        self._cos, self._sin = angles.cos().to(self.device), angles.sin().to(self.device)
        max_pages = -(-max_positions // self.page_tokens)
        self._graphs = Graphs(self.device)
        sizes = [1 << power for power in range((max_streams - 1).bit_length() + 1)]
        most = sizes[-1]
        self._say = {size: _Tick(self, _Shape(size, size, 1, size), max_pages) for size in sizes}
        self._read = [_Tick(self, _Shape(rows, rows // _TILE + most, _TILE, most), max_pages) for rows in _READ_ROWS]

    def capture(self, progress: Callable[[str], object] | None = None) -> None:
        """Capture every size, so that no tick ever has to. Takes seconds."""
        for tick in [*reversed(self._read), *reversed(self._say.values())]:
            if progress is not None:
                progress(f"language model, {tick.shape.rows} rows")
            tick.capture(self._graphs)

    @torch.inference_mode()
    def step(self, streams: list[LMStream]) -> list[int | None]:
        said: list[int | None] = [None] * len(streams)
        active = [index for index, stream in enumerate(streams) if stream.wants_step]
        wanted = self.pages_wanted(streams)
        if wanted > self.pool.num_free:
            raise PoolExhausted(f"this step needs {wanted} pages, {self.pool.num_free} are free")
        group: list[int] = []
        rows = 0
        for index in active:
            more = streams[index].machine.num_pending
            if group and (rows + more > _READ_ROWS[-1] or len(group) == self._max_streams):
                self._step(streams, group, said)
                group, rows = [], 0
            group.append(index)
            rows += more
        if group:
            self._step(streams, group, said)
        return said

    def _step(self, streams: list[LMStream], group: list[int], said: list[int | None]) -> None:
        feeds = [streams[index].machine.take() for index in group]
        members = [streams[index] for index in group]
        saying = [place for place, feed in enumerate(feeds) if feed.says]
        try:
            tick = self._tick(feeds, len(saying))
            self._fill(tick, members, feeds, saying)
            tick.inputs.send()
            tick.run()
            self._graphs.mark()
            self._graphs.wait()
        except BaseException:
            for stream, feed in zip(members, feeds, strict=True):
                stream.machine.put_back(feed)
            raise
        for stream, feed in zip(members, feeds, strict=True):
            stream.length += len(feed.inputs)
        for place, chosen in zip(saying, tick.outputs.host["ids"].tolist(), strict=False):
            said[group[place]] = self.say(members[place], chosen)

    def _tick(self, feeds: Sequence[Feed], saying: int) -> _Tick:
        rows = sum(len(feed.inputs) for feed in feeds)
        if rows == saying == len(feeds):
            return self._say[1 << (rows - 1).bit_length()]
        for tick in self._read:
            if rows <= tick.shape.rows:
                return tick
        raise ValueError(f"a text of {rows} ids is longer than the {_READ_ROWS[-1]} that are read at once")

    def _fill(self, tick: _Tick, members: list[LMStream], feeds: list[Feed], saying: list[int]) -> None:
        """Lay the step out in the host's arrays."""
        host, most, size = tick.inputs.host, tick.shape.most, self.page_tokens
        host["slots"][:], host["count"][:] = -1, 0
        row = tile = 0
        for place, (stream, feed) in enumerate(zip(members, feeds, strict=True)):
            count, start = len(feed.inputs), stream.length
            stream.pages += self.pool.alloc(self._new_pages(stream, count))
            host["tables"][place, : len(stream.pages)] = stream.pages
            if count == 1:
                item = feed.inputs[0]
                host["ids"][row], host["kinds"][row], host["positions"][row] = item.id, item.kind, start
                host["slots"][row] = stream.pages[start // size] * size + start % size
            else:
                at = np.arange(start, start + count)
                host["ids"][row : row + count] = [item.id for item in feed.inputs]
                host["kinds"][row : row + count] = [item.kind for item in feed.inputs]
                host["positions"][row : row + count] = at
                host["slots"][row : row + count] = np.array(stream.pages)[at // size] * size + at % size
            for first in range(0, count, most):
                host["first"][tile], host["count"][tile] = row + first, min(most, count - first)
                host["start"][tile], host["sequence"][tile] = start + first, place
                tile += 1
            row += count
        window = self.sampling.win_size
        ends = np.cumsum([len(feed.inputs) for feed in feeds]) - 1
        host["says"][:], host["history"][:] = 0, NO_ID
        for sampled, place in enumerate(saying):
            stream = members[place]
            host["says"][sampled] = ends[place]
            host["seeds"][sampled] = noise.signed(stream.seed)
            host["said"][sampled] = len(stream.tokens)
            host["ending"][sampled] = feeds[place].may_end
            if past := stream.tokens[-window:]:
                host["history"][sampled, window - len(past) :] = past

    def compute(self, given: dict[str, Tensor], tiles: kernels.Tiles, ids: Tensor) -> None:
        """All that happens on the device: rows in, ids out."""
        packed: PackedLM = self.packed
        config, heads = packed.config, packed.config.num_attention_heads
        eps = config.rms_norm_eps
        x = packed.embed(given["kinds"], given["ids"]).float()
        rows: Tensor | None = None
        for index, layer in enumerate(packed.layers):
            cache = self.pool.data[:, index]
            qkv = F.linear(kernels.add_norm(x, rows, layer.attention_norm, eps), layer.qkv, layer.qkv_bias)
            kernels.write(qkv, given["positions"], given["slots"], self._cos, self._sin, cache, heads)
            seen = kernels.attend(qkv, given["positions"], self._cos, self._sin, cache, heads, tiles)
            wide = F.linear(kernels.add_norm(x, F.linear(seen, layer.out), layer.mlp_norm, eps), layer.gate_up)
            rows = F.linear(kernels.silu_times(wide), layer.down)
        assert rows is not None
        said = x[given["says"]] + rows[given["says"]].float()
        hidden = F.rms_norm(said, said.shape[1:], packed.norm.float(), eps).to(packed.dtype)
        ids.copy_(self._draw(F.linear(hidden.float(), self._head), given))

    def _draw(self, logits: Tensor, given: dict[str, Tensor]) -> Tensor:
        rule, speech_ids = self.sampling, self.layout.speech_token_size
        if logits.is_cuda:
            from oscine_engine.runtime.kernels import lm_triton

            return lm_triton.sample(
                logits,
                given["seeds"],
                given["said"],
                given["ending"],
                given["history"],
                rule.top_p,
                rule.top_k,
                rule.win_size * rule.tau_r,
                self.temperature,
                speech_ids,
            )
        masked = mask_logits(logits, speech_ids, given["ending"])
        pairs = zip(given["seeds"].tolist(), given["said"].tolist(), strict=True)
        keys = torch.tensor([[noise.key(seed, position, use) for use in (0, 1)] for seed, position in pairs])
        ids = sample(masked, given["history"], keys, rule, self.temperature)
        return torch.where(masked.amax(-1).isfinite(), ids, NO_ID)
