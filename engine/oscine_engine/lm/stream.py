"""One stream of the language model: its text and speech so far, and the pages that hold its past."""

from collections.abc import Sequence
from typing import Literal

from oscine_engine.errors import InternalError
from oscine_engine.lm.interleave import Interleaver, Layout, Phase, Prompt

Mode = Literal["whole", "interleaved"]
StreamState = Literal["needs_text", "running", "done"]


class LMStream:
    """Made by `LMRunner.open`, advanced by `LMRunner.step`, freed by `LMRunner.close`.

    tokens: speech ids said so far. pages, length: K/V pages held, and positions that count in them. drafts: guesses of
    what it says next, to be fed behind what waits and checked. failure: why the stream ended early, if its numbers went
    bad.
    """

    def __init__(self, layout: Layout, prompt: Prompt, mode: Mode, seed: int, limit: int | None) -> None:
        self.machine = Interleaver(layout, prompt, interleaved=mode == "interleaved", limit=limit)
        self.seed = seed
        self.tokens: list[int] = []
        self.pages: list[int] = []
        self.length = 0
        self.drafts: list[int] = []
        self.failure: InternalError | None = None
        self.closed = False

    def add_text(self, ids: Sequence[int]) -> None:
        """Append target text ids, in any pieces. Raises ValueError after `end_text`."""
        self.machine.add_text(ids)

    def end_text(self) -> None:
        """The text is complete."""
        self.machine.end_text()

    @property
    def capped(self) -> bool:
        """Done because the most ids its text allows were said, not because the model ended."""
        return self.machine.capped

    @property
    def positions_at_most(self) -> int:
        """Positions that its K/V can come to with the text so far."""
        return self.machine.positions_at_most

    @property
    def speech_at_most(self) -> int:
        """Speech ids that it may come to with the text so far."""
        return self.machine.speech_at_most

    @property
    def num_rows(self) -> int:
        """Rows of its next step: inputs and guesses."""
        return len(self.machine.waiting) + len(self.drafts)

    @property
    def state(self) -> StreamState:
        if self.closed or self.failure is not None or self.machine.phase is Phase.DONE:
            return "done"
        return "needs_text" if self.machine.phase is Phase.BOUNDARY else "running"

    @property
    def wants_step(self) -> bool:
        """There are inputs to feed. True also while text is awaited, if something before it can be computed already."""
        machine = self.machine
        ended = self.closed or self.failure is not None or machine.phase is Phase.DONE
        return not ended and len(machine.waiting) > 0
