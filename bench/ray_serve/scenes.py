"""What is done with two replicas, under calls all the time, and what became of the calls."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from itertools import count
from typing import Any

from bench.figures import ranks
from bench.fleet.hearing import Call, Doors
from bench.fleet.scenario import CHANNELS, Crowd, landing, of_a_kill, outcomes, stubs
from bench.ray_serve.cluster import GRPC, HTTP, PATIENCE_S, deploy, replicas, running, until
from bench.ray_serve.replica import PLACES_OF_ONE, Unit
from bench.served import Served
from oscine_service.ray_serve.scaling import ByStreams

DOORS = ("grpc", "websocket", "http")
ALONE, WARM = 100, 5
SHORT_S = 0.2
"""Of calls one after the other: a packet, which is there at once."""

_PAUSE_S = {"grpc": SHORT_S / 3}
"""That clients themselves take before a sentence is whole (`hearing.Doors`)."""


async def alone(addresses: Sequence[str], units: set[int], calls: int) -> dict[str, Any]:
    """First packets of calls one after the other, in milliseconds, by door. addresses: gRPC and HTTP."""
    found = {}
    async with stubs(addresses[0], 1) as opened:
        doors = Doors(opened, addresses[1], SHORT_S, units)
        for door in DOORS:
            heard = [await doors.call(door, seed) for seed in range(WARM + calls)][WARM:]
            found[door] = {"calls": len(heard), "failed": _failed(heard), **_first_ms(heard, _PAUSE_S.get(door, 0.0))}
    return found


async def straight(unit: Served, recording: int, calls: int) -> dict[str, Any]:
    assert unit.http is not None
    return await alone((unit.grpc, unit.http), {recording}, calls)


async def through(calls: int) -> dict[str, Any]:
    await asyncio.to_thread(deploy, Unit, SHORT_S, num_replicas=2)
    return await alone((GRPC, HTTP), replicas(), calls)


async def crowded(clients: int, seconds: float) -> dict[str, Any]:
    """Many at once; then one replica is taken away, and another one killed."""
    await asyncio.to_thread(deploy, Unit, seconds, num_replicas=2)
    async with stubs(GRPC, CHANNELS) as opened:
        doors = Doors(opened, HTTP, seconds, replicas())
        watching = asyncio.create_task(_watch(doors))
        crowd = Crowd(doors, count(1))
        crowd.join(clients)
        await asyncio.sleep(2 * seconds)
        found: dict[str, Any] = {"shares": sorted(len(_speaking(doors, unit)) for unit in doors.units)}
        quiet = [call for call in doors.calls if call.ended is not None]
        found["undisturbed"] = {"calls": len(quiet), "failed": _failed(quiet)}
        found["drained"] = await _drained(doors, seconds)
        await asyncio.to_thread(deploy, Unit, seconds, num_replicas=2)
        await asyncio.sleep(seconds)
        found["killed"] = await _killed(doors)
        await crowd.leave()
        watching.cancel()
        found["calls"], found["split"] = len(doors.calls), sum(call.wrong for call in doors.calls)
    return found


async def _drained(doors: Doors, seconds: float) -> dict[str, Any]:
    """Both go, and one takes their place, as when they are upgraded."""
    before, told = replicas(), time.monotonic()
    await asyncio.to_thread(deploy, Unit, seconds, num_replicas=1)
    await until(lambda: running() == 1 and not replicas() & before)
    took = time.monotonic() - told
    theirs = [call for call in doors.calls if call.unit in before and (call.ended or told) >= told]
    await _ended(theirs)
    new = [call for call in doors.calls if call.asked >= told and call.ended is not None]
    return {
        "speaking": len(theirs),
        "lost": _failed(theirs),
        "took_s": round(took, 1),
        "new": len(new),
        "refused": outcomes([call for call in new if call.refused]),
        "landing_s": landing(new),
    }


async def _killed(doors: Doors) -> dict[str, Any]:
    """One is gone from one moment to the next."""
    victim = max(replicas(), key=lambda unit: len(_speaking(doors, unit)))
    speaking = _speaking(doors, victim)
    untouched = [call for call in doors.running if call.unit not in (victim, None)]
    told = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    await _ended([*speaking, *untouched])
    back = await until(lambda: running() == 2 and victim not in replicas() and len(replicas()) == 2)
    new = [call for call in doors.calls if call.asked >= told and call.ended is not None]
    return {
        **of_a_kill(speaking, told),
        "untouched": {"speaking": len(untouched), "lost": _failed(untouched)},
        "new": len(new),
        "refused": outcomes([call for call in new if call.refused]),
        "landing_s": landing(new),
        "two_again_s": round(time.monotonic() - told, 1) if back else 0.0,
    }


async def scaled(seconds: float) -> dict[str, Any]:
    """One becomes two while as many streams as one has places for speak, and one again once they have gone."""
    policy = {"policy_function": f"{ByStreams.__module__}:{ByStreams.__name__}", "policy_kwargs": {"share": 0.7}}
    scaling = {"min_replicas": 1, "max_replicas": 2, "policy": policy, "look_back_period_s": 2.0}
    scaling |= {"upscale_delay_s": 1.0, "downscale_delay_s": 2.0, "metrics_interval_s": 0.5}
    await asyncio.to_thread(deploy, Unit, seconds, autoscaling_config=scaling, num_replicas=None)
    await until(lambda: running() == 1 and len(replicas()) == 1)
    async with stubs(GRPC, 1) as opened:
        doors = Doors(opened, HTTP, seconds, replicas())
        crowd = Crowd(doors, count(1))
        crowd.join(PLACES_OF_ONE)
        watching = asyncio.create_task(_watch(doors))
        up = await until(lambda: running() == 2)
        await crowd.leave()
        watching.cancel()
        down = await until(lambda: running() == 1)
    return {"streams": PLACES_OF_ONE, "up_s": round(up, 1), "down_s": round(down, 1), "failed": _failed(doors.calls)}


async def _watch(doors: Doors) -> None:
    """Know new replicas before calls hear them: they take longer than that to come up."""
    while True:
        doors.units |= replicas()
        await asyncio.sleep(0.2)


def _speaking(doors: Doors, unit: int) -> list[Call]:
    return [call for call in doors.running if call.unit == unit]


async def _ended(calls: Sequence[Call]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while any(call.ended is None for call in calls):
            await asyncio.sleep(0.02)


def _failed(calls: Sequence[Call]) -> dict[str, int]:
    return outcomes([call for call in calls if call.told])


def _first_ms(calls: Sequence[Call], pause_s: float) -> dict[str, float | None]:
    taken = [call.first - call.asked - pause_s for call in calls if call.first is not None]
    return ranks(taken, 50, 99, 100, scale=1000, digits=2)
