"""The policies that can be simulated, by name."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.simulation.device import Loop, Simulated, Truth
from bench.simulation.profiles import Profile
from bench.simulation.published import TwoProcesses, pick_by_reserve
from bench.simulation.stream import Voice
from oscine_engine.scheduler.admission import Limits
from oscine_engine.scheduler.policy import RULES, Rules, pick

SHORT, LONG = Voice(), Voice(first_tokens=21, first_ids=24)
"""First chunks of 320 and of 760 ms, as short as the chunk grid allows."""
PUBLISHED = Voice(first_tokens=21, first_ids=26)
"""760 ms again, from the 26 ids the published system waits for."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What it is, in words; how speech begins under it; and the device that follows it."""

    what: str
    voice: Voice
    device: Callable[[Profile, Voice, random.Random, Limits | None, Truth], Simulated]


def _ours(hold: bool = True, rules: Rules = RULES) -> Callable[..., Simulated]:
    def device(profile: Profile, voice: Voice, rng: random.Random, limits: Limits | None, truth: Truth) -> Simulated:
        return Loop(
            profile,
            voice,
            lambda views, now, costs: pick(views, now, costs, rules),
            rng,
            limits=limits,
            hold=hold,
            truth=truth,
        )

    return device


def _reserve(profile: Profile, voice: Voice, rng: random.Random, limits: Limits | None, truth: Truth) -> Simulated:
    return Loop(profile, voice, pick_by_reserve, rng, hold=False, truth=truth)


def _published(profile: Profile, voice: Voice, rng: random.Random, limits: Limits | None, truth: Truth) -> Simulated:
    # Its language model runs as far ahead as it can, and its server as far as its own memory goes.
    return TwoProcesses(profile, replace(voice, lm_ahead=math.inf, credit_s=math.inf), rng, truth=truth)


POLICIES = {
    "oscine": Policy("ours: deadlines by demand, first packet of 320 ms held while busy, admission", SHORT, _ours()),
    "oscine-760": Policy("ours with a first packet of 760 ms", LONG, _ours()),
    "oscine-no-gather": Policy("ours, no stream waiting for others", SHORT, _ours(rules=Rules(gather=False))),
    "oscine-no-hold": Policy("ours, first packets sent at once", SHORT, _ours(hold=False)),
    "reserve": Policy("the published order and batch size on our loop of ticks, 320 ms", SHORT, _reserve),
    "published": Policy("the published rule and its first packet: 760 ms from 26 ids", PUBLISHED, _published),
    "published-320": Policy("the published rule with our first packet of 320 ms", SHORT, _published),
}
