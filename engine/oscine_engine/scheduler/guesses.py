"""How many guesses a step of the language model should check and make: what says the most ids a second.

A guess costs its rows and its draft, and is worth what it says if all before it come true. With few streams rows cost
next to nothing; with many each has its price, and a step of fewer guesses, or none, says more ids in its time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from oscine_engine.scheduler.curves import CostError, Curve


def ids_a_step(guesses: int, chances: Sequence[float]) -> float:
    """Ids that a stream says in a step of so many guesses on average.

    chances: of each guess, that it comes true if those before it did.
    """
    ids = chance = 1.0
    for each in chances[:guesses]:
        chance *= each
        ids += chance
    return ids


def most_ids(costs: Iterable[tuple[int, float]], chances: Sequence[float]) -> int:
    """Of steps with (guesses, seconds) the guesses of the one that says the most ids a second; of equals the fewest."""
    return min(costs, key=lambda cost: (cost[1] / ids_a_step(cost[0], chances), cost[0]))[0]


@dataclass(frozen=True, slots=True)
class GuessCosts:
    """curves: seconds of a step by rows, for each number of guesses that steps may have, the first being for none.

    chances: see `ids_a_step`. step: seconds by rows of the step with the guesses that say most. an_id: seconds by
    streams until each has said one id more on average.
    """

    curves: tuple[tuple[int, Curve], ...]
    chances: tuple[float, ...]
    step: Curve = field(init=False, repr=False, compare=False)
    an_id: Curve = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbers = [guesses for guesses, _ in self.curves]
        if not numbers or numbers != sorted(set(numbers)) or numbers[0] != 0:
            raise CostError(f"steps without guesses come first, then those with more and more: {numbers}")
        if len(self.chances) < numbers[-1] or not all(0.0 <= chance <= 1.0 for chance in self.chances):
            raise CostError(f"{numbers[-1]} guesses need as many chances from 0 to 1: {self.chances}")
        stepped = self.curves[0][1].stepped
        steps, ids = [], []
        for rows in sorted({rows for _, curve in self.curves for rows, _ in curve.points}):
            guesses = self.best(rows)
            seconds = self.seconds(rows, guesses)
            steps.append((rows, seconds))
            ids.append((rows, seconds / self.ids(guesses)))
        # With more streams fewer guesses may pay, and a step be shorter; a curve does not fall, so it is lifted.
        object.__setattr__(self, "step", Curve.through(steps, stepped=stepped))
        object.__setattr__(self, "an_id", Curve.through(ids, stepped=stepped))

    def best(self, rows: int) -> int:
        """Guesses of the step that says the most ids a second."""
        return most_ids(((guesses, curve(rows)) for guesses, curve in self.curves), self.chances)

    def ids(self, guesses: int) -> float:
        """Ids that a stream says in a step of so many guesses on average."""
        return ids_a_step(guesses, self.chances)

    def seconds(self, rows: float, guesses: int) -> float:
        """Of a step with so many guesses, or the next more that there may be."""
        for number, curve in self.curves:
            if number >= guesses:
                return curve(rows)
        raise ValueError(f"steps have no {guesses} guesses")

    def with_chances(self, chances: tuple[float, ...]) -> Self:
        return replace(self, chances=chances)
