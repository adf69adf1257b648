"""The language model for a GPU: a step is one copy, one launch and one wait, whatever the streams feed.

Two families of graphs. `say` is for 1, 2, 4 ... streams, all of which feed the id they said last and speak. `read` is
rows in tiles: texts and such streams in any mixture, filled up to the next size. A step that fits no size is cut in
several. With a drafter, guesses follow the last id as rows of their own in both; all that the model itself would have
said are said at once, and the next guesses come from the same launch.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.config import SamplingConfig, TextRules
from oscine_engine.lm import noise
from oscine_engine.lm.interleave import Kind
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import PackedLM
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.sampling import NO_ID, mask_logits, sample
from oscine_engine.lm.speculation import NO_DRAFT, Drafter, Integers, Lot
from oscine_engine.lm.stream import LMStream
from oscine_engine.runtime.graphs import Graphs, Inputs, Outputs, Step
from oscine_engine.runtime.kernels import lm as kernels
from oscine_engine.runtime.pages import PagePool, PoolExhausted

_TILE = 16
"""Rows of a tile of a text."""
_READ_ROWS = (32, 64, 128, 256, 512, 1024)
_FEW_STREAMS = 8
"""Steps that read come for so many streams and for the most: drawing and guessing for all would delay a lone text."""
_PROGRAMS = 128
"""Programs of an attention that fill a GPU well enough; up to so many, keys are shared out."""
_SPLITS = 4
"""One number for all sizes, as every other one is a kernel to compile."""
NO_DRAW = -1
"""Stands for a draw's position where nothing is to be drawn."""
_SPEECH: list[int] = [Kind.SPEECH.value]


class _Shape(NamedTuple):
    """rows, in tiles of at most `most`; streams: at most so many, all of which may say."""

    rows: int
    tiles: int
    most: int
    streams: int


class _Tick:
    """One graph and what goes in and out of it."""

    def __init__(self, runner: "GraphedLM", shape: _Shape, max_pages: int) -> None:
        rows, tiles, most, streams = shape
        draws, window = runner.draws, runner.sampling.win_size
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
                "tables": ((streams, max_pages), torch.int32),
                "says": ((streams, draws), torch.int64),
                "seeds": ((streams, draws), torch.int64),
                "said": ((streams, draws), torch.int64),
                "ending": ((streams, draws), torch.bool),
                "history": ((streams, draws, window), torch.int64),
                "drafts": ((streams, draws - 1), torch.int64),
                "before": ((2, streams), torch.int64),
                "forced": ((streams,), torch.int64),
            },
            runner.device,
        )
        results = {"ids": ((streams, draws), torch.int64), "drafts": ((streams, draws - 1), torch.int64)}
        self.outputs = Outputs({**results, "accepted": ((streams,), torch.int64)}, runner.device)
        there = self.inputs.device
        splits = _SPLITS if _SPLITS * tiles * runner.packed.config.num_key_value_heads <= _PROGRAMS else 1
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
        self._runner.compute(self.inputs.device, self._tiles, self.outputs.device)
        self.outputs.fetch()


class GraphedLM(LMRunner):
    """As LMRunner, over weights of the type that `lm` has. max_streams: most streams of one launch.

    drafter: guesses what streams say next; ids are the same without one. forced_acceptance: for benchmarks, the ids
    that a step says on average, whatever was guessed; then ids mean nothing.
    """

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
        drafter: Drafter | None = None,
        forced_acceptance: float | None = None,
    ) -> None:
        super().__init__(lm, pool, sampling, rules, temperature=temperature)
        self.device = pool.data.device
        self.drafter = drafter
        self.draws = 1 if drafter is None else 1 + drafter.count
        """Rows of a stream that ids are drawn from."""
        if self.draws > _TILE:
            raise ValueError(f"{self.draws - 1} guesses a step are more than the {_TILE - 1} that a tile takes")
        if forced_acceptance is not None and drafter is None:
            raise ValueError("without a drafter there is nothing to accept")
        self._lot = None if forced_acceptance is None else Lot(forced_acceptance, self.draws - 1)
        self._max_streams = max_streams
        config = self.packed.config
        exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        angles = torch.arange(max_positions, dtype=torch.float32)[:, None] * config.rope_theta**-exponent
        self._cos, self._sin = angles.cos().to(self.device), angles.sin().to(self.device)
        max_pages = -(-max_positions // self.page_tokens)
        window = sampling.win_size
        self._places = np.arange(self.draws)
        self._windows = self._places[:, None] + np.arange(window)
        self._graphs = Graphs(self.device)
        sizes = [1 << power for power in range((max_streams - 1).bit_length() + 1)]
        most = sizes[-1]
        self._say = {size: _Tick(self, _Shape(size * self.draws, size, self.draws, size), max_pages) for size in sizes}
        self._read = [
            _Tick(self, _Shape(rows, rows // _TILE + streams, _TILE, streams), max_pages)
            for rows in _READ_ROWS
            for streams in sorted({min(_FEW_STREAMS, most), most})
        ]

    def capture(self, progress: Callable[[str], object] | None = None) -> None:
        """Capture every size, so that no tick ever has to. Takes seconds."""
        for tick in [*reversed(self._read), *reversed(self._say.values())]:
            if progress is not None:
                progress(f"language model, {tick.shape.rows} rows, {tick.shape.streams} streams")
            tick.capture(self._graphs)

    @torch.inference_mode()
    def step(self, streams: list[LMStream]) -> list[list[int]]:
        said: list[list[int]] = [[] for _ in streams]
        active = [place for place, stream in enumerate(streams) if stream.wants_step]
        counts = [streams[place].num_rows for place in active]
        wanted = sum(self._new_pages(streams[place], count) for place, count in zip(active, counts, strict=True))
        if wanted > self.pool.num_free:
            raise PoolExhausted(f"this step needs {wanted} pages, {self.pool.num_free} are free")
        group: list[int] = []
        rows = 0
        for place, more in zip(active, counts, strict=True):
            if group and (rows + more > _READ_ROWS[-1] or len(group) == self._max_streams):
                self._step(streams, group, rows, said)
                group, rows = [], 0
            group.append(place)
            rows += more
        if group:
            self._step(streams, group, rows, said)
        return said

    def _step(self, streams: list[LMStream], group: list[int], rows: int, said: list[list[int]]) -> None:
        """One launch of so many rows. Until it is done nothing has changed but that pages are held."""
        says = [streams[place].machine.says for place in group]
        saying = sum(says)
        if saying < len(group):
            # Those that speak come first: a stream's number among them is also the row of its page table.
            group.sort(key=lambda place: not streams[place].machine.says)
        members = [streams[place] for place in group]
        tick = self._tick(members, rows, saying)
        self._fill(tick, members, saying)
        tick.inputs.send()
        tick.run()
        self._graphs.mark()
        self._graphs.wait()
        results = (tick.outputs.host[name][:saying].tolist() for name in ("ids", "accepted", "drafts"))
        for stream in members:
            stream.length += stream.machine.fed()
        for place, stream, picks, kept, guesses in zip(group, members, *results, strict=False):
            said[place] = self._say_all(stream, picks[: kept + 1])
            if guesses:
                stream.drafts = guesses[: max(0, stream.machine.room - 1)]

    def _say_all(self, stream: LMStream, picks: list[int]) -> list[int]:
        """Say ids of which all but the last were fed already, as guesses. Returns the speech ids among them."""
        if stream.machine.say_run(picks):
            stream.tokens += picks
            stream.length += len(picks) - 1
            return picks
        for count, chosen in enumerate(picks):
            if count:
                stream.length += stream.machine.fed()
            if not self.say(stream, chosen):
                return picks[:count]
        return picks

    def _tick(self, members: list[LMStream], rows: int, saying: int) -> _Tick:
        if saying == len(members) and all(len(stream.machine.waiting) == 1 for stream in members):
            return self._say[1 << (saying - 1).bit_length()]
        for tick in self._read:
            if rows <= tick.shape.rows and len(members) <= tick.shape.streams:
                return tick
        raise ValueError(f"a text of {rows} ids is longer than the {_READ_ROWS[-1]} that are read at once")

    def _fill(self, tick: _Tick, members: list[LMStream], saying: int) -> None:
        """Lay the step out in the host's arrays. Every stream's guesses follow its inputs."""
        host, size = tick.inputs.host, self.page_tokens
        ids: list[int] = []
        kinds: list[int] = []
        tables: list[list[int]] = []
        numbers: list[int] = []
        for stream in members:
            inputs, drafts, length = stream.machine.waiting, stream.drafts, stream.length
            if len(inputs) == 1:
                kind, id = inputs[0]
                kinds.append(kind)
                ids.append(id)
            else:
                kinds += [item.kind for item in inputs]
                ids += [item.id for item in inputs]
            count = len(inputs)
            if drafts:
                ids += drafts
                kinds += _SPEECH * len(drafts)
                count += len(drafts)
            pages = stream.pages
            if length + count > len(pages) * size:
                pages += self.pool.alloc(self._new_pages(stream, count))
            numbers += (count, length)
            tables.append(pages)
        counts, starts = np.array(numbers).reshape(-1, 2).T
        rows, ends, most = len(ids), counts.cumsum(), max(map(len, tables))
        held = np.array(tables if most == 1 else [table + [0] * (most - len(table)) for table in tables])
        whose = np.arange(len(members)).repeat(counts)
        at = np.arange(rows) + (starts - ends + counts)[whose]
        host["tables"][: len(members), :most] = held
        host["ids"][:rows], host["kinds"][:rows], host["positions"][:rows] = ids, kinds, at
        host["slots"][:rows], host["slots"][rows:] = held[whose, at // size] * size + at % size, -1
        _fill_tiles(tick, counts, starts, ends)
        self._fill_draws(tick, members[:saying], starts + counts, ends)

    def _fill_draws(self, tick: _Tick, speaking: list[LMStream], stops: Integers, ends: Integers) -> None:
        """What each id is drawn with. stops, ends: the position and the row behind every stream's last."""
        host, saying, window, guesses = tick.inputs.host, len(speaking), self.sampling.win_size, self.draws - 1
        host["says"][:], host["said"][:], host["before"][:], host["drafts"][:] = 0, NO_DRAW, -1, NO_DRAFT
        if not saying:
            return
        numbers: list[int] = []
        past: list[int] = []
        none, nothing = [NO_ID] * window, [NO_DRAFT] * guesses
        for stream in speaking:
            tokens, drafts = stream.tokens, stream.drafts
            count = len(tokens)
            numbers += (noise.signed(stream.seed), count, stream.machine.ends_from, len(drafts))
            if count < window:
                past += none[count:]
            past += tokens[-window:]
            if guesses:
                past += drafts
                past += nothing[len(drafts) :]
        seeds, said, least, held = np.array(numbers).reshape(saying, 4).T
        histories = np.array(past).reshape(saying, window + guesses)
        positions = said[:, None] + self._places
        host["says"][:saying] = (ends[:saying] - 1 - held)[:, None] + np.minimum(self._places, held[:, None])
        host["seeds"][:saying] = seeds[:, None]
        host["said"][:saying] = np.where(self._places <= held[:, None], positions, NO_DRAW)
        host["ending"][:saying] = positions >= least[:, None]
        host["history"][:saying] = histories[:, self._windows]
        host["drafts"][:saying] = histories[:, window:]
        host["before"][0, :saying], host["before"][1, :saying] = stops[:saying] - 1 - held, said
        if self._lot is not None:
            host["forced"][:saying] = self._lot.draw(seeds, said)

    def compute(self, given: dict[str, Tensor], tiles: kernels.Tiles, results: dict[str, Tensor]) -> None:
        """All that happens on the device: rows in; ids, and guesses of those that follow, out."""
        packed: PackedLM = self.packed
        config, heads = packed.config, packed.config.num_attention_heads
        eps = config.rms_norm_eps
        x = kernels.embed(given["kinds"], given["ids"], packed.text_embedding, packed.speech_embedding)
        features = None if self.drafter is None else _Features(self.drafter.layers, x, packed.dtype)
        rows: Tensor | None = None
        for index, layer in enumerate(packed.layers):
            cache = self.pool.data[:, index]
            normed = kernels.add_norm(x, rows, layer.attention_norm, eps)
            if features is not None:
                features.take(index - 1, x)
            places = (given["positions"], given["slots"], self._cos, self._sin, cache, heads)
            qkv = kernels.project(normed, layer.qkv, layer.qkv_bias, *places)
            seen = kernels.attend(qkv, given["positions"], self._cos, self._sin, cache, heads, tiles)
            normed = kernels.add_norm(x, F.linear(seen, layer.out), layer.mlp_norm, eps)
            rows = F.linear(kernels.gated(normed, layer.gate_up), layer.down)
        assert rows is not None
        hidden = kernels.norm_some(x, rows, given["says"].flatten(), packed.norm, eps)
        picks = self._draw(self._logits(hidden), given).view(given["says"].shape)
        results["ids"].copy_(picks)
        if self.drafter is None or features is None:
            results["accepted"].zero_()
            return
        features.take(len(packed.layers) - 1, x, rows)
        self.drafter.remember(features.rows, given["positions"], given["slots"])
        self._guess(self.drafter, picks, given, results)

    def _logits(self, hidden: Tensor) -> Tensor:
        """float32 [S, decoder_rows], added up in float32 whatever the weights are."""
        if hidden.is_cuda and hidden.dtype != torch.float32:
            return torch.mm(hidden, self.packed.head_weight.t(), out_dtype=torch.float32)
        return F.linear(hidden.float(), self.packed.head_weight.float())

    def _guess(self, drafter: Drafter, picks: Tensor, given: dict[str, Tensor], results: dict[str, Tensor]) -> None:
        """Keep what was guessed well, and guess what comes next."""
        at, said = given["before"]
        forced = None if self._lot is None else given["forced"]
        speech_ids = self.layout.speech_token_size
        verdict = kernels.verify(picks, given["drafts"], forced, at, said, given["history"], speech_ids)
        results["accepted"].copy_(verdict.accepted)
        lengths = verdict.positions.int()
        results["drafts"].copy_(
            drafter.propose(
                verdict.anchors,
                verdict.positions,
                given["seeds"][:, 0].contiguous(),
                verdict.said,
                verdict.history,
                given["tables"],
                lengths,
            )
        )

    def _draw(self, logits: Tensor, given: dict[str, Tensor]) -> Tensor:
        rule, speech_ids = self.sampling, self.layout.speech_token_size
        seeds, said, ending = (given[name].flatten() for name in ("seeds", "said", "ending"))
        history = given["history"].flatten(0, 1)
        if logits.is_cuda:
            from oscine_engine.runtime.kernels import lm_triton

            return lm_triton.sample(
                logits,
                seeds,
                said,
                ending,
                history,
                rule.top_p,
                rule.top_k,
                rule.win_size * rule.tau_r,
                self.temperature,
                speech_ids,
            )
        masked = mask_logits(logits, speech_ids, ending)
        ids = sample(masked, history, noise.keys(seeds, said), rule, self.temperature)
        return torch.where(masked.amax(-1).isfinite() & (said != NO_DRAW), ids, NO_ID)


class _Features:
    """Outputs of the layers that a drafter reads, side by side: `rows` [R, layers * hidden]."""

    def __init__(self, layers: tuple[int, ...], x: Tensor, dtype: torch.dtype) -> None:
        self._layers, self._hidden = layers, x.shape[1]
        self.rows = torch.empty(len(x), len(layers) * self._hidden, dtype=dtype, device=x.device)

    def take(self, layer: int, x: Tensor, more: Tensor | None = None) -> None:
        """x [R, hidden], and `more` added to it: what `layer` has put out, if it is one of them."""
        if layer in self._layers:
            first = self._layers.index(layer) * self._hidden
            self.rows[:, first : first + self._hidden].copy_(x if more is None else x + more)


def _fill_tiles(tick: _Tick, counts: Integers, starts: Integers, ends: Integers) -> None:
    """Cut every stream's rows in tiles."""
    host, most = tick.inputs.host, tick.shape.most
    cuts = (counts + most - 1) // most
    tiles, sequence = int(cuts.sum()), np.repeat(np.arange(len(counts)), cuts)
    skipped = (np.arange(tiles) - (cuts.cumsum() - cuts)[sequence]) * most
    host["first"][:tiles], host["start"][:tiles] = (ends - counts)[sequence] + skipped, starts[sequence] + skipped
    host["count"][:tiles], host["count"][tiles:] = np.minimum(most, counts[sequence] - skipped), 0
    host["sequence"][:tiles] = sequence
