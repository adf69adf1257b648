"""Places in a text that a client named, and which sentence each waits for. No I/O, no clock.

Sentences and flushes are counted together, in the order in which they were handed to the engine, which also answers
them in that order. A mark waits for the sentence it stands in, or behind; where that is still open, how many there are
up to its end is known when it is complete.
"""

from collections import deque
from collections.abc import Iterator

from oscine_engine.errors import InvalidInput

MOST = 1000
"""In one sentence."""


class TooManyMarks(InvalidInput):
    """They stand in one sentence, which ends only with more text: waiting would not help."""

    def __init__(self) -> None:
        super().__init__(f"mark: {MOST} stand in this sentence already; let it end before you set more")


class Marks:
    """Those of one session that are not answered yet, in order."""

    def __init__(self) -> None:
        self._placed: deque[tuple[str, int]] = deque()
        self._standing: list[str] = []
        self._flushes: deque[int] = deque()

    @property
    def standing(self) -> bool:
        """One stands in a sentence that is not complete."""
        return bool(self._standing)

    @property
    def placed(self) -> int:
        """How many wait for sentences that are complete."""
        return len(self._placed)

    def put(self, name: str, behind: int | None) -> None:
        """A mark behind the first `behind` sentences and flushes; None in one that is not complete. Raises TooManyMarks
        where it may not stand there, too."""
        if behind is None:
            if len(self._standing) >= MOST:
                raise TooManyMarks
            self._standing.append(name)
        else:
            self._placed.append((name, behind))

    def end(self, asked: int) -> None:
        """The sentence that was not complete is so now, or has turned out to be nothing that is said, such as a tag; up
        to there so many sentences and flushes were handed over."""
        self._placed += ((name, asked) for name in self._standing)
        self._standing.clear()

    def flush(self, behind: int) -> None:
        """A flush was handed over, behind so many sentences and flushes."""
        self._flushes.append(behind)

    def flushed(self) -> int:
        """The first flush was answered: how many came before it."""
        return self._flushes.popleft()

    def take(self, answered: int) -> Iterator[str]:
        """Names of the marks that wait for none beyond the first `answered`, each once."""
        while self._placed and self._placed[0][1] <= answered:
            yield self._placed.popleft()[0]
