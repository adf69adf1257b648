"""How long the device needs for what listeners wait for: the arithmetic under the policy, the start and admission."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.views import Stage, StreamView


@dataclass(slots=True)
class Demand:
    """Device time until each of a growing set of streams has its next packet, all of them worked on together.

    Language model: as many ticks as the stream furthest behind needs. Flow: as many Euler ticks as the most that any
    needs, at the average number of rows. Vocoder: one batch. Context: every frame that every step reads. Streams that
    come to a stage at different times share its ticks less well than that, so who uses a demand multiplies it with a
    margin (`policy.Rules.margin`).
    """

    costs: CostModel
    reading: int = 0
    read_rows: int = 0
    lm_steps: int = 0
    euler_most: int = 0
    euler_sum: int = 0
    frames: int = 0
    sounding: int = 0

    def add(self, view: StreamView) -> None:
        self.sounding += 1
        if Stage.VOCODER in view.ready:
            return
        if view.ids_left:
            self.reading += 1
            self.read_rows += view.lm_rows - 1
            self.lm_steps = max(self.lm_steps, view.ids_left)
        euler = view.euler_left
        self.euler_most = max(self.euler_most, euler)
        self.euler_sum += euler
        self.frames += euler * view.context_frames

    @property
    def seconds(self) -> float:
        costs = self.costs
        lm, flow, vocoder = costs.correction
        total = costs.vocoder(self.sounding) * vocoder
        if self.lm_steps:
            total += self.lm_steps * costs.lm(self.reading) * lm
            if self.read_rows:  # prompts are read once, in one of the ticks
                total += (costs.lm(self.reading + self.read_rows) - costs.lm(self.reading)) * lm
        if self.euler_most:
            rows = self.euler_sum / self.euler_most
            total += (self.euler_most * costs.flow(rows) + costs.context_s * self.frames) * flow
        return total


def slack_s(listening: Sequence[StreamView], now: float, costs: CostModel, margin: float) -> float:
    """For how long the device could do something else, and still bring each of `listening` its packet in time.

    `listening` is sorted by `dry_at`, which none lacks. This is the demand test of earliest-deadline-first: for every
    deadline, the work that is due by then, times `margin`, has to fit before it. Infinite for nobody, negative when
    somebody is late already or will be.
    """
    least = math.inf
    demand = Demand(costs)
    for view in listening:
        demand.add(view)
        assert view.dry_at is not None
        least = min(least, view.dry_at - margin * demand.seconds)
    return least - now
