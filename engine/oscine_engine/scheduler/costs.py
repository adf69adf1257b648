"""What a tick costs in seconds, from a few measured points, and kept true by what ticks then take.

A tick of a stage with n rows costs `curve(n)`; an Euler step pays besides for each mel frame whose keys and values it
reads, which is a matter of memory bandwidth and so is linear. Between two measured points the curve is straight, after
the last one it goes on with the last slope, and it never falls: a measurement that says otherwise is noise.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from oscine_engine.scheduler.views import Stage

TABLED = 512
"""Rows whose cost is worked out beforehand; more are computed when asked."""

LEARNING_RATE = 0.03
"""Share of a tick's surprise that goes into the correction: after about thirty like ticks two thirds of it are in."""
SURPRISE = math.log(1.5)
"""Most that one tick may count for, as a logarithm: a pause of the whole machine moves the correction by 1.2 %."""
CORRECTION = (0.25, 8.0)
"""Bounds of the correction. What leaves them is not this machine any more, and should be measured anew."""


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
        object.__setattr__(self, "table", (0.0, *(self._at(rows) for rows in range(1, TABLED + 1))))

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
                return min(straight, point[1])  # at the point itself, whatever rounding says
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


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds of a tick of each stage.

    context_s: what one frame of context adds to one row's Euler step.
    correction: what ticks take over what the curves say, by stage (LM, flow, vocoder); `observed` keeps it.
    """

    lm: Curve
    flow: Curve
    vocoder: Curve
    context_s: float = 0.0
    correction: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        if not 0.0 <= self.context_s < math.inf:
            raise CostError(f"a frame of context cannot cost {self.context_s} s")
        if len(self.correction) != 3 or not all(CORRECTION[0] <= each <= CORRECTION[1] for each in self.correction):
            raise CostError(f"corrections lie within {CORRECTION}: {self.correction}")

    @classmethod
    def measured(
        cls,
        lm: Iterable[tuple[int, float]],
        flow: Iterable[tuple[int, int, float]],
        vocoder: Iterable[tuple[int, float]],
        *,
        stepped: bool = False,
    ) -> "CostModel":
        """From measured ticks: (rows, seconds), and for the flow (rows, context frames of all rows together, seconds).

        The cost of a frame is the least-squares slope over flow points of equal rows and different context; without
        such points context counts as free. Raises CostError for points that make no curve.
        """
        flow = list(flow)
        context_s = _context_slope(flow)
        # A noisy slope must not take more off than there is: at least a tenth of each tick is the rows' own.
        alone = [(rows, max(seconds - context_s * frames, 0.1 * seconds)) for rows, frames, seconds in flow]
        return cls(
            Curve.through(lm, stepped=stepped),
            Curve.through(alone, stepped=stepped),
            Curve.through(vocoder, stepped=stepped),
            context_s,
        )

    def curve(self, stage: Stage) -> Curve:
        return (self.lm, self.flow, self.vocoder)[stage]

    def tick_s(self, stage: Stage, rows: float, context_frames: float = 0.0) -> float:
        """Seconds of one tick. `context_frames` is summed over the rows, and counts for the flow only."""
        seconds = self.curve(stage)(rows)
        if stage is Stage.FLOW:
            seconds += self.context_s * context_frames
        return seconds * self.correction[stage]

    def observed(self, stage: Stage, rows: int, context_frames: int, seconds: float) -> "CostModel":
        """This model after a tick that took `seconds`.

        The correction moves a small share of the way, in logarithms, and no single tick counts for more than a factor
        of 1.5, so one stray tick does nothing and a machine that has really become slower shows within some dozens.
        """
        expected = self.tick_s(stage, rows, context_frames)
        if not (expected > 0.0 and 0.0 < seconds < math.inf):
            return self
        surprise = min(max(math.log(seconds / expected), -SURPRISE), SURPRISE)
        factors = list(self.correction)
        moved = factors[stage] * math.exp(LEARNING_RATE * surprise)
        factors[stage] = min(max(moved, CORRECTION[0]), CORRECTION[1])
        correction = (factors[0], factors[1], factors[2])
        return CostModel(self.lm, self.flow, self.vocoder, self.context_s, correction)

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`; `from_json` reads it back to an equal model."""
        curves = {
            name: {"points": [list(point) for point in curve.points], "stepped": curve.stepped}
            for name, curve in (("lm", self.lm), ("flow", self.flow), ("vocoder", self.vocoder))
        }
        return {**curves, "context_s": self.context_s, "correction": list(self.correction)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "CostModel":
        """Raises CostError for anything that `to_json` would not have written."""
        try:
            curves = [
                Curve(tuple((int(rows), float(s)) for rows, s in data[name]["points"]), bool(data[name]["stepped"]))
                for name in ("lm", "flow", "vocoder")
            ]
            lm, flow, vocoder = (float(each) for each in data["correction"])
            return cls(curves[0], curves[1], curves[2], float(data["context_s"]), (lm, flow, vocoder))
        except (KeyError, TypeError, ValueError) as error:
            raise CostError(f"not a stored cost model: {error!r}") from error


def _context_slope(flow: Sequence[tuple[int, int, float]]) -> float:
    """Seconds a frame of context, at least 0: least squares within groups of equal rows."""
    groups: dict[int, list[tuple[int, float]]] = {}
    for rows, frames, seconds in flow:
        groups.setdefault(rows, []).append((frames, seconds))
    top = bottom = 0.0
    for group in groups.values():
        frames_mean = sum(frames for frames, _ in group) / len(group)
        seconds_mean = sum(seconds for _, seconds in group) / len(group)
        top += sum((frames - frames_mean) * (seconds - seconds_mean) for frames, seconds in group)
        bottom += sum((frames - frames_mean) ** 2 for frames, _ in group)
    return max(top / bottom, 0.0) if bottom else 0.0
