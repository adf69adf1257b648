"""Who may come in: what can be served without breaking those already there, and is refused with a hint otherwise."""

from collections.abc import Sequence
from dataclasses import dataclass

from oscine_engine.scheduler.costs import CostModel
from oscine_engine.scheduler.demand import Demand
from oscine_engine.scheduler.views import Stage, StreamView


@dataclass(frozen=True, slots=True)
class Pace:
    """What speech asks of the device, by the model: language model steps and Euler steps for a second of it.

    lm_steps_per_s: 25, less with accepted drafts. first_lm_steps: before the first chunk can begin. prompt_rows: what
    the first of them reads. context_frames: what an Euler step of a long stream reads on average (the voice, and half
    of the longest segment).
    """

    lm_steps_per_s: float = 25.0
    euler_steps: int = 10
    first_lm_steps: int = 13
    prompt_rows: int = 1
    context_frames: int = 900


@dataclass(frozen=True, slots=True)
class Limits:
    """streams: open at a time at most. utilisation: share of the device that streams may ask for when all of them speak
    without a pause. talking: share of the time that an open stream speaks; below 1 only where calls are known to listen
    too, since it admits more than can speak at once. first_packet_s: the longest predicted wait for a first packet.
    """

    streams: int
    utilisation: float = 0.85
    talking: float = 1.0
    first_packet_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, in words for the client, and when to try again, in seconds."""

    reason: str
    retry_after_s: float


PACE = Pace()
SHORTEST_HINT_S, LONGEST_HINT_S = 0.1, 5.0


def utilisation(speaking: float, costs: CostModel, pace: Pace = PACE) -> float:
    """Share of the device that `speaking` streams in real time take, batched as well as they can be."""
    flow = costs.tick_s(Stage.FLOW, speaking, speaking * pace.context_frames)
    lm, vocoder = costs.tick_s(Stage.LM, speaking), costs.tick_s(Stage.VOCODER, speaking)
    return pace.lm_steps_per_s * lm + pace.euler_steps * flow + vocoder


def first_packet_s(views: Sequence[StreamView], costs: CostModel, talking: float = 1.0, pace: Pace = PACE) -> float:
    """How long a stream that arrives now is likely to wait for its first packet.

    It shares the device with those that wait for theirs, all worked on together, while listeners take what they need to
    keep up.
    """
    newcomer = StreamView(0.0, None, frozenset({Stage.LM}), pace.first_lm_steps, pace.prompt_rows, pace.euler_steps)
    demand = Demand(costs)
    demand.add(newcomer)
    listening = 0
    for view in views:
        if view.dry_at is not None:
            listening += 1
        elif view.ready:
            demand.add(view)
    left = 1.0 - min(utilisation(talking * listening, costs, pace), 0.9)
    return demand.seconds / left


def admit(
    views: Sequence[StreamView], costs: CostModel, now: float, limits: Limits, pace: Pace = PACE
) -> Refusal | None:
    """None to let one more stream in beside `views`, all that are open.

    Refused are: one more than `streams`; one with which all together, speaking without a pause, would ask for more than
    `utilisation` of the device, unless it would be alone; one whose first packet would take longer than
    `first_packet_s`. `now` is there for symmetry with `pick`: the answer depends on what is open, not on the hour.
    """
    count = len(views)
    if count >= limits.streams:
        return Refusal(f"{count} streams are running, the limit of this engine", 1.0)
    if not count:
        return None
    asked = utilisation(limits.talking * (count + 1), costs, pace)
    if asked > limits.utilisation:
        return Refusal(f"{count} streams keep this engine busy", _hint(asked / limits.utilisation))
    wait = first_packet_s(views, costs, limits.talking, pace)
    if wait > limits.first_packet_s:
        return Refusal(f"the first sound would take {wait:.1f} s", _hint(wait - limits.first_packet_s))
    return None


def _hint(seconds: float) -> float:
    return min(max(seconds, SHORTEST_HINT_S), LONGEST_HINT_S)
