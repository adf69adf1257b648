"""kill -9 of the service process while calls speak and voices are made; whoever keeps it running starts it again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import grpc

from bench.chaos import engines_of
from bench.client import connect
from bench.drills.listener import Listener, playing
from bench.drills.outcome import Outcome
from bench.drills.store import MODEL_FLAGS, Keeper, listed, recorded, unspoken
from bench.drills.watching import alive, until
from bench.served import Served, served
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

GONE_S, RECOVERY_S, TOLD_S = 10.0, 60.0, 1.0
BEFORE_KILL = 2
"""Voices that are acknowledged before each kill."""


async def drill(short: bool) -> Outcome:
    found, draw = Outcome(), random.Random(0)
    rounds = 1 if short else 2
    recovered, told_s, keeper, missing = [], [], None, 0
    with tempfile.TemporaryDirectory(prefix="oscine-drill-") as folder:
        flags = (*MODEL_FLAGS, "--voices", folder)
        log = Path(folder) / "log"
        for turn in range(rounds):
            with served(*flags, log=log) as unit:
                keeper, killed, told = await _killed(found, unit, keeper, turn, draw)
            told_s.append(told)
            # As a service manager does that is told to start it again at once.
            with served(*flags, log=log) as unit:
                async with connect(unit.grpc) as channel:
                    await Listener(SpeechServiceStub(channel), seed=5).start().sounds()
                    recovered.append(time.monotonic() - killed)
                    gone = set(keeper.kept) - await listed(channel)
                    found.keep(not gone, f"acknowledged voices are gone: {sorted(gone)}")
                    mute = await unspoken(channel, keeper.kept)
                    found.lost += mute
                    missing += len(gone) + len(mute)
    assert keeper is not None
    found.recovered(max(recovered), RECOVERY_S)
    found.in_time("telling the callers", max(told_s), TOLD_S)
    found.happened.append(
        f"{rounds} kills: callers were told after {max(told_s):.2f} s at most, no process was left, started again it "
        f"spoke {max(recovered):.1f} s after the kill; {len(keeper.kept)} voices acknowledged, {missing} lost"
    )
    found.figures |= {"kills": rounds, "voices": len(keeper.kept), "speaking_s": [round(each, 2) for each in recovered]}
    return found


async def _killed(
    found: Outcome, unit: Served, keeper: Keeper | None, turn: int, draw: random.Random
) -> tuple[Keeper, float, float]:
    """The keeper, when it was killed, and seconds until the callers were told."""
    engines = engines_of(unit.pid)
    async with connect(unit.grpc) as channel:
        keeper = keeper or await recorded(channel)
        async with playing([Listener(SpeechServiceStub(channel), 12, seed=seed) for seed in range(2)]) as calls:
            for number in range(BEFORE_KILL):
                await keeper.make(channel, f"v{turn}-{number}")
            making = asyncio.create_task(keeper.make(channel, f"v{turn}-open"))
            # Somewhere in the making of the next one.
            await asyncio.sleep(draw.uniform(0.2, 1.2))
            os.kill(unit.pid, signal.SIGKILL)
            killed = time.monotonic()
            for each in calls:
                await each.hear()
            await asyncio.wait([making])
    if (error := making.exception()) is not None and not isinstance(error, grpc.aio.AioRpcError):
        raise error
    ends = {each.status for each in calls}
    found.keep(ends == {"UNAVAILABLE"}, f"calls of the killed service ended with {ends}")

    async def gone() -> bool:
        return not any(alive(engine) for engine in engines)

    await until(gone, GONE_S, "the end of a killed service's engine")
    return keeper, killed, max(each.ended for each in calls) - killed
