"""The language model for a GPU: a step is one launch and one wait, whatever the streams feed.

Two families of graphs. `say` is for 1, 2, 4 ... streams, all of which feed the id they said last and speak. `read` is
rows in tiles: texts and such streams in any mixture, filled up to the next size. A step that fits no size is cut in
several. With a drafter, guesses follow the last id as rows of their own in both; all that the model itself would have
said are said at once, and the next guesses come from the same launch. How many are checked and made is the caller's
choice, step by step; none leaves the draft network out, but for what it must remember.

What speaks lies in a `Book`, whose lines go up, and come back as the next step's, in the graphs themselves. So a step
of streams that only go on speaking costs the host a list of slots, whatever they are at; texts, and what the rules of
`interleave` must decide, are looked at one by one.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.config import SamplingConfig, TextRules
from oscine_engine.lm.acceptance import Acceptance
from oscine_engine.lm.book import Book
from oscine_engine.lm.interleave import Kind
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import PackedLM
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.speculation import Drafter, lots
from oscine_engine.lm.stream import LMStream
from oscine_engine.runtime.graphs import Graphs, Outputs, Pulled, Step
from oscine_engine.runtime.kernels import lm as kernels
from oscine_engine.runtime.kernels import lm_lines
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
_BOOKED = 2
"""Lines for so many times the streams of a step: of each stream, one sentence sounds and the next is read."""

_SPEECH = Kind.SPEECH
"""To ask the class for it takes longer than all else that is done with an input."""


def choices_of(count: int) -> tuple[int, ...]:
    """How many guesses steps may have, of a drafter that makes `count`: none, half of them, all.

    Without half of seven an H200 would say up to 9 to 12 % fewer ids a second, whatever the number of streams, should a
    step of all say 1.5 to 3.5 ids; with a single one, too, at most 7 % more, between 1.3 and 1.9.
    """
    return tuple(sorted({0, count // 2, count}))


class _Shape(NamedTuple):
    """rows, in tiles of at most `most`; streams: at most so many, all of which may say; draws: behind each, ids that
    are drawn, one more than guesses. reads: whether there are texts."""

    rows: int
    tiles: int
    most: int
    streams: int
    draws: int
    reads: bool


class _Tick:
    """One graph and what goes in and out of it. texts: rows and tiles that the host lays out."""

    def __init__(self, runner: "GraphedLM", shape: _Shape) -> None:
        rows, tiles, most, streams, draws, reads = shape
        book, device = runner.book, runner.device
        self.shape = shape
        by_row = {name: ((rows,), torch.int64) for name in ("ids", "kinds", "positions", "slots")}
        by_tile = {name: ((tiles,), torch.int32) for name in ("first", "held", "start", "sequence")}
        self.texts = Pulled({**by_row, **by_tile, "last": ((streams,), torch.int64)}, device) if reads else None
        if self.texts is not None:
            there = {name: self.texts.device[name] for name in (*by_row, *by_tile)}
        else:
            fields = (*by_row.items(), *by_tile.items())
            there = {name: torch.zeros(size, dtype=dtype, device=device) for name, (size, dtype) in fields}
        line = book.lines.shape[1]
        self.laid = lm_lines.Laid(
            lines=torch.zeros(streams, line, dtype=torch.int64, device=device),
            tables=torch.zeros(streams, book.pages.shape[1], dtype=torch.int32, device=device),
            says=torch.zeros(streams, draws, dtype=torch.int64, device=device),
            **there,
        )
        counts = {"ids": (streams, draws), "tally": (streams, 2), "lines": (streams, line)}
        self.outputs = Outputs({name: (size, torch.int64) for name, size in counts.items()}, device)
        splits = _SPLITS if _SPLITS * tiles * runner.packed.config.num_key_value_heads <= _PROGRAMS else 1
        laid = self.laid
        places = (laid.first, laid.held, laid.start, laid.sequence, laid.tables)
        self.tiles = kernels.Tiles(*places, most=most, splits=splits)
        self._runner = runner
        self.run: Step = self._step

    def capture(self, graphs: Graphs) -> None:
        if self.texts is not None:
            self.texts.host["slots"][:] = -1
        self._runner.book.at[:] = self._runner.book.nobody
        self.run = graphs.capture(self._step)

    @torch.inference_mode()
    def _step(self) -> None:
        book, shape = self._runner.book, self.shape
        book.pull()
        last = None
        if self.texts is not None:
            self.texts.pull()
            last = self.texts.device["last"]
        at = book.given["at"][: shape.streams]
        lines, pages = book.given["lines"], book.given["pages"]
        lm_lines.lay_out(at, lines, pages, last, self.laid, book.window, self._runner.page_tokens)
        self._runner.compute(self.laid, self.tiles, self.outputs.device)
        self.outputs.fetch()


class GraphedLM(LMRunner):
    """As LMRunner, over weights of the type that `lm` has. max_streams: most streams of one launch.

    drafter: guesses what streams say next; ids are the same without one, and however many guesses a step has. choices:
    numbers of guesses that there are graphs for, beside none and all; None: see `choices_of`. acceptance: how often
    guesses come true. forced_acceptance: for benchmarks, the ids that a step says on average if all guesses are
    checked, whatever was guessed; then ids mean nothing. aside: whether steps run beside what others do on the device.
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
        choices: Sequence[int] | None = None,
        forced_acceptance: float | None = None,
        aside: bool = False,
    ) -> None:
        super().__init__(lm, pool, sampling, rules, temperature=temperature)
        self.device = pool.data.device
        self.drafter = drafter
        count = 0 if drafter is None else drafter.count
        if count >= _TILE:
            raise ValueError(f"{count} guesses a step are more than the {_TILE - 1} that a tile takes")
        if forced_acceptance is not None and drafter is None:
            raise ValueError("without a drafter there is nothing to accept")
        self.choices = choices_of(count) if choices is None else tuple(sorted({0, *choices, count}))
        if not 0 <= self.choices[0] <= self.choices[-1] <= count:
            raise ValueError(f"of {count} guesses a step cannot have {self.choices}")
        self._offered = [min(each for each in self.choices if each >= asked) for asked in range(count + 1)]
        self._lots = None
        if forced_acceptance is not None:
            self._lots = torch.from_numpy(lots(forced_acceptance, count)).to(self.device)
        self._max_streams = max_streams
        self._rule = lm_lines.Rule(sampling, temperature, self.layout.speech_token_size)
        config = self.packed.config
        exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        angles = torch.arange(max_positions, dtype=torch.float32)[:, None] * config.rope_theta**-exponent
        self._cos, self._sin = angles.cos().to(self.device), angles.sin().to(self.device)
        max_pages = -(-max_positions // self.page_tokens)
        sizes = [1 << power for power in range((max_streams - 1).bit_length() + 1)]
        most = sizes[-1]
        self.acceptance = Acceptance(count, most)
        self.book = Book(_BOOKED * most, most, sampling.win_size, count, max_pages, self.page_tokens, self.device)
        self._graphs = Graphs(self.device, aside=aside)
        # Tiles are as high as guesses need, however few there are: another height is a kernel to compile.
        self._say = {
            size: [
                _Tick(self, _Shape(size * (1 + guesses), size, 1 + count, size, 1 + guesses, reads=False))
                for guesses in self.choices
            ]
            for size in sizes
        }
        # A text beside few streams, or alone, is read with all guesses whatever was asked: it is one step of many.
        read = {min(_FEW_STREAMS, most): self.choices[-1:], most: self.choices}
        self._read = [
            _Tick(self, _Shape(rows, rows // _TILE + streams, _TILE, streams, 1 + guesses, reads=True))
            for rows in _READ_ROWS
            for streams in sorted(read)
            for guesses in read[streams]
        ]

    def capture(self, progress: Callable[[str], object] | None = None) -> None:
        """Capture every size, so that no tick ever has to. Takes seconds."""
        say = [tick for ticks in self._say.values() for tick in ticks]
        for tick in [*reversed(self._read), *reversed(say)]:
            if progress is not None:
                rows, _, _, streams, draws, _ = tick.shape
                progress(f"language model, {rows} rows, {streams} streams, {draws - 1} guesses")
            tick.capture(self._graphs)

    @property
    def chances(self) -> tuple[float, ...]:
        """Of each guess, that it comes true if those before it did, of late."""
        return self.acceptance.chances

    def step(self, streams: list[LMStream], guesses: int | None = None) -> list[list[int]]:
        """As LMRunner.step. guesses: that are checked and made for each stream, or the next more that there is a graph
        for; None: as many as can be."""
        most = self._offered[-1 if guesses is None else min(guesses, self.acceptance.count)]
        if streams and len(streams) <= self._max_streams and all([stream.plain for stream in streams]):
            return self._run(self._saying(len(streams), most), streams, len(streams))
        active = [stream for stream in streams if stream.plain or stream.wants_step]
        wanted = self.pages_wanted(active)
        if wanted > self.pool.num_free:
            raise PoolExhausted(f"this step needs {wanted} pages, {self.pool.num_free} are free")
        said: dict[int, list[int]] = {}
        group: list[LMStream] = []
        rows = 0
        for stream in active:
            more = 1 + most if stream.plain else max(1 + most, stream.machine.num_pending)
            if group and (rows + more > _READ_ROWS[-1] or len(group) == self._max_streams):
                self._step(group, most, said)
                group, rows = [], 0
            group.append(stream)
            rows += more
        if group:
            self._step(group, most, said)
        return [said.get(id(stream), []) for stream in streams]

    def pages_wanted(self, streams: list[LMStream]) -> int:
        """As LMRunner.pages_wanted. Streams that are `plain` want none."""
        return sum(self._pages_of(stream) for stream in streams if not stream.plain and stream.wants_step)

    def guesses(self, stream: LMStream) -> list[int]:
        """What it is guessed to say next."""
        return self.book.guesses(stream)

    def rewind(self, stream: LMStream, keep: int, seed: int) -> None:
        """As LMRunner.rewind. Guesses are forgotten."""
        super().rewind(stream, keep, seed)
        self.book.leave(stream)

    def close(self, stream: LMStream) -> None:
        """As LMRunner.close."""
        super().close(stream)
        self.book.leave(stream)

    def _pages_of(self, stream: LMStream) -> int:
        return self._new_pages(stream, stream.machine.num_pending + self.book.held(stream))

    def _saying(self, streams: int, guesses: int) -> _Tick:
        return self._say[1 << (streams - 1).bit_length()][self.choices.index(guesses)]

    def _step(self, group: list[LMStream], guesses: int, said: dict[int, list[int]]) -> None:
        """One launch for streams in any state. Until it is done nothing has changed but that pages are held."""
        for stream in group:
            if not stream.plain:
                stream.pages += self.pool.alloc(self._pages_of(stream))
                self.book.write(stream, group)
        texts = [stream for stream in group if not stream.plain]
        plain = len(group) - len(texts)
        saying = plain + sum(stream.machine.says for stream in texts)
        if texts:
            # Those that speak come first: results are theirs.
            texts.sort(key=lambda stream: not stream.machine.says)
            group = [stream for stream in group if stream.plain] + texts
            tick = self._reading(len(group), plain, sum(stream.machine.num_pending for stream in texts), guesses)
            self._fill(tick, texts, plain)
        else:
            tick = self._saying(plain, guesses)
        spoken = self._run(tick, group, saying)
        said.update((id(stream), ids) for stream, ids in zip(group, spoken, strict=False))

    def _reading(self, streams: int, plain: int, texts: int, guesses: int) -> _Tick:
        for tick in self._read:
            rows, _, _, most, draws, _ = tick.shape
            if streams <= most and guesses < draws and plain * draws + texts <= rows:
                return tick
        raise ValueError(f"a text of {texts} ids is longer than the {_READ_ROWS[-1]} that are read at once")

    def _fill(self, tick: _Tick, texts: list[LMStream], plain: int) -> None:
        """Lay out the rows and tiles of `texts`, behind so many streams whose own the device lays out."""
        assert tick.texts is not None
        host, size, most = tick.texts.host, self.page_tokens, tick.shape.most
        host["slots"][:], host["held"][:] = -1, 0
        row, tile = plain * tick.shape.draws, plain
        for number, stream in enumerate(texts, plain):
            inputs = stream.machine.waiting
            count, start = len(inputs), stream.length
            there, places = slice(row, row + count), np.arange(start, start + count)
            kinds, ids = zip(*inputs, strict=True)
            host["kinds"][there], host["ids"][there] = [kind is _SPEECH for kind in kinds], ids
            host["positions"][there] = places
            host["slots"][there] = np.array(stream.pages)[places // size] * size + places % size
            host["last"][number] = row + count - 1
            skipped = np.arange(0, count, most)
            tiles = slice(tile, tile + len(skipped))
            host["first"][tiles], host["start"][tiles] = row + skipped, start + skipped
            host["held"][tiles], host["sequence"][tiles] = np.minimum(most, count - skipped), number
            row, tile = row + count, tile + len(skipped)

    def _run(self, tick: _Tick, group: list[LMStream], saying: int) -> list[list[int]]:
        """Launch, and take what the first `saying` streams said."""
        book, size = self.book, len(group)
        book.at[:size] = [stream.slot for stream in group]
        book.at[size : tick.shape.streams] = book.nobody
        tick.run()
        self._graphs.mark()
        self._graphs.wait()
        for stream in group[saying:]:
            stream.length += stream.machine.fed()
        results = tick.outputs.host
        tally = results["tally"][:saying]
        book.lines[book.at[:saying]] = results["lines"][:saying]
        self.acceptance.note(tally)
        said, draws = [], tick.shape.draws
        for stream, ids, count in zip(group, results["ids"].tolist(), tally[:, 0].tolist(), strict=False):
            if count > 0:
                if count < draws:
                    ids = ids[:count]
                if not stream.plain:
                    stream.length += stream.machine.num_pending - 1
                    stream.plain = True
                stream.length += count
                stream.tokens += ids
            else:
                ids = self._judge(stream, ids[:-count], draws - 1)
            said.append(ids)
        return said

    def _judge(self, stream: LMStream, picks: list[int], guesses: int) -> list[int]:
        """Say ids of which all but the last were fed already, as the rules have it. Returns those that are speech."""
        kept = len(picks)
        for count, chosen in enumerate(picks):
            stream.length += stream.machine.fed()
            if not stream.say(chosen):
                kept = count
                break
        if stream.wants_step or stream.state == "needs_text":
            self.book.keep_guesses(stream, guesses)
        else:
            self.book.leave(stream)
        return picks[:kept]

    def compute(self, laid: lm_lines.Laid, tiles: kernels.Tiles, results: dict[str, Tensor]) -> None:
        """All that happens on the device: rows in; ids, and the lines of the next step, out."""
        packed: PackedLM = self.packed
        config, heads = packed.config, packed.config.num_attention_heads
        eps = config.rms_norm_eps
        x = kernels.embed(laid.kinds, laid.ids, packed.text_embedding, packed.speech_embedding)
        features = None if self.drafter is None else _Features(self.drafter.layers, x, packed.dtype)
        rows: Tensor | None = None
        for index, layer in enumerate(packed.layers):
            cache = self.pool.data[:, index]
            normed = kernels.add_norm(x, rows, layer.attention_norm, eps)
            if features is not None:
                features.take(index - 1, x)
            places = (laid.positions, laid.slots, self._cos, self._sin, cache, heads)
            qkv = kernels.project(normed, layer.qkv, layer.qkv_bias, *places)
            seen = kernels.attend(qkv, laid.positions, self._cos, self._sin, cache, heads, tiles)
            normed = kernels.add_norm(x, F.linear(seen, layer.out), layer.mlp_norm, eps)
            rows = F.linear(kernels.gated(normed, layer.gate_up), layer.down)
        assert rows is not None
        hidden = kernels.norm_some(x, rows, laid.says.flatten(), packed.norm, eps)
        picks = self._draw(self._logits(hidden), laid.lines)
        verdict = lm_lines.verify(picks, laid.lines, self._lots, self.book.window, self._rule.speech_ids)
        results["ids"].copy_(picks)
        results["tally"].copy_(verdict.tally)
        results["lines"].copy_(verdict.lines)
        if self.drafter is None or features is None:
            return
        features.take(len(packed.layers) - 1, x, rows)
        self.drafter.remember(features.rows, laid.positions, laid.slots)
        if picks.shape[1] > 1:
            first = lm_lines.PAST + self.book.window
            guesses = results["lines"][:, first : first + picks.shape[1] - 1]
            guesses.copy_(self._guess(self.drafter, verdict, laid.tables, guesses.shape[1]))

    def _logits(self, hidden: Tensor) -> Tensor:
        """float32 [S, decoder_rows], added up in float32 whatever the weights are."""
        if hidden.is_cuda and hidden.dtype != torch.float32:
            return torch.mm(hidden, self.packed.head_weight.t(), out_dtype=torch.float32)
        return F.linear(hidden.float(), self.packed.head_weight.float())

    def _draw(self, logits: Tensor, lines: Tensor) -> Tensor:
        return lm_lines.sample(logits, lines, self.book.window, self._rule)

    def _guess(self, drafter: Drafter, verdict: lm_lines.Verdict, tables: Tensor, count: int) -> Tensor:
        _, _, anchors, positions, seeds, said, history = verdict
        return drafter.propose(anchors, positions, seeds, said, history, tables, positions.int(), count)


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
