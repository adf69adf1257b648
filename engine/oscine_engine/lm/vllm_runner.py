"""The language model in vLLM: it says ids all the time, and a step takes those that have come.

A stream's inputs are laid out by the same machine as for our own model (`interleave`). Whenever the machine may speak
and nothing is under way, a step makes a request of all inputs so far: one for a sentence read whole, one for every
block of text where it is interleaved. All but what is new of them is in vLLM's prefix cache. Blocks end by count, and
eos is kept out of them by the least number of ids.

Ids are drawn by temperature, top-k and top-p, seeded by the stream's seed and the place where the request begins, and
not with regard to what was said before (RAS): `guards` still catches loops.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager

from oscine_engine.checkpoint.merged import Merged
from oscine_engine.config import SamplingConfig
from oscine_engine.errors import InternalError, InvalidInput, Unavailable
from oscine_engine.lm import noise
from oscine_engine.lm.drawing import Drawing, drawing
from oscine_engine.lm.interleave import Input, Kind, Layout, Phase, Prompt
from oscine_engine.lm.port import Costs, Wake
from oscine_engine.lm.stream import LMStream, Mode
from oscine_engine.lm.vllm_requests import Ask, Engine, Over, Request, Requests
from oscine_engine.options import Knobs

COSTS: Costs = ((1, 5e-5), (512, 2e-3))
"""Taking ids costs next to nothing, whatever making them costs elsewhere; true costs are learned."""
SILENCE_S = 120.0
"""Nobody waits longer than that for an id."""
_REQUEST = 3
"""The use of `noise.key` that seeds requests."""


class VLLMStream(LMStream):
    """fed: inputs taken so far, in the merged vocabulary. request: what is under way."""

    def __init__(
        self,
        layout: Layout,
        prompt: Prompt,
        mode: Mode,
        seed: int,
        limit: int | None,
        drawing: Drawing | None = None,
    ) -> None:
        super().__init__(layout, prompt, mode, seed, limit, drawing)
        self.fed: list[int] = []
        self.request: Request | None = None

    @property
    def num_ready(self) -> int:
        if self.closed or self.failure is not None:
            return 0
        if self.request is not None:
            return len(self.request.news)
        return self.machine.num_pending if self.machine.says else 0

    @property
    def wants_step(self) -> bool:
        return self.num_ready > 0


class VLLMRunner:
    """The `LanguageModel` whose ids come from an engine like vLLM's, which `start` opens and `stop` closes."""

    costs: Costs | None = COSTS
    choices: tuple[int, ...] = (0,)
    chances: tuple[float, ...] = ()
    pages_held = 0
    """vLLM has its own."""

    def __init__(
        self,
        opened: Callable[[], AbstractAsyncContextManager[Engine]],
        layout: Layout,
        vocabulary: Merged,
        sampling: SamplingConfig | None = None,
    ) -> None:
        """sampling: how the model is drawn from; None: as the released one."""
        self.layout = layout
        self._sampling = sampling or SamplingConfig()
        self.wake: Wake = lambda: False
        self._vocabulary = vocabulary
        self.requests = Requests(opened, self._tell)
        self._asked: set[Request] = set()
        self._came = threading.Event()
        self._woken = False
        """Somebody was woken who has not looked yet."""

    def start(self) -> None:
        """Open the engine; may take minutes. Raises what keeps it from starting."""
        self.requests.start()

    def stop(self) -> None:
        self.requests.stop()

    def open(
        self,
        prompt: Prompt,
        *,
        mode: Mode = "whole",
        seed: int = 0,
        limit: int | None = None,
        drawing: Drawing | None = None,
    ) -> VLLMStream:
        return VLLMStream(self.layout, prompt, mode, seed, limit, drawing)

    def drawing(self, knobs: Knobs) -> Drawing | None:
        """As `LanguageModel.drawing`. vLLM draws without regard to repetition."""
        if knobs.repetition_window is not None or knobs.repetition_limit is not None:
            raise InvalidInput(
                "repetition_window, repetition_limit: this service draws with vLLM, which does not know them; leave "
                "them out"
            )
        return drawing(knobs, self._sampling)

    def close(self, stream: LMStream) -> None:
        self._drop(_ours(stream))
        stream.closed = True

    def step(self, streams: list[LMStream], guesses: int | None = None) -> list[list[int]]:
        """Take what has come for each stream, and ask for more where nothing is under way: the ids that came.

        How many ids vLLM guesses it has been told when it was started.
        """
        return [self._advance(_ours(stream)) if stream.wants_step else [] for stream in streams]

    def rewind(self, stream: LMStream, keep: int, seed: int) -> None:
        """As `LMRunner.rewind`; what was under way is aborted."""
        own = _ours(stream)
        own.rewind(keep, seed)
        self._drop(own)
        own.fed = own.fed[: own.length]

    def look(self) -> None:
        self._woken = False
        if self.requests.dead is not None:
            raise self.requests.dead

    def wait(self) -> bool:
        if not self._asked:
            return False
        if not self._came.wait(SILENCE_S):
            raise Unavailable(f"vLLM has said nothing for {SILENCE_S:.0f} s")
        self._came.clear()
        return True

    def _tell(self) -> None:
        """In the requests' thread: there is news of one of them."""
        self._came.set()
        if not self._woken:
            self._woken = True
            if not self.wake():
                self._woken = False

    def _advance(self, stream: VLLMStream) -> list[int]:
        request, said = stream.request, len(stream.tokens)
        if request is None:
            self._ask(stream)
            return []
        while request.news and stream.failure is None:
            match request.news.popleft():
                case list() as ids:
                    self._hear(stream, ids)
                case Over():
                    self._drop(stream)
                    # Behind a block more waits than the id said last.
                    if stream.machine.says and stream.machine.num_pending < 2:
                        stream.failure = InternalError(f"vLLM ended after {len(stream.tokens)} ids without a reason")
                case error:
                    stream.failure = InternalError(f"vLLM failed after {len(stream.tokens)} ids: {error}")
        if stream.failure is not None:
            self._drop(stream)
        return stream.tokens[said:]

    def _ask(self, stream: VLLMStream) -> None:
        machine = stream.machine
        self._feed(stream)
        most = machine.room
        least = min(most, max(0, machine.ends_from - machine.said))
        seed = noise.key(stream.seed, len(stream.tokens), _REQUEST) & (1 << 63) - 1
        stream.request = self.requests.ask(Ask(tuple(stream.fed), least, most, seed, stream.drawing))
        self._asked.add(stream.request)

    def _hear(self, stream: VLLMStream, ids: Iterable[int]) -> None:
        for merged_id in ids:
            # What it says while it goes on it feeds itself, and no more than that may wait.
            if not stream.machine.says or stream.machine.num_pending > 1:
                stream.failure = InternalError(f"vLLM said more than the {len(stream.tokens)} ids it was asked for")
                return
            self._feed(stream)
            stream.say(merged_id - self._vocabulary.text_ids)
            if stream.failure is not None or stream.machine.phase is Phase.DONE:
                return

    def _feed(self, stream: VLLMStream) -> None:
        stream.fed += [self._merged(item) for item in stream.machine.take().inputs]
        stream.length = len(stream.fed)

    def _merged(self, item: Input) -> int:
        return item.id if item.kind is Kind.TEXT else item.id + self._vocabulary.text_ids

    def _drop(self, stream: VLLMStream) -> None:
        if (request := stream.request) is not None:
            self.requests.drop(request)
            self._asked.discard(request)
            stream.request = None


def _ours(stream: LMStream) -> VLLMStream:
    assert isinstance(stream, VLLMStream)
    return stream
