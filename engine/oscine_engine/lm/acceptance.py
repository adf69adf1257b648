"""How often guesses have come true of late: by place, among all streams.

A place's chance is that its guess is right if those before it were. Places that are not guessed, since few guesses pay,
or none, drift back to what is supposed at first: so they are tried again now and then, and it shows if they pay by now.
"""

import numpy as np
from numpy.typing import NDArray

from oscine_engine.lm.speculation import Integers

SUPPOSED = 0.7
"""Chance of a guess that nobody has checked yet: a step of seven says three ids."""
RATE = 0.01
"""Share of one guess in a place's chance."""
DRIFT = 0.01
"""Share of the way back that is gone in STEPS steps without a guess: most of it in some 1,500."""
STEPS = 16
"""So many steps are taken into account together, which costs less."""
SHOWN = 0.01
"""Chances are told anew once one of them has moved so far."""


class Acceptance:
    """chances: of guesses 1 to `count`; the same object until they have changed."""

    def __init__(self, count: int, most: int) -> None:
        """most: streams of one step."""
        self.count = count
        self.chances: tuple[float, ...] = (SUPPOSED,) * count
        self._exact = list(self.chances)
        self._tallies = np.zeros((STEPS * most, 2), np.int64)
        self._rows = self._steps = 0

    def note(self, tally: NDArray[np.generic]) -> None:
        """A step's tally [streams, 2]: ids said, their sign being of no account, and guesses checked."""
        if not self.count:
            return
        rows = self._rows + len(tally)
        self._tallies[self._rows : rows] = tally
        self._rows, self._steps = rows, self._steps + 1
        if self._steps == STEPS:
            self._count_up()

    def _count_up(self) -> None:
        said, checked = np.abs(self._tallies[: self._rows]).T
        self._rows = self._steps = 0
        right = _at_least(said - 1, self.count)
        tried = _at_least(np.minimum(said, checked), self.count)
        for place, (kept, of) in enumerate(zip(right, tried, strict=True)):
            chance = self._exact[place]
            if of:
                chance += (1 - (1 - RATE) ** of) * (kept / of - chance)
            else:
                chance += DRIFT * (SUPPOSED - chance)
            self._exact[place] = chance
        if any(abs(new - old) > SHOWN for new, old in zip(self._exact, self.chances, strict=True)):
            self.chances = tuple(self._exact)


def _at_least(counts: Integers, most: int) -> list[int]:
    """How many counts are at least 1, 2 ... most."""
    found: list[int] = np.bincount(counts, minlength=most + 1)[:0:-1].cumsum()[::-1][:most].tolist()
    return found
