"""When those who were sent away come back: one after the other, as places get free."""

import math
from collections.abc import Sequence

SHORTEST_HINT_S = 0.1
LONGEST_QUEUE_S = 30.0
"""The furthest that those who were sent away are spread out over."""
SHORTEST_STAY_S = 1.0
"""Nobody is taken to stay for less, so that streams that have all just come do not seem about to leave. Who comes back
too early costs one refusal; who comes back too late leaves a place empty."""


def between_s(ages: Sequence[float]) -> float:
    """Seconds from one departure to the next, of streams that are open for `ages` (seconds, one at least).

    Of n streams one leaves, on average, in every n-th part of the time that each stays; half of that, or more, they
    have stayed when they are looked at.
    """
    count = len(ages)
    return max(2 * sum(ages) / count, SHORTEST_STAY_S) / count


class Turns:
    """Remembers who was sent away: each is told to come back one departure later than the one before.

    Told the same, a crowd would come back together, and all but one of them in vain.
    """

    def __init__(self) -> None:
        self._last = -math.inf
        """When the one that was sent away last was told to come back."""

    def next_s(self, ages: Sequence[float], now: float, soonest_s: float) -> float:
        """Seconds from `now` until the next one may come: not before `soonest_s`, nor after LONGEST_QUEUE_S."""
        soonest = now + max(soonest_s, SHORTEST_HINT_S)
        self._last = min(max(self._last + between_s(ages), soonest), now + LONGEST_QUEUE_S)
        return self._last - now
