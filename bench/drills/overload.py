"""Five times as many clients as there are places, for two minutes. All obey the hints, and none of them gives up."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc

from bench.chaos import engine_of
from bench.client import connect
from bench.drills.listener import OK, Listener, breaks, told
from bench.drills.outcome import Outcome
from bench.figures import ranks
from bench.model import TINY, model_directory
from bench.served import Served, served
from bench.soak_wire import Held
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub

TIMES = 5
MOST_PLACES = 8
SENTENCES = 1
SECONDS, SHORT_SECONDS = 120.0, 15.0
RECOVERY_S, REFUSAL_S = 5.0, 2.0
GROWTH = 0.25
"""Of memory, which must not rise with those that were refused."""


@dataclass(slots=True)
class Seen:
    """Of all clients. refused_s: from asking to being told no. unhinted: refusals without a time to come back."""

    ended: list[Listener] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    unhinted: int = 0


async def drill(short: bool) -> Outcome:
    found = Outcome()
    with (
        model_directory(TINY) as model,
        served("--max-streams", str(MOST_PLACES), "--grace", "2", model=model) as unit,
    ):
        async with connect(unit.grpc) as channel:
            await _loaded(found, unit, channel, SHORT_SECONDS if short else SECONDS)
    return found


async def _loaded(found: Outcome, unit: Served, channel: grpc.aio.Channel, seconds: float) -> None:
    stub = SpeechServiceStub(channel)
    pids = {"service": unit.pid, "engine": engine_of(unit.pid)}
    # All places once, so that what is made with the first calls is not taken for growth.
    room = [Listener(stub, SENTENCES, seed=seed).start() for seed in range(MOST_PLACES)]
    places = sum([await each.sounds() for each in room])
    for each in room:
        await each.hear()
    alone_s = (await Listener(stub, seed=1).hear()).first_s
    before = {name: Held.by(pid) for name, pid in pids.items()}
    seen, until = Seen(), time.monotonic() + seconds
    clients = TIMES * places
    await asyncio.gather(*(_client(stub, seen, 100 * number, until) for number in range(clients)))
    stopped = time.monotonic()
    new = await Listener(stub, seed=1).hear()
    found.recovered(math.inf if new.first is None else new.first - stopped, RECOVERY_S)
    after = {name: Held.by(pid) for name, pid in pids.items()}
    grown = {name: round(after[name].memory / before[name].memory - 1, 3) for name in pids}
    whole = [each for each in seen.ended if each.complete]
    still = breaks(seen.ended)
    found.keep(len(whole) == len(seen.ended), f"{len(seen.ended) - len(whole)} admitted calls did not come whole")
    found.keep(len(seen.ended) >= places, f"{len(seen.ended)} calls were served with {places} places")
    found.keep(not seen.unhinted, f"{seen.unhinted} refusals without a hint")
    found.keep(max(grown.values()) <= GROWTH, f"memory grew by {grown}")
    found.playing("an admitted call", still)
    found.in_time("a refusal", max(seen.refused_s, default=0.0), REFUSAL_S)
    refused_ms = ranks(seen.refused_s, 50, 99, 100, scale=1000)
    first_ms = ranks([each.first_s for each in seen.ended if each.first is not None], 50, 95, 100, scale=1000, digits=0)
    found.happened.append(
        f"{clients} clients at {places} places for {seconds:g} s: of admitted calls {told(seen.ended)}; "
        f"{len(seen.refused_s)} were refused, {len(seen.refused_s) - seen.unhinted} with a hint, after "
        f"{refused_ms['p50'] or 0:.0f} ms (p50) and {refused_ms['max'] or 0:.0f} at most; first sound "
        f"{first_ms['p50'] or 0:.0f} ms (p50), alone "
        f"{1000 * alone_s:.0f}; {found.recovered_s:.2f} s after the load a new call sounded"
    )
    found.figures |= {
        "clients": clients,
        "places": places,
        "seconds": seconds,
        "admitted": len(seen.ended),
        "refused": len(seen.refused_s),
        "refused_ms": refused_ms,
        "first_ms": first_ms,
        "alone_ms": round(1000 * alone_s),
        "breaks_s": [round(each, 3) for each in still],
        "memory_growth": grown,
    }


async def _client(stub: SpeechServiceAsyncStub, seen: Seen, seed: int, until: float) -> None:
    """One call after the other."""
    while time.monotonic() < until:
        seed += 1
        call = await Listener(stub, SENTENCES, seed=seed).hear()
        if call.status == "RESOURCE_EXHAUSTED" and call.first is None:
            seen.refused_s.append(call.ended - call.asked)
            seen.unhinted += call.hint_ms is None
            await asyncio.sleep((call.hint_ms or 1000) / 1000)
        else:
            seen.ended.append(call)
            if call.status != OK:
                await asyncio.sleep(1.0)
