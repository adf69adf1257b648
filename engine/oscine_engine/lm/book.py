"""The lines of streams that speak (`kernels.lm_lines`), kept from step to step, so that no step looks at each stream.

A line is written when a stream begins to speak and after whatever its rules had to decide; in between a step's lines
are those that the step before gave back. The book is small, and goes up to the device as a whole with every step.
"""

from collections.abc import Sequence

import torch

from oscine_engine.lm import noise
from oscine_engine.lm.interleave import Kind
from oscine_engine.lm.sampling import NO_ID
from oscine_engine.lm.stream import LMStream
from oscine_engine.runtime.graphs import Pulled
from oscine_engine.runtime.kernels.lm_lines import DRAWN, HELD, PAST

_SPEECH = Kind.SPEECH
_USUAL = (0,) * (PAST - DRAWN)


class Book:
    """Lines for `slots` streams and, behind them, one for nobody.

    at [most streams of a step]: their slots. lines [slots + 1, PAST + window + guesses]. pages [slots + 1, max_pages].
    All three are the host's; `given` has them on the device once a step has called `pull`.
    """

    def __init__(
        self, slots: int, most: int, window: int, guesses: int, max_pages: int, page_tokens: int, device: torch.device
    ) -> None:
        pulled = Pulled(
            {
                "at": ((most,), torch.int64),
                "lines": ((slots + 1, PAST + window + guesses), torch.int64),
                "pages": ((slots + 1, max_pages), torch.int32),
            },
            device,
        )
        self.nobody = slots
        self.window = window
        self.given = pulled.device
        self.pull = pulled.pull
        self.at, self.lines, self.pages = (pulled.host[name] for name in ("at", "lines", "pages"))
        self.at[:] = self.nobody
        self.lines[self.nobody, HELD] = -1
        self._page_tokens = page_tokens
        self._owners: list[LMStream | None] = [None] * slots
        self._free = list(reversed(range(slots)))

    def held(self, stream: LMStream) -> int:
        """Guesses that wait behind the stream's last id."""
        return max(0, int(self.lines[stream.slot, HELD])) if stream.slot >= 0 and self._speaks(stream) else 0

    def guesses(self, stream: LMStream) -> list[int]:
        """Those guesses."""
        first = PAST + self.window
        ids: list[int] = self.lines[stream.slot, first : first + self.held(stream)].tolist()
        return ids

    def write(self, stream: LMStream, company: Sequence[LMStream]) -> None:
        """Write the line of a stream that has pages for its next step, from what its rules say.

        If all slots are taken, one who is not in `company` loses its own, and what was guessed of it.
        """
        if stream.slot < 0:
            self._enter(stream, company)
        machine, line = stream.machine, self.lines[stream.slot]
        tokens, pages, window = stream.tokens, stream.pages, self.window
        stream.plain = self._speaks(stream)
        line[: PAST + window] = [
            noise.signed(stream.seed),
            len(tokens),
            stream.length + machine.num_pending - 1,
            machine.ends_from,
            machine.room,
            line[HELD] if stream.plain else machine.says - 1,
            len(pages) * self._page_tokens,
            stream.plain,
            *(_USUAL if stream.drawing is None else stream.drawing.words),
            *[NO_ID] * (window - len(tokens)),
            *tokens[-window:],
        ]
        self.pages[stream.slot, : len(pages)] = pages

    def keep_guesses(self, stream: LMStream, count: int) -> None:
        """The rules have had a say: of the guesses in the line, `count` at most are still of use."""
        stream.plain = False
        self.lines[stream.slot, HELD] = max(0, min(count, stream.machine.room - 1)) if self._speaks(stream) else 0

    def leave(self, stream: LMStream) -> None:
        """The stream has no line any more."""
        if stream.slot >= 0:
            self._owners[stream.slot] = None
            self._free.append(stream.slot)
            stream.slot, stream.plain = -1, False

    def _enter(self, stream: LMStream, company: Sequence[LMStream]) -> None:
        if not self._free:
            present = {each.slot for each in company}
            self.leave(next(owner for owner in self._owners if owner is not None and owner.slot not in present))
        stream.slot = self._free.pop()
        self._owners[stream.slot] = stream
        self.lines[stream.slot, HELD] = 0

    @staticmethod
    def _speaks(stream: LMStream) -> bool:
        """All that it is fed next is the id that it said last."""
        machine = stream.machine
        return (
            machine.says
            and machine.num_pending == 1
            and bool(stream.tokens)
            and machine.waiting[0] == (_SPEECH, stream.tokens[-1])
        )
