"""Curves of what a tick costs in seconds: straight between two measured points, never falling, and going on after them.

A measurement that says that more rows cost less is noise.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

TABLED = 512
"""Rows whose cost is worked out beforehand; more are computed when asked."""


class CostError(ValueError):
    """Measured points, or a stored model, that make no cost model."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds by rows. `points` are (rows, seconds), rising in rows, and not falling in seconds.

    With `stepped`, a tick pads its rows up to the next measured point and costs what that does, as captured graphs do.
    """

    points: tuple[tuple[int, float], ...]
    stepped: bool = False
    table: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.points:
            raise CostError("a cost curve needs at least one measured point")
        if any(rows < 1 or not 0.0 < seconds < math.inf for rows, seconds in self.points):
            raise CostError(f"rows must be at least 1 and seconds positive: {self.points}")
        if any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(self.points)):
            raise CostError(f"points must rise in rows and not fall in seconds: {self.points}")
        object.__setattr__(self, "table", tuple(self._tabled()))

    @classmethod
    def through(cls, measured: Iterable[tuple[int, float]], *, stepped: bool = False) -> "Curve":
        """A curve through measurements in any order; of the same rows the mean counts, and dips are lifted.

        Raises CostError for no or impossible points.
        """
        seconds: dict[int, list[float]] = {}
        for rows, took in measured:
            seconds.setdefault(rows, []).append(took)
        points: list[tuple[int, float]] = []
        for rows in sorted(seconds):
            mean = sum(seconds[rows]) / len(seconds[rows])
            points.append((rows, max(mean, points[-1][1]) if points else mean))
        return cls(tuple(points), stepped)

    def __call__(self, rows: float) -> float:
        """Seconds of a tick with `rows` rows, 0 for none. Rows may be a fraction: an average of several ticks."""
        whole = int(rows)
        if whole >= TABLED:
            return self._beyond(rows)
        table = self.table
        low = table[whole]
        return low if whole == rows else low + (rows - whole) * (table[whole + 1] - low)

    def upto(self, rows: int) -> Sequence[float]:
        """Seconds by whole rows from 0 to at least `rows`, to be looked up where calls would take too long."""
        if rows < len(self.table):
            return self.table
        return [*self.table, *(self._beyond(more) for more in range(len(self.table), rows + 1))]

    def _tabled(self) -> list[float]:
        """Seconds of 0 to TABLED rows."""
        (start, before), *others = self.points
        table = [0.0, *[before] * min(start, TABLED)]
        for end, seconds in others:
            if len(table) > TABLED:
                break
            if self.stepped:
                table += [seconds] * (min(end, TABLED) - start)
            else:
                rise, width = seconds - before, end - start
                # At the point itself, whatever rounding says.
                table += [min(before + rise * n / width, seconds) for n in range(1, min(end, TABLED) - start + 1)]
            start, before = end, seconds
        return table + [self._beyond(rows) for rows in range(len(table), TABLED + 1)]

    def _at(self, rows: int) -> float:
        """Seconds for whole `rows` >= 1, from the points."""
        before = self.points[0]
        if rows <= before[0]:
            return before[1]
        for point in self.points:
            if rows <= point[0]:
                if self.stepped:
                    return point[1]
                straight = before[1] + (point[1] - before[1]) * (rows - before[0]) / (point[0] - before[0])
                return min(straight, point[1])
            before = point
        return self._beyond(rows)

    def _beyond(self, rows: float) -> float:
        """After the last point: its slope goes on. From a single point, cost grows as rows do, which errs upwards."""
        last_rows, last = self.points[-1]
        if rows <= last_rows:
            return self._at(math.ceil(rows))
        if len(self.points) == 1:
            return last * rows / last_rows
        rows_before, before = self.points[-2]
        return last + (rows - last_rows) * (last - before) / (last_rows - rows_before)
