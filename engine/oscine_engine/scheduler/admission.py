"""Who may come in: what can be served without breaking those already there, and is refused with a hint otherwise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.demand import Demand
from oscine_engine.scheduler.policy import RULES, Rules
from oscine_engine.scheduler.turns import SHORTEST_HINT_S, Turns, between_s
from oscine_engine.scheduler.views import Stage, StreamView

UTILISATION = 0.68
"""Beyond it simulated devices of every speed let in more than they could serve (docs/decisions/0008)."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What speech asks of the device, by the model: speech ids and Euler steps for a second of it.

    first_ids: before the first chunk can begin. prompt_rows: what the language model reads before the first of them.
    context_frames: what an Euler step of a long stream reads on average (the voice, and half of the longest segment).
    together: which part of those that speak is in a tick, up to `batch` rows, since streams are never all at one stage.
    rate: how much faster than their voices streams are asked to speak, on average: a second of sound then takes so many
    seconds' ids and chunks.
    """

    ids_per_s: float = 25.0
    euler_steps: int = 10
    first_ids: int = 13
    prompt_rows: int = 1
    context_frames: int = 900
    together: float = 0.4
    batch: int = 32
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what is let in.

    streams: open at a time. utilisation: share of the device that all of them may ask for when they speak without a
    pause. talking: share of the time that an open stream speaks; below 1 only where calls are known to listen too,
    since it lets in more than could all speak at once. first_packet_s: the longest wait for a first packet.
    """

    streams: int
    utilisation: float = UTILISATION
    talking: float = 1.0
    first_packet_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, in words for the client, and when to try again, in seconds."""

    reason: str
    retry_after_s: float


PACE = Pace()
LONGEST_HINT_S = 5.0


def utilisation(speaking: float, costs: CostModel, pace: Pace = PACE) -> float:
    """Share of the device that `speaking` streams (more than 0) take, each speaking in real time. May exceed 1."""
    rows = min(max(pace.together * speaking, 1.0), pace.batch)
    flow = costs.tick_s(Stage.FLOW, rows, rows * pace.context_frames)
    an_id, vocoder = costs.an_id(rows) * costs.correction[Stage.LM], costs.tick_s(Stage.VOCODER, rows)
    return speaking / rows * (pace.rate * (pace.ids_per_s * an_id + pace.euler_steps * flow) + vocoder)


def first_packet_s(
    views: Sequence[StreamView], costs: CostModel, now: float, pace: Pace = PACE, rules: Rules = RULES
) -> float:
    """How long a stream that arrives now may wait for its first packet, in seconds.

    It shares the device with those that wait for theirs, and with the listeners who run dry in the meantime: the longer
    it takes, the more of them there are, until no more come in before the work is done.
    """
    newcomer = StreamView(now, None, frozenset({Stage.LM}), pace.first_ids, pace.prompt_rows, pace.euler_steps)
    demand = Demand(costs)
    demand.add(newcomer)
    listening = []
    for view in views:
        if view.ready and view.dry_at is None:
            demand.add(view)
        elif view.ready and view.dry_at is not None:
            listening.append(view)
    listening.sort(key=lambda view: view.dry_at or 0.0)
    wait = rules.margin * demand.seconds
    for view in listening:
        if view.dry_at is not None and view.dry_at > now + wait:
            break
        demand.add(view)
        wait = rules.margin * demand.seconds
    return wait


def admit(
    views: Sequence[StreamView], costs: CostModel, now: float, limits: Limits, pace: Pace = PACE
) -> Refusal | None:
    """None to let one more stream in beside `views`, all that are open; the first is always let in.

    Refused are: one more than `streams`; one with which all together, speaking without a pause, would ask for more than
    `utilisation` of the device; one whose first packet might take longer than `first_packet_s`.
    """
    count = len(views)
    if count >= limits.streams:
        soon = between_s([now - view.arrived for view in views])
        return Refusal(f"{count} streams are running, the limit of this engine", _hint(soon))
    if not count:
        return None
    asked = utilisation(limits.talking * (count + 1), costs, pace)
    if asked > limits.utilisation:
        return Refusal(f"{count} streams keep this engine busy", _hint(asked / limits.utilisation))
    wait = first_packet_s(views, costs, now, pace)
    if wait > limits.first_packet_s:
        return Refusal(f"the first sound might take {wait:.1f} s", _hint(wait - limits.first_packet_s))
    return None


class Door:
    """Admission that remembers whom it sent away, and tells each another time to come back (`Turns`)."""

    def __init__(self) -> None:
        self._turns = Turns()

    def ask(
        self, views: Sequence[StreamView], costs: CostModel, now: float, limits: Limits, pace: Pace = PACE
    ) -> Refusal | None:
        """As `admit`."""
        refusal = admit(views, costs, now, limits, pace)
        if refusal is None:
            return None
        wait = self._turns.next_s([now - view.arrived for view in views], now, refusal.retry_after_s)
        return replace(refusal, retry_after_s=wait)


def _hint(seconds: float) -> float:
    return min(max(seconds, SHORTEST_HINT_S), LONGEST_HINT_S)
