"""Steps the language model for a batch of streams of any lengths, one packed forward a step."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from oscine_engine.config import SamplingConfig, TextRules
from oscine_engine.lm import noise
from oscine_engine.lm.attention import Span, causal_mask
from oscine_engine.lm.drawing import Drawing, drawing, usual
from oscine_engine.lm.interleave import Input, Layout, Prompt
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import PackedLM, page_shape
from oscine_engine.lm.port import Costs, Wake
from oscine_engine.lm.sampling import NO_ID, Rows, mask_logits, sample
from oscine_engine.lm.stream import LMStream, Mode
from oscine_engine.options import Knobs
from oscine_engine.runtime.pages import PagePool, PoolExhausted


class Draw(NamedTuple):
    """One id to sample: the stream's seed, the ids said before it, whether eos is legal, and how it is drawn, None for
    as the model says."""

    seed: int
    said: Sequence[int]
    may_end: bool
    drawing: Drawing | None = None


class LMRunner:
    """A `LanguageModel` of this process.

    Owns the packed weights; streams own their pages of `pool`, whose pages have `packed.page_shape`.
    """

    costs: Costs | None = None
    choices: tuple[int, ...] = (0,)

    @property
    def chances(self) -> tuple[float, ...]:
        """It guesses nothing."""
        return ()

    def __init__(
        self,
        lm: SpeechLM,
        pool: PagePool,
        sampling: SamplingConfig,
        rules: TextRules,
        *,
        temperature: float = 1.0,
    ) -> None:
        self.packed = PackedLM(lm)
        self.pool = pool
        self.sampling = sampling
        self.temperature = temperature
        self.layout = Layout.of(lm.config, rules)
        self.wake: Wake = lambda: False
        self.page_tokens = int(pool.data.shape[-2])
        if tuple(pool.data.shape[1:]) != page_shape(lm.config, self.page_tokens):
            raise ValueError(
                f"pages of shape {tuple(pool.data.shape[1:])} do not fit this model; "
                f"make the pool with page_shape {page_shape(lm.config, self.page_tokens)}"
            )

    @property
    def pages_held(self) -> int:
        """Pages that streams hold."""
        return self.pool.num_pages - self.pool.num_free

    def look(self) -> None:
        """Nothing comes by itself."""

    def wait(self) -> bool:
        """Nothing is ever on its way."""
        return False

    def stop(self) -> None:
        """There is nothing to give back."""

    def open(
        self,
        prompt: Prompt,
        *,
        mode: Mode = "whole",
        seed: int = 0,
        limit: int | None = None,
        drawing: Drawing | None = None,
    ) -> LMStream:
        """A stream that speaks the text it will be given as `prompt` does. Holds no pages until its first step.

        limit: most speech ids, the guard against a model that does not stop; the text's maximum holds besides.
        """
        return LMStream(self.layout, prompt, mode, seed, limit, drawing)

    def drawing(self, knobs: Knobs) -> Drawing | None:
        """As `LanguageModel.drawing`."""
        return drawing(knobs, self.sampling, self.temperature)

    def close(self, stream: LMStream) -> None:
        """Free the stream's pages. Closing twice changes nothing."""
        self.pool.release(stream.pages)
        stream.pages = []
        stream.closed = True

    def pages_wanted(self, streams: list[LMStream]) -> int:
        """Pages that the next step of these streams will allocate."""
        return sum(self._new_pages(s, s.machine.num_pending) for s in streams if s.wants_step)

    @torch.inference_mode()
    def step(self, streams: list[LMStream], guesses: int | None = None) -> list[list[int]]:
        """Feed every stream what waits, and let those speak that are to: the speech ids that each stream said.

        Streams without inputs are passed over. A stream whose logits are not finite, or whose id is not legal, ends
        with its `failure` set; the others are unaffected. Raises PoolExhausted if the pool has too few pages. Whatever
        is raised, no stream has moved: the step can be taken again, by fewer of them perhaps.
        """
        said: list[list[int]] = [[] for _ in streams]
        active = [index for index, stream in enumerate(streams) if stream.wants_step]
        if not active:
            return said
        wanted = self.pages_wanted(streams)
        if wanted > self.pool.num_free:
            raise PoolExhausted(f"this step needs {wanted} pages, {self.pool.num_free} are free")
        feeds = [streams[index].machine.take() for index in active]
        row = 0
        saying: list[int] = []
        rows: list[int] = []
        draws: list[Draw] = []
        for index, feed in zip(active, feeds, strict=True):
            row += len(feed.inputs)
            if feed.says:
                saying.append(index)
                rows.append(row - 1)
                stream = streams[index]
                draws.append(Draw(stream.seed, stream.tokens, feed.may_end, stream.drawing))
        try:
            hidden = self.forward([(streams[i], feed.inputs) for i, feed in zip(active, feeds, strict=True)])
            ids = self.choose(self.packed.head(hidden[rows]), draws) if saying else []
        except BaseException:
            for index, feed in zip(active, feeds, strict=True):
                streams[index].machine.put_back(feed)
            raise
        for index, feed in zip(active, feeds, strict=True):
            streams[index].length += len(feed.inputs)
        for index, chosen in zip(saying, ids, strict=True):
            if streams[index].say(chosen):
                said[index].append(chosen)
        return said

    def rewind(self, stream: LMStream, keep: int, seed: int) -> None:
        """Take back all that `stream` said after its first `keep` ids; from there it draws on with `seed`.

        With its own seed it would say the same again. Pages that held only what is taken back are freed. Raises
        ValueError, with nothing changed, for more ids than were said and for a stream that was closed.
        """
        stream.rewind(keep, seed)
        used = -(-stream.length // self.page_tokens)
        stream.pages, freed = stream.pages[:used], stream.pages[used:]
        self.pool.release(freed)

    @torch.inference_mode()
    def forward(self, fed: list[tuple[LMStream, list[Input]]]) -> Tensor:
        """Hidden states [all inputs, hidden] of each stream's inputs, placed after its `length` positions.

        K and V are written but `length` is left alone: a caller that verifies a draft adds only what it accepts.
        """
        device, size = self.packed.device, self.page_tokens
        spans: list[Span] = []
        slots: list[tuple[int, int]] = []
        positions: list[int] = []
        for stream, inputs in fed:
            stream.pages += self.pool.alloc(self._new_pages(stream, len(inputs)))
            end = stream.length + len(inputs)
            mask = causal_mask(stream.length, len(inputs), device)
            spans.append(Span(len(positions), len(inputs), stream.length, stream.pages[: -(-end // size)], mask))
            slots += [(stream.pages[at // size], at % size) for at in range(stream.length, end)]
            positions += range(stream.length, end)
        ids = torch.tensor([item.id for _, inputs in fed for item in inputs], device=device)
        kinds = torch.tensor([item.kind.value for _, inputs in fed for item in inputs], device=device)
        return self.packed.forward(
            self.packed.embed(kinds, ids),
            torch.tensor(positions, device=device),
            self.pool.data,
            spans,
            torch.tensor(slots, device=device),
        )

    def choose(self, logits: Tensor, draws: list[Draw]) -> list[int]:
        """The ids drawn from raw logits [B, decoder_rows], one a draw; NO_ID where they are not finite.

        An id depends on its logits and its draw and on nothing else, so several positions of one stream may be drawn
        at once, each with the ids a draft says before it.
        """
        device, window = logits.device, self.sampling.win_size
        may_end = torch.tensor([draw.may_end for draw in draws], device=device)
        masked = mask_logits(logits, self.layout.speech_token_size, may_end)
        history = [([NO_ID] * window + list(draw.said[-window:]))[-window:] for draw in draws]
        keys = [[noise.key(draw.seed, len(draw.said), use) for use in (0, 1)] for draw in draws]
        rule: SamplingConfig | Rows = self.sampling
        if any(draw.drawing is not None for draw in draws):
            ours = usual(self.sampling, self.temperature)
            rule = Rows.of([draw.drawing or ours for draw in draws], device)
        ids = sample(
            masked, torch.tensor(history, device=device), torch.tensor(keys, device=device), rule, self.temperature
        )
        chosen: list[int] = torch.where(masked.amax(-1).isfinite(), ids, NO_ID).tolist()
        return chosen

    def _new_pages(self, stream: LMStream, count: int) -> int:
        return max(0, -(-(stream.length + count) // self.page_tokens) - len(stream.pages))
