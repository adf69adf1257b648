"""How long the device needs for what listeners wait for: the arithmetic under the policy, the start and admission."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.views import Stage, StreamView


@dataclass(slots=True)
class Demand:
    """Device time until each of a growing set of streams has its next packet, all of them worked on together.

    Language model: as many ids as the stream furthest behind needs. Flow: as many Euler ticks as the most that any
    needs, at the average number of rows. Vocoder: one batch. Context: every frame that every step reads. Streams that
    come to a stage at different times share its ticks less well than that, so who uses a demand multiplies it with a
    margin (`policy.Rules.margin`).
    """

    costs: CostModel
    reading: int = 0
    read_rows: int = 0
    ids: int = 0
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
            self.ids = max(self.ids, view.ids_left)
        euler = view.euler_left
        self.euler_most = max(self.euler_most, euler)
        self.euler_sum += euler
        self.frames += euler * view.context_frames

    @property
    def seconds(self) -> float:
        costs = self.costs
        lm, flow, vocoder = costs.correction
        total = costs.vocoder(self.sounding) * vocoder
        if self.ids:
            total += self.ids * costs.an_id(self.reading) * lm
            if self.read_rows:  # prompts are read once, in one of the ticks
                total += (costs.lm(self.reading + self.read_rows) - costs.lm(self.reading)) * lm
        if self.euler_most:
            rows = self.euler_sum / self.euler_most
            total += (self.euler_most * costs.flow(rows) + costs.context_s * self.frames) * flow
        return total


def tightest(
    listening: Sequence[StreamView], now: float, costs: CostModel, margin: float, enough: float = math.inf
) -> tuple[float, int]:
    """(for how long the device could do something else and still bring each of `listening` its packet in time, how
    many of them, from the first, share the deadline that says so).

    `listening` is sorted by `dry_at`, which none lacks. This is the demand test of earliest-deadline-first: for every
    deadline, the work that is due by then, times `margin`, has to fit before it. (inf, 0) for nobody; negative when
    somebody is late already or will be. Who knows at once that it is at least `enough` says so, and no more.
    """
    # `Demand.add` and `Demand.seconds`, opened up: this runs in every tick, and stops as soon as what is due later has
    # time enough even for all the work there is.
    least, most_pressed = math.inf, 0
    if not listening:
        return least, most_pressed
    all_s = margin * _at_most(listening, costs)
    first = listening[0].dry_at
    if first is not None and first - all_s - now >= enough:
        return first - all_s - now, 0
    lm, flow, vocoder, context_s = costs.lm, costs.flow, costs.vocoder, costs.context_s
    id_table, lm_table, flow_table, vocoder_table = (
        costs.an_id.upto(len(listening)),
        lm.upto(len(listening)),
        flow.upto(len(listening)),
        vocoder.upto(len(listening)),
    )
    lm_factor, flow_factor, vocoder_factor = (margin * factor for factor in costs.correction)
    reading = read_rows = most_ids = euler_most = euler_sum = frames = 0
    upstream, sounding = 0.0, Stage.VOCODER
    for count, view in enumerate(listening, 1):
        dry_at = view.dry_at
        assert dry_at is not None
        if dry_at - all_s >= least:
            break
        if sounding not in view.ready:
            ids, euler = view.ids_left, view.euler_left
            if ids:
                reading += 1
                read_rows += view.lm_rows - 1
                if ids > most_ids:
                    most_ids = ids
            if euler > euler_most:
                euler_most = euler
            euler_sum += euler
            frames += euler * view.context_frames
            upstream = most_ids * id_table[reading] * lm_factor
            if read_rows:
                upstream += (lm(reading + read_rows) - lm_table[reading]) * lm_factor
            if euler_most:
                whole, part = divmod(euler_sum, euler_most)
                tick_s = flow_table[whole]
                if part:
                    tick_s += part / euler_most * (flow_table[whole + 1] - tick_s)
                upstream += (euler_most * tick_s + context_s * frames) * flow_factor
        spare = dry_at - upstream - vocoder_table[count] * vocoder_factor
        if spare < least:
            least, most_pressed = spare, count
    return least - now, most_pressed


def _at_most(streams: Sequence[StreamView], costs: CostModel) -> float:
    """Seconds that the demand of `streams`, which are some, cannot exceed."""
    count = len(streams)
    ids = max([view.ids_left for view in streams])
    euler = max([view.euler_left for view in streams])
    frames = max([view.context_frames for view in streams])
    longest_read = max([view.lm_rows for view in streams])
    lm, flow, vocoder = costs.correction
    total = costs.vocoder(count) * vocoder
    read_s = costs.lm(count * longest_read) - costs.lm(1) if longest_read > 1 else 0.0
    total += (ids * costs.an_id(count) + read_s) * lm
    return total + euler * (costs.flow(count) + costs.context_s * frames * count) * flow
