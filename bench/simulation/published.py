"""A copy of today's best published rule for this model, in a device of its own shape.

The rule: streams that play and have less than 100 ms left, by deadline; then streams that have sent nothing, in order
of arrival; then those that play, by deadline. The first eight of that order make a batch, which runs its ten Euler
steps and the vocoder without a break. The language model runs in a process of its own, as far ahead as it can, and
the rule knows nothing of it: here it and the batches each get half of the device while both have work. That is the
even share of two processes, and as kind to the rule as a device that does one thing at a time can be.

Costs are ours: incremental flow and vocoder, our language model, a vocoder that takes the batch at once. So what
differs is the rule alone. As published, its chunks read the whole text before them again, and its vocoder takes one
stream at a time.
"""

import random
from collections.abc import Sequence

from bench.simulation.device import Truth, alone_s
from bench.simulation.profiles import Profile
from bench.simulation.stream import EULER_STEPS, NEVER, Stream, Voice
from oscine_engine.scheduler.admission import Refusal
from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.views import Stage, StreamView, Tick

RESERVE_S = 0.1
BATCH = 8


def rank(view: StreamView, now: float) -> tuple[int, float]:
    if view.dry_at is None:
        return 1, view.arrived
    return (0 if view.dry_at - now <= RESERVE_S else 2), view.dry_at


def pick_by_reserve(views: Sequence[StreamView], now: float, costs: CostModel) -> Tick | None:
    """The rule on our loop: ticks instead of whole batches, still the reserve and eight rows."""
    order = sorted((place for place, view in enumerate(views) if view.ready), key=lambda place: rank(views[place], now))
    if not order:
        return None
    stage = max(views[order[0]].ready)
    most = len(order) if stage is Stage.LM else BATCH
    return Tick(stage, tuple([place for place in order if stage in views[place].ready][:most]))


class TwoProcesses:
    """The language model beside batches of flow and vocoder, on one device."""

    def __init__(self, profile: Profile, voice: Voice, rng: random.Random, *, truth: Truth | None = None) -> None:
        self.streams: list[Stream] = []
        self.busy_s = 0.0
        self.ticks = 0
        self.rows = 0
        self._costs = profile.costs
        self._host_s = profile.host_s
        self._rng = rng
        self._truth = truth or Truth()
        self._alone_s = alone_s(profile.costs, voice)
        self._now = 0.0
        # Of the running language model step and the running batch: members, and device seconds still to go.
        self._reading: list[Stream] = []
        self._reading_s = 0.0
        self._batch: list[Stream] = []
        self._batch_s = 0.0

    def offer(self, stream: Stream, now: float) -> Refusal | None:
        self.streams.append(stream)
        return None

    def wake(self, now: float) -> float:
        self._advance(now)
        if self._reading and self._reading_s <= 1e-12:
            guesses = self._costs.guesses
            ids = 1.0 if guesses is None else guesses.ids(guesses.best(len(self._reading)))
            for stream in self._reading:
                stream.run(Stage.LM, ids)
            self._reading = []
        if self._batch and self._batch_s <= 1e-12:
            self._finish_batch(now)
        for stream in self.streams:
            if stream.waits_for_text and stream.changes_at <= now:
                stream.text_came(now)
        if not self._reading:
            self._begin_reading(now)
        if not self._batch:
            self._begin_batch(now)
        if not self._reading and not self._batch:
            return min((stream.changes_at for stream in self.streams), default=NEVER)
        share = 2 if self._reading and self._batch else 1
        return now + share * min(self._reading_s if self._reading else NEVER, self._batch_s if self._batch else NEVER)

    def _advance(self, now: float) -> None:
        passed, self._now = now - self._now, now
        both = bool(self._reading and self._batch)
        if self._reading:
            self._reading_s -= passed / 2 if both else passed
        if self._batch:
            self._batch_s -= passed / 2 if both else passed
        if self._reading or self._batch:
            self.busy_s += passed

    def _begin_reading(self, now: float) -> None:
        self._reading = [stream for stream in self.streams if Stage.LM in stream.view(now).ready]
        if self._reading:
            rows = sum(stream.view(now).lm_rows for stream in self._reading)
            took = self._costs.tick_s(Stage.LM, rows) * self._truth.factor(self._rng)
            self._reading_s = took + self._host_s
            self._count(self._reading)

    def _begin_batch(self, now: float) -> None:
        could = [stream for stream in self.streams if Stage.FLOW in stream.view(now).ready]
        could.sort(key=lambda stream: rank(stream.view(now), now))
        self._batch = could[:BATCH]
        if self._batch:
            rows, context = len(self._batch), sum(stream.context_frames for stream in self._batch)
            flow = EULER_STEPS * self._costs.tick_s(Stage.FLOW, rows, context)
            took = (flow + self._costs.tick_s(Stage.VOCODER, rows)) * self._truth.factor(self._rng)
            self._batch_s = took + self._host_s
            self._count(self._batch)

    def _finish_batch(self, now: float) -> None:
        for stream in self._batch:
            for _ in range(EULER_STEPS):
                stream.run(Stage.FLOW)
            stream.send(stream.run(Stage.VOCODER), now, self._alone_s)
            if stream.heard.done_at is not None:
                self.streams.remove(stream)
        self._batch = []

    def _count(self, members: Sequence[Stream]) -> None:
        self.ticks += 1
        self.rows += len(members)
