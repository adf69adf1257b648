"""Packets that come late or never, and a line that is dead for some seconds, between a service and its clients."""

from __future__ import annotations

import asyncio
import time

import grpc

from bench.client import connect
from bench.drills.lines import FAR, Far, Weather, far_away
from bench.drills.listener import Listener, breaks, playing, told
from bench.drills.outcome import Outcome
from bench.model import TINY, model_directory
from bench.served import served
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

GOOD = Weather("a good line", 0.0, 0.0, 0.0)
BAD = (
    Weather("40 ms each way, 10 ms jitter, 1 % lost", 0.04, 0.01, 0.01),
    Weather("150 ms each way, 30 ms jitter, 5 % lost", 0.15, 0.03, 0.05),
)
DEAD = Weather("dead", 0.0, 0.0, 1.0)
DEAD_S = 2.0
STREAMS = 3
FIRST_S, RECOVERY_S = 5.0, 15.0


async def drill(short: bool) -> Outcome:
    found = Outcome()
    with model_directory(TINY) as model, far_away() as far:
        flags = ("--host", FAR, "--max-streams", "6", "--utilisation", "inf", "--grace", "2")
        with served(*flags, model=model, before=far.inside) as unit:
            async with connect(unit.grpc) as channel:
                await Listener(SpeechServiceStub(channel)).hear()
                for weather in BAD:
                    await _through(found, far, channel, weather, 1 if short else 2)
                await _dead(found, far, channel, 2 if short else 3)
    found.figures["by"] = far.line.by
    found.happened.insert(0, f"by {far.line.by}")
    return found


async def _through(found: Outcome, far: Far, channel: grpc.aio.Channel, weather: Weather, sentences: int) -> None:
    stub = SpeechServiceStub(channel)
    far.line.set(weather)
    calls = [Listener(stub, sentences, seed=seed) for seed in range(STREAMS)]
    async with playing(calls):
        for each in calls:
            await each.hear()
    counts = far.line.set(GOOD)
    first_s, still = max(each.first_s for each in calls), breaks(calls)
    found.keep(all(each.complete for each in calls), f"{weather.name}: a call did not come whole")
    found.playing(f"{weather.name}: a call", still)
    found.in_time(f"{weather.name}: a first sound", first_s, FIRST_S)
    dropped = f" ({counts['dropped']} of {counts['carried'] + counts['dropped']} packets)" if counts else ""
    found.happened.append(f"{weather.name}{dropped}: of calls {told(calls)}, first sound after {first_s:.2f} s at most")
    found.figures[weather.name] = {
        **counts,
        "first_s": round(first_s, 3),
        "breaks_s": [round(each, 3) for each in still],
    }


async def _dead(found: Outcome, far: Far, channel: grpc.aio.Channel, sentences: int) -> None:
    """No call is lost: a player stands still once it has played what it had, and goes on where it stopped."""
    calls = [Listener(SpeechServiceStub(channel), sentences, seed=seed) for seed in range(STREAMS)]
    async with playing(calls):
        # Until they have what a service sends ahead.
        await asyncio.sleep(DEAD_S)
        far.line.set(DEAD)
        await asyncio.sleep(DEAD_S)
        far.line.set(GOOD)
        mended, had = time.monotonic(), [each.samples for each in calls]
        while any(each.samples == before for each, before in zip(calls, had, strict=True)):
            if time.monotonic() - mended > RECOVERY_S:
                break
            await asyncio.sleep(0.02)
        found.recovered(time.monotonic() - mended, RECOVERY_S)
        for each in calls:
            await each.hear()
    still = breaks(calls)
    found.keep(all(each.complete for each in calls), "dead line: a call did not come whole")
    found.happened.append(
        f"dead for {DEAD_S:g} s: of calls {told(calls)}, sound came again {found.recovered_s:.2f} s after it was mended"
    )
    found.figures["dead"] = {"seconds": DEAD_S, "breaks_s": [round(each, 3) for each in still]}
