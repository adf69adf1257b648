"""What a tick costs in seconds, from a few measured points, and kept true by what ticks then take.

A tick of a stage with n rows costs `curve(n)`; an Euler step pays besides for each mel frame whose keys and values it
reads, which is a matter of memory bandwidth and so is linear. A step of the language model costs what the guesses cost
that it checks and makes; how many pay is `guesses.GuessCosts`' to say.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oscine_engine.scheduler.curves import TABLED, CostError, Curve
from oscine_engine.scheduler.guesses import GuessCosts
from oscine_engine.scheduler.views import Stage

__all__ = ["TABLED", "CostError", "CostModel", "Curve", "GuessCosts"]

LEARNING_RATE = 0.03
"""Share of a tick's surprise that goes into the correction: after about thirty like ticks two thirds of it are in."""
SURPRISE = math.log(1.5)
"""Most that one tick may count for, as a logarithm: a pause of the whole machine moves the correction by 1.2 %."""
CORRECTION = (0.25, 8.0)
"""Bounds of the correction. What leaves them is not this machine any more, and should be measured anew."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds of a tick of each stage.

    lm: with as many guesses as pay. context_s: what one frame of context adds to one row's Euler step.
    correction: what ticks take over what the curves say, by stage (LM, flow, vocoder); `observed` keeps it.
    guesses: what steps of the language model cost with more guesses and fewer, if they may have any.
    """

    lm: Curve
    flow: Curve
    vocoder: Curve
    context_s: float = 0.0
    correction: tuple[float, float, float] = (1.0, 1.0, 1.0)
    guesses: GuessCosts | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.context_s < math.inf:
            raise CostError(f"a frame of context cannot cost {self.context_s} s")
        least, most = CORRECTION
        lm, flow, vocoder = self.correction
        # Spelt out, since a model is made for every tick.
        if not (least <= lm <= most and least <= flow <= most and least <= vocoder <= most):
            raise CostError(f"corrections lie within {CORRECTION}: {self.correction}")

    @property
    def an_id(self) -> Curve:
        """Seconds by streams until each has said one id more."""
        return self.lm if self.guesses is None else self.guesses.an_id

    def guessing(self, guesses: GuessCosts) -> "CostModel":
        """This model for a language model whose steps cost that."""
        return replace(self, lm=guesses.step, guesses=guesses)

    def with_chances(self, chances: tuple[float, ...]) -> "CostModel":
        """This model now that guesses come true so often."""
        return self if self.guesses is None else self.guessing(self.guesses.with_chances(chances))

    def best_guesses(self, streams: int) -> int | None:
        """How many guesses a step of so many streams should have; None if it may have none."""
        return None if self.guesses is None else self.guesses.best(streams)

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

    def tick_s(self, stage: Stage, rows: float, context_frames: float = 0.0, guesses: int | None = None) -> float:
        """Seconds of one tick. `context_frames` is summed over the rows, and counts for the flow only.

        guesses: of a step of the language model, if it had others than would pay.
        """
        if guesses is not None and self.guesses is not None and stage is Stage.LM:
            seconds = self.guesses.seconds(rows, guesses)
        else:
            seconds = self.curve(stage)(rows)
        if stage is Stage.FLOW:
            seconds += self.context_s * context_frames
        return seconds * self.correction[stage]

    def observed(
        self, stage: Stage, rows: int, context_frames: int, seconds: float, guesses: int | None = None
    ) -> "CostModel":
        """This model after a tick that took `seconds`.

        The correction moves a small share of the way, in logarithms, and no single tick counts for more than a factor
        of 1.5, so one stray tick does nothing and a machine that has really become slower shows within some dozens.
        """
        expected = self.tick_s(stage, rows, context_frames, guesses)
        if not (expected > 0.0 and 0.0 < seconds < math.inf):
            return self
        surprise = min(max(math.log(seconds / expected), -SURPRISE), SURPRISE)
        lm, flow, vocoder = self.correction
        moved = self.correction[stage] * math.exp(LEARNING_RATE * surprise)
        moved = min(max(moved, CORRECTION[0]), CORRECTION[1])
        correction = ((moved, flow, vocoder), (lm, moved, vocoder), (lm, flow, moved))[stage]
        return CostModel(self.lm, self.flow, self.vocoder, self.context_s, correction, self.guesses)

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`; `from_json` reads it back to an equal model."""
        curves = {stage.name.lower(): _stored(self.curve(stage)) for stage in Stage}
        data: dict[str, Any] = {**curves, "context_s": self.context_s, "correction": list(self.correction)}
        if self.guesses is not None:
            data["guesses"] = [[guesses, _stored(curve)] for guesses, curve in self.guesses.curves]
            data["chances"] = list(self.guesses.chances)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "CostModel":
        """Raises CostError for anything that `to_json` would not have written."""
        try:
            curves = [_read(data[stage.name.lower()]) for stage in Stage]
            lm, flow, vocoder = (float(each) for each in data["correction"])
            costs = cls(curves[0], curves[1], curves[2], float(data["context_s"]), (lm, flow, vocoder))
            if "guesses" not in data:
                return costs
            choices = tuple((int(guesses), _read(curve)) for guesses, curve in data["guesses"])
            return costs.guessing(GuessCosts(choices, tuple(float(chance) for chance in data["chances"])))
        except (KeyError, TypeError, ValueError) as error:
            raise CostError(f"not a stored cost model: {error!r}") from error


def _stored(curve: Curve) -> dict[str, Any]:
    return {"points": [list(point) for point in curve.points], "stepped": curve.stepped}


def _read(data: Mapping[str, Any]) -> Curve:
    return Curve(tuple((int(rows), float(seconds)) for rows, seconds in data["points"]), bool(data["stepped"]))


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
