"""A device whose time is counted: one loop over three stages, with the engine's own scheduler in it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.simulation.profiles import Profile
from bench.simulation.stream import EULER_STEPS, LOOK_AHEAD, NEVER, Stream, Voice
from oscine_engine.scheduler.admission import Door, Limits, Pace, Refusal
from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.policy import RULES
from oscine_engine.scheduler.start import release
from oscine_engine.scheduler.views import Stage, StreamView, Tick

Pick = Callable[[Sequence[StreamView], float, CostModel], Tick | None]


@dataclass(frozen=True, slots=True)
class Truth:
    """What a tick really takes: the model's seconds times a factor drawn evenly from `low` to `high`."""

    low: float = 1.0
    high: float = 1.0

    def factor(self, rng: random.Random) -> float:
        return self.low if self.low == self.high else rng.uniform(self.low, self.high)


class Simulated(Protocol):
    """A device as a fleet sees it. Streams that end leave `streams`."""

    streams: list[Stream]
    busy_s: float

    def offer(self, stream: Stream, now: float) -> Refusal | None:
        """Take a stream in, or say why not."""

    def wake(self, now: float) -> float:
        """Do what is due; gives the moment to be woken next."""


def pace(voice: Voice) -> Pace:
    """What admission should know of speech that begins like this."""
    return Pace(
        euler_steps=EULER_STEPS,
        first_ids=voice.first_ids,
        prompt_rows=voice.prompt_rows,
        context_frames=voice.prompt_frames + 750,
    )


def alone_s(costs: CostModel, voice: Voice) -> float:
    """Seconds in which the policy can promise a chunk and its look-ahead of ids, with the device to itself."""
    lm = (LOOK_AHEAD + 25) * costs.an_id(1) * costs.correction[Stage.LM]
    flow = EULER_STEPS * costs.tick_s(Stage.FLOW, 1, voice.prompt_frames)
    return RULES.margin * (lm + flow + costs.tick_s(Stage.VOCODER, 1))


class Loop:
    """One loop over three stages. With no `limits` everybody is let in; without `hold` first packets go out at once."""

    def __init__(
        self,
        profile: Profile,
        voice: Voice,
        pick: Pick,
        rng: random.Random,
        *,
        limits: Limits | None = None,
        hold: bool = True,
        truth: Truth | None = None,
    ) -> None:
        self.streams: list[Stream] = []
        self.busy_s = 0.0
        self.ticks = 0
        self.rows = 0
        self.costs = profile.costs
        self._true_costs = profile.costs
        self._host_s = profile.host_s
        self._pick = pick
        self._rng = rng
        self._limits, self._pace = limits, pace(voice)
        self._door = Door()
        self._hold = hold
        self._truth = truth or Truth()
        self._alone_s = alone_s(profile.costs, voice)
        self._held: list[Stream] = []
        self._running: tuple[Stage, list[Stream], float] | None = None
        self._ends = 0.0

    def offer(self, stream: Stream, now: float) -> Refusal | None:
        if self._limits is not None:
            views = [each.view(now) for each in self.streams]
            if refusal := self._door.ask(views, self.costs, now, self._limits, self._pace):
                return refusal
        self.streams.append(stream)
        return None

    def wake(self, now: float) -> float:
        if self._running is not None:
            if now < self._ends:
                return self._ends
            stage, members, ids = self._running
            self._running = None
            for stream in members:
                self._made(stream, stream.run(stage, ids), now)
        views = []
        for stream in self.streams:
            if stream.waits_for_text and stream.changes_at <= now:
                stream.text_came(now)
            views.append(stream.view(now))
        for stream in list(self._held):
            self._consider(stream, now)
        tick = self._pick([stream.view(now) for stream in self.streams] if self._held else views, now, self.costs)
        if tick is None:
            return min((stream.changes_at for stream in self.streams), default=NEVER)
        return self._start(tick, now)

    def _start(self, tick: Tick, now: float) -> float:
        members = [self.streams[place] for place in tick.members]
        seen = [stream.view(now) for stream in members]
        rows = sum(view.lm_rows for view in seen) if tick.stage is Stage.LM else len(seen)
        context = sum(view.context_frames for view in seen)
        guesses = self.costs.best_guesses(len(members)) if tick.stage is Stage.LM else None
        ids = 1.0 if guesses is None or self.costs.guesses is None else self.costs.guesses.ids(guesses)
        exact = self._true_costs.tick_s(tick.stage, rows, context, guesses)
        seconds = exact * self._truth.factor(self._rng) + self._host_s
        self.costs = self.costs.observed(tick.stage, rows, context, seconds, guesses)
        self.busy_s += seconds
        self.ticks += 1
        self.rows += len(members)
        self._running, self._ends = (tick.stage, members, ids), now + seconds
        return self._ends

    def _made(self, stream: Stream, seconds: float, now: float) -> None:
        if seconds <= 0.0:
            return
        if stream.dry_at is not None or not self._hold:
            self._send(stream, seconds, now)
            return
        if not stream.held_s:
            self._held.append(stream)
        stream.held_s += seconds
        stream.touch()
        self._consider(stream, now)

    def _consider(self, stream: Stream, now: float) -> None:
        others = [other.view(now) for other in self.streams if other is not stream]
        if release(stream.view(now), others, now, self.costs):
            self._held.remove(stream)
            seconds, stream.held_s = stream.held_s, 0.0
            self._send(stream, seconds, now)

    def _send(self, stream: Stream, seconds: float, now: float) -> None:
        stream.send(seconds, now, self._alone_s)
        if stream.heard.done_at is not None:
            self.streams.remove(stream)
