"""One stream of the language model: its text and speech so far, and the pages that hold its past."""

from collections.abc import Sequence
from typing import Literal

from oscine_engine.errors import InternalError
from oscine_engine.lm.drawing import Drawing
from oscine_engine.lm.interleave import Interleaver, Layout, Phase, Prompt
from oscine_engine.lm.sampling import NO_ID

Mode = Literal["whole", "interleaved"]
StreamState = Literal["needs_text", "running", "done"]


class LMStream:
    """Made by `LMRunner.open`, advanced by `LMRunner.step`, freed by `LMRunner.close`.

    tokens: speech ids said so far. pages, length: K/V pages held, and positions that count in them. slot: its line in a
    runner's `Book`, -1 for none. plain: that line is all its next step needs: it goes on speaking, from the id said
    last, and has pages for it. failure: why the stream ended early, if its numbers went bad. drawing: how its ids are
    drawn, None for as the model says.
    """

    def __init__(
        self,
        layout: Layout,
        prompt: Prompt,
        mode: Mode,
        seed: int,
        limit: int | None,
        drawing: Drawing | None = None,
    ) -> None:
        self._machine = Interleaver(layout, prompt, interleaved=mode == "interleaved", limit=limit)
        self.seed = seed
        self.drawing = drawing
        self.tokens: list[int] = []
        self.pages: list[int] = []
        self.length = 0
        self.slot = -1
        self.plain = False
        self.failure: InternalError | None = None
        self.closed = False

    @property
    def machine(self) -> Interleaver:
        """What is fed and may be said. It hears what a `plain` stream says when it is asked for: mostly it is not."""
        machine = self._machine
        if machine.said < len(self.tokens):
            machine.ran(self.tokens[machine.said :])
        return machine

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
    def num_ready(self) -> int:
        """Rows that its next step would feed, or ids that it would take; 0 if there is nothing to step."""
        return self.machine.num_pending

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

    def say(self, chosen: int) -> bool:
        """Take what was drawn; true if it is speech. The stream fails over what cannot be taken."""
        if chosen == NO_ID:
            self.failure = InternalError(f"the language model's output is not finite after {len(self.tokens)} ids")
            return False
        try:
            is_speech = self.machine.say(chosen)
        except ValueError as error:
            self.failure = InternalError(f"the language model's choice cannot be taken: {error}")
            return False
        if is_speech:
            self.tokens.append(chosen)
        return is_speech

    def rewind(self, keep: int, seed: int) -> None:
        """Take back all that was said after the first `keep` ids; from there it draws on with `seed`.

        What it holds stays with it, for its runner to let go of. Raises ValueError, with nothing changed, for more ids
        than were said and for a stream that was closed.
        """
        if self.closed or not 0 <= keep <= len(self.tokens):
            state = "is closed" if self.closed else f"has said {len(self.tokens)} ids"
            raise ValueError(f"cannot go back to {keep} ids: the stream {state}")
        kept = self.tokens[:keep]
        self._machine, self.length = self.machine.rewound(kept)
        self.tokens, self.seed, self.failure = kept, seed, None
