"""How many devices so many calls need: what one device serves, by simulation, and spares, by counting."""

import itertools
import math
import random
from dataclasses import dataclass

from bench.simulation.device import Truth
from bench.simulation.fleet import run
from bench.simulation.load import Load
from bench.simulation.policies import POLICIES
from bench.simulation.profiles import PROFILES
from bench.simulation.report import summary
from oscine_engine.scheduler.admission import Limits

FLEETS = (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000)


@dataclass(frozen=True, slots=True)
class Terms:
    """What is promised, and to whom.

    first_packet_ms: its 95th percentile, with no underrun and no refusal. headroom: share of what a device can just
    do that is planned for, since arrivals are not spread evenly over devices and days. talking and turn_s: in a call
    the agent speaks this share of the time, so many seconds at a time. mtbf_h, repair_h: of a device with its host,
    replaced. shortage: how often fewer devices than planned may be up.
    """

    first_packet_ms: float = 200.0
    headroom: float = 0.85
    talking: float = 0.4
    turn_s: float = 4.4
    mtbf_h: float = 1000.0
    repair_h: float = 4.0
    shortage: float = 1e-4


def serves(profile: str, terms: Terms, rate: float, seconds: float, seeds: int) -> bool:
    """Whether one device keeps what is promised at `rate` requests a second, for each of so many seeds."""
    policy = POLICIES["oscine"]
    for seed in range(seeds):
        rng = random.Random(seed)
        device = policy.device(PROFILES[profile], policy.voice, rng, Limits(10**6), Truth())
        utterances = Load(rate, seconds, mean_s=terms.turn_s).utterances(rng)
        figures = summary(run(itertools.repeat(device).__next__, 1, policy.voice, utterances, rng), 1)
        late = figures["ttfp_p95_ms"] is not None and figures["ttfp_p95_ms"] > terms.first_packet_ms
        if late or figures["underruns"] or figures["refused"]:
            return False
    return True


def capacity(profile: str, terms: Terms, seconds: float = 60.0, seeds: int = 2) -> float:
    """The most requests a second that one device serves as promised, to within one in forty; 0 if it never does."""
    low, high = 0.0, 1.0
    while serves(profile, terms, high, seconds, seeds):
        low, high = high, 2 * high
    while high - low > 0.025 * high and high > 0.05:
        middle = (low + high) / 2
        low, high = (middle, high) if serves(profile, terms, middle, seconds, seeds) else (low, middle)
    return low


def spares(devices: int, terms: Terms) -> int:
    """How many of `devices` may be down at a time, more than that being rarer than `shortage`."""
    down = terms.repair_h / (terms.mtbf_h + terms.repair_h)
    left = 1.0
    for count in range(devices + 1):
        ways = math.lgamma(devices + 1) - math.lgamma(count + 1) - math.lgamma(devices - count + 1)
        left -= math.exp(ways + count * math.log(down) + (devices - count) * math.log1p(-down))
        if left < terms.shortage:
            return count
    return devices


def plan(terms: Terms | None = None) -> str:
    """Markdown: what one device of each profile serves, and the calls that fleets of them hold."""
    terms = terms or Terms()
    names = [name for name in PROFILES if name != "cpu"]
    most = {name: capacity(name, terms) for name in names}
    lines = ["| Device | Requests/s | Seconds of speech a second | Calls, none down |", "|---|---|---|---|"]
    for name in names:
        calls = most[name] * terms.headroom * terms.turn_s / terms.talking
        lines.append(f"| {name} | {most[name]:.1f} | {most[name] * terms.turn_s:.0f} | {calls:,.0f} |")
    lines += ["", "| Devices | Down at a time | " + " | ".join(f"Calls on {name}" for name in names) + " |"]
    lines.append("|---|---|" + "---|" * len(names))
    for devices in FLEETS:
        down = spares(devices, terms) if devices > 1 else 0  # one device has none to spare
        planned = (devices - down) * terms.headroom * terms.turn_s / terms.talking
        lines.append(f"| {devices} | {down} | " + " | ".join(f"{planned * most[name]:,.0f}" for name in names) + " |")
    return "\n".join(lines)
