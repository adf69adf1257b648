"""What the loop needs of a language model, wherever it is computed."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from oscine_engine.lm.drawing import Drawing
from oscine_engine.lm.interleave import Layout, Prompt
from oscine_engine.lm.stream import LMStream, Mode
from oscine_engine.options import Knobs

Wake: TypeAlias = Callable[[], bool]
"""Called from any thread: ids have come. False if nobody is there to take them."""
Costs: TypeAlias = Sequence[tuple[int, float]]
"""(rows, seconds) of a step."""


class LanguageModel(Protocol):
    """Streams are opened, stepped, rewound and closed in the loop's thread, and take text by methods of their own.

    A back end may compute a step when it is asked for it, or by itself all the time: then a step begins what can begin
    and takes what has come, and streams have nothing to step (`LMStream.num_ready`) until more comes.
    """

    layout: Layout
    wake: Wake
    """To be set by whoever steps; called by back ends that compute by themselves."""

    @property
    def costs(self) -> Costs | None:
        """Of its steps, if they need not be measured."""
        ...

    @property
    def pages_held(self) -> int:
        """Pages of this process's pool that streams hold."""
        ...

    def open(
        self,
        prompt: Prompt,
        *,
        mode: Mode = "whole",
        seed: int = 0,
        limit: int | None = None,
        drawing: Drawing | None = None,
    ) -> LMStream: ...

    def drawing(self, knobs: Knobs) -> Drawing | None:
        """What to open streams with that are drawn for by `knobs`. Raises InvalidInput for what it cannot do."""
        ...

    def close(self, stream: LMStream) -> None: ...

    @property
    def choices(self) -> tuple[int, ...]:
        """Numbers of guesses that a step may have, from 0 on."""
        ...

    @property
    def chances(self) -> tuple[float, ...]:
        """Of each guess, that it comes true if those before it did; the same object until they have changed."""
        ...

    def step(self, streams: list[LMStream], guesses: int | None = None) -> list[list[int]]:
        """guesses: that the step should check and make for each stream; None: as many as it can."""
        ...

    def rewind(self, stream: LMStream, keep: int, seed: int) -> None: ...

    def look(self) -> None:
        """Whoever steps has been woken and looks at what has come. Raises Unavailable for a back end that has died."""
        ...

    def wait(self) -> bool:
        """Block until ids come, for those who do not want to be woken. False at once if none are on their way."""
        ...

    def stop(self) -> None:
        """Give back everything; nothing is called after it."""
        ...
