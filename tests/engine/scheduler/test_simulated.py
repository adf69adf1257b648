"""What the scheduler promises, held against random loads on a simulated clock."""

import json
import math
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bench.simulation.device import Loop, Truth
from bench.simulation.fleet import Failures, Outcome, run
from bench.simulation.load import Load, Utterance
from bench.simulation.policies import POLICIES, SHORT
from bench.simulation.profiles import PROFILES, Profile
from bench.simulation.report import summary
from bench.simulation.stream import Heard, Stream
from oscine_engine.scheduler.admission import Limits, Refusal
from oscine_engine.scheduler.costs import CostModel, Curve
from oscine_engine.scheduler.policy import RULES, pick
from oscine_engine.scheduler.views import Stage

slow_ones = settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
FULL = 55.0
"""Requests a second that fill a device of the measured costs."""


def device_of(slowness: float) -> Profile:
    """A device that takes `slowness` times as long for everything as the one that was measured."""
    costs = PROFILES["h200"].costs
    curves = [
        Curve(tuple((rows, seconds * slowness) for rows, seconds in curve.points))
        for curve in (costs.lm, costs.flow, costs.vocoder)
    ]
    return Profile(CostModel(curves[0], curves[1], curves[2], costs.context_s * slowness), 0.0, "test")


def simulate(
    profile: Profile, load: Load, seed: int, *, truth: Truth | None = None, limits: Limits | None = None
) -> tuple[Outcome, Loop]:
    loop = Loop(profile, SHORT, pick, random.Random(seed), limits=limits or Limits(10**6), truth=truth)
    return run(lambda: loop, 1, SHORT, load.utterances(random.Random(seed)), random.Random(seed)), loop


@slow_ones
@given(st.floats(0.5, 2.0), st.floats(0.1, 2.5), st.integers(0, 10**6))
def test_who_is_let_in_is_in_time(slowness: float, share: float, seed: int) -> None:
    """Feasible is what admission lets in, under exact costs: from idle to two and a half times what a device can do."""
    outcome, loop = simulate(device_of(slowness), Load(share * FULL / slowness, 3.0), seed)
    assert sum(heard.underruns for heard in outcome.heard) == 0
    # Nobody is left behind: all that were let in are spoken to their end.
    assert not loop.streams
    assert all((heard.done_at is None) == (heard.refused > 0) for heard in outcome.heard)
    waits = [heard.first_packet_s for heard in outcome.heard if heard.first_packet_s is not None]
    assert max(waits, default=0.0) <= RULES.patience_s


@slow_ones
@given(st.integers(0, 10**6), st.floats(0.8, 1.1))
def test_nobody_is_refused_below_what_the_device_can_do(seed: int, share: float) -> None:
    outcome, _ = simulate(device_of(1.0), Load(0.8 * share * FULL, 4.0), seed)
    assert sum(heard.refused for heard in outcome.heard) == 0
    assert sum(heard.underruns for heard in outcome.heard) == 0


@slow_ones
@given(st.integers(0, 10**6), st.floats(0.2, 1.5))
def test_costs_that_vary_are_taken_gracefully(seed: int, share: float) -> None:
    """Ticks that take 0.8 to 1.3 times what the model says: within a fifth of a full load nothing is late at all, and
    beyond it hardly anything."""
    outcome, _ = simulate(device_of(1.0), Load(share * FULL, 4.0), seed, truth=Truth(0.8, 1.3))
    late = sum(heard.underruns > 0 for heard in outcome.heard)
    assert late <= (0 if share < 0.8 else 0.02 * len(outcome.heard))
    assert all(heard.underrun_s < 0.1 for heard in outcome.heard)


@slow_ones
@given(st.integers(0, 10**6))
def test_a_model_that_is_wrong_by_half_is_put_right(seed: int) -> None:
    """Every tick takes half again as long as measured: the correction finds it while the load is running."""
    outcome, loop = simulate(device_of(1.0), Load(0.5 * FULL, 4.0), seed, truth=Truth(1.5, 1.5))
    assert loop.costs.correction[Stage.LM] == pytest.approx(1.5, rel=0.05)
    assert sum(heard.underruns for heard in outcome.heard) == 0


@slow_ones
@given(st.integers(0, 10**6), st.sampled_from([6.0, 20.0, 50.0]))
def test_text_that_trickles_in_starves_and_nothing_else_is_late_by_more_than_a_tick(seed: int, rate: float) -> None:
    """The demand test lets those who are due share ticks; when they come apart, one may be some milliseconds late."""
    outcome, loop = simulate(device_of(1.0), Load(10.0, 3.0, text_rate=rate), seed)
    assert all(heard.underrun_s <= RULES.longest_tick_s for heard in outcome.heard)
    assert all(heard.done_at is not None for heard in outcome.heard) and not loop.streams
    # At 6 text ids a second 18 speech ids may follow, and a second of speech takes 25.
    if rate == 6.0 and outcome.heard:
        assert sum(heard.starved for heard in outcome.heard) > 0


@slow_ones
@given(st.integers(0, 10**6))
def test_without_admission_an_overload_starves_nobody(seed: int) -> None:
    """Everybody is late, and everybody is served."""
    everybody = Limits(10**6, utilisation=1e9, first_packet_s=1e9)
    outcome, loop = simulate(device_of(1.0), Load(3 * FULL, 2.0), seed, limits=everybody)
    assert all(heard.done_at is not None for heard in outcome.heard) and not loop.streams


def test_long_streams_as_many_as_are_let_in_are_in_time() -> None:
    """Thirty seconds each, and never more than two ahead: the device is full of them for half a minute."""
    voice = replace(SHORT, credit_s=2.0)
    loop = Loop(device_of(6.0), voice, pick, random.Random(0), limits=Limits(10**6))
    crowd = [Utterance(0.2 * place, 25 * 30) for place in range(60)]
    outcome = run(lambda: loop, 1, voice, crowd, random.Random(0))
    refused = sum(heard.refused for heard in outcome.heard)
    assert 10 <= len(crowd) - refused < len(crowd)
    assert sum(heard.underruns for heard in outcome.heard) == 0


def test_the_gate_and_the_copied_rule_beside_it() -> None:
    load = Load(40.0, 20.0)

    def figures(name: str) -> dict[str, float]:
        policy = POLICIES[name]
        device = policy.device(PROFILES["h200"], policy.voice, random.Random(0), Limits(10**6), Truth())
        utterances = load.utterances(random.Random(0))
        return summary(run(lambda: device, 1, policy.voice, utterances, random.Random(0)), 1)

    ours, theirs = figures("oscine"), figures("published")
    assert ours["underruns"] == ours["refused"] == 0 and ours["ttfp_p95_ms"] <= 200
    assert theirs["ttfp_p95_ms"] > 1000


def test_a_lone_stream_takes_what_its_ticks_take() -> None:
    outcome, _ = simulate(device_of(1.0), Load(1e-9, 1.0), 0)
    assert not outcome.heard
    profile = device_of(1.0)
    loop = Loop(profile, SHORT, pick, random.Random(0))
    (heard,) = run(lambda: loop, 1, SHORT, [Utterance(0.0, 110)], random.Random(0)).heard
    costs = profile.costs
    lm = 12 * costs.tick_s(Stage.LM, 1) + costs.tick_s(Stage.LM, SHORT.prompt_rows)
    flow = 10 * costs.tick_s(Stage.FLOW, 1, SHORT.prompt_frames)
    assert heard.first_packet_s == pytest.approx(lm + flow + costs.tick_s(Stage.VOCODER, 1))


@pytest.mark.parametrize("policy", POLICIES)
def test_sound_is_as_long_as_the_speech(policy: str) -> None:
    """Whatever the policy, a listener hears each token's 40 ms, no more and no less."""
    chosen = POLICIES[policy]
    for ids in (1, 5, 13, 24, 35, 38, 110, 111, 260):
        device = chosen.device(PROFILES["h200"], chosen.voice, random.Random(0), None, Truth())
        stream = Stream(Utterance(0.0, ids), chosen.voice, 0.0, Heard())
        assert device.offer(stream, 0.0) is None
        now = 0.0
        while now < math.inf:
            now = device.wake(now)
        assert stream.heard.first_packet_s is not None and stream.heard.underruns == 0
        assert stream.dry_at == pytest.approx(stream.heard.first_packet_s + 0.04 * ids)


def test_a_fleet_loses_streams_to_failures_and_serves_them_again() -> None:
    def make() -> Loop:
        return Loop(device_of(1.0), SHORT, pick, random.Random(0), limits=Limits(10**6))

    failures = Failures(mtbf_s=10.0, repair_s=2.0)
    outcome = run(make, 4, SHORT, Load(40.0, 8.0).utterances(random.Random(3)), random.Random(3), failures)
    assert outcome.failures > 0 and sum(heard.broken for heard in outcome.heard) > 0
    assert all(heard.done_at is not None for heard in outcome.heard)


def test_a_refused_client_may_come_back() -> None:
    class Full(Loop):
        turned_away = 0

        def offer(self, stream, now):  # type: ignore[no-untyped-def]
            if self.turned_away < 2:
                self.turned_away += 1
                return Refusal("full", 0.5)
            return super().offer(stream, now)

    loop = Full(device_of(1.0), SHORT, pick, random.Random(0))
    (heard,) = run(lambda: loop, 1, SHORT, [Utterance(0.0, 50)], random.Random(0), retries=True).heard
    assert heard.refused == 2 and heard.first_packet_s is not None and heard.first_packet_s > 1.0


def test_a_crowd_finds_room_when_it_was_told_to_come_back() -> None:
    """Three hundred callers within a second, far more than fit: nearly all who come back as told are served."""
    load, rng = Load(0.6 * FULL, 20.0), random.Random(7)
    crowd = [Utterance(4.0 + rng.random(), 110) for _ in range(300)]
    calls = sorted([*load.utterances(random.Random(0)), *crowd], key=lambda each: each.arrives)
    loop = Loop(device_of(1.0), SHORT, pick, random.Random(0), limits=Limits(10**6))
    outcome = run(lambda: loop, 1, SHORT, calls, random.Random(0), retries=True)
    refused = [heard for heard in outcome.heard if heard.refused]
    assert len(refused) > 100
    assert sum(heard.done_at is None for heard in refused) < 0.05 * len(refused)


def test_the_command_prints_one_object() -> None:
    command = [sys.executable, "-m", "bench.simulate", "--profile", "l40s", "--rps", "5", "--seconds", "3", "--json"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures = json.loads(printed)
    assert {"ttfp_p50_ms", "ttfp_p95_ms", "ttfp_p99_ms", "underruns", "starved", "refused", "utilisation"} <= set(
        figures
    )
