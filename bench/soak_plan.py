"""Who comes to a soak, what they say and how they leave: drawn ahead from a seed, plain data."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from bench.pacing import pieces
from oscine_engine.events import Mode


class Kind(StrEnum):
    """How a session is meant to end.

    SPEAKS: it is heard to its end. CANCELS: it is cancelled. DROPS: its client's task is cancelled from outside.
    GOES_DEAF: its client does nothing any more, and keeps the session. POISONED: its voice is not numbers.
    """

    SPEAKS = "speaks"
    CANCELS = "cancels"
    DROPS = "drops"
    GOES_DEAF = "goes_deaf"
    POISONED = "poisoned"


@dataclass(frozen=True, slots=True)
class Plan:
    """One session. `parts` of text go in `pause_s` apart; what is to happen to it happens `after_s` its opening."""

    kind: Kind
    parts: tuple[str, ...]
    pause_s: float
    mode: Mode
    seed: int
    after_s: float


LINES = ((1, 0.65), (2, 0.25), (4, 0.1))
"""How many lines a session says, and what share of the sessions does."""
LONGEST_PAUSE_S = 0.08
LATEST_S = 4.0


def kinds(count: int) -> list[Kind]:
    """A fifth cancels, a tenth vanishes in two ways, one in a hundred is poisoned (one at least); the others speak."""
    vanishing = count // 10
    made = [Kind.CANCELS] * (count // 5)
    made += [Kind.DROPS] * (vanishing - vanishing // 2) + [Kind.GOES_DEAF] * (vanishing // 2)
    made += [Kind.POISONED] * max(1, count // 100)
    return made + [Kind.SPEAKS] * (count - len(made))


def plans(count: int, lines: Sequence[str], seed: int = 0) -> list[Plan]:
    """`count` sessions in the order they come, each with a seed of its own. `lines`: English sentences."""
    draw = random.Random(seed)
    order = kinds(count)
    draw.shuffle(order)
    made = []
    for number, kind in enumerate(order):
        (said,) = draw.choices([many for many, _ in LINES], [share for _, share in LINES])
        text = " ".join(draw.choice(lines) for _ in range(said))
        at_once = draw.random() < 0.4
        parts = (text,) if at_once else tuple(pieces(text, "en"))
        pause_s = draw.uniform(0, LONGEST_PAUSE_S)
        made.append(Plan(kind, parts, pause_s, draw.choice(list(Mode)), number + 1, draw.uniform(0, LATEST_S)))
    return made


WARM_UP = "We went on along the river, past the mill and the old bridge, to where the road turns north, and then " * 3


def warm_ups(clients: int, lines: Sequence[str], seed: int = 0) -> list[Plan]:
    """What is spoken before anything is counted: a long sentence for every client, then sessions like the others, so
    that whatever grows once with the sizes that occur has grown."""
    first = Plan(Kind.SPEAKS, (WARM_UP,), 0.0, Mode.SENTENCE, 0, 0.0)
    others = [plan for plan in plans(4 * clients, lines, seed + 1) if plan.kind is Kind.SPEAKS]
    return [replace(plan, seed=10**6 + place) for place, plan in enumerate([first] * clients + others)]
