"""A crowd of clients without keys, at all doors at once, while calls with a key speak and new ones come."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grpc

from bench.chaos import engine_of
from bench.client import connect
from bench.drills.clock_jump import made_key
from bench.drills.listener import Listener, breaks, playing, told
from bench.drills.outcome import Outcome
from bench.drills.watching import total, until
from bench.figures import percentile
from bench.model import TINY, model_directory
from bench.served import Served, served
from bench.soak_wire import Held
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

SECONDS, SHORT_SECONDS = 30.0, 8.0
FIRST_S, RECOVERY_S = 3.0, 40.0
MOST_GROWTH = 64 << 20
"""Bytes: some hundred connections are held, and none of what they send."""
REFUSALS = {"http 401", "websocket 401", "grpc UNAUTHENTICATED"}
NICE = 5
"""A crowd is on other machines: it is not to take the service's turns at this one's cores."""


async def drill(short: bool) -> Outcome:
    found = Outcome()
    with model_directory(TINY) as model, tempfile.TemporaryDirectory(prefix="oscine-drill-") as folder:
        keys = Path(folder) / "keys.json"
        key = made_key(keys, "drill", "speak,metrics")
        flags = ("--keys", str(keys), "--max-streams", "6", "--utilisation", "inf", "--grace", "2")
        with served(*flags, model=model, http=True) as unit:
            async with connect(unit.grpc) as channel:
                await _flooded(found, unit, channel, key, SHORT_SECONDS if short else SECONDS)
    return found


async def _flooded(found: Outcome, unit: Served, channel: grpc.aio.Channel, key: str, seconds: float) -> None:
    stub = SpeechServiceStub(channel)
    assert unit.http is not None
    before_s = [(await Listener(stub, seed=seed, key=key).hear()).first_s for seed in range(3)]
    before, engine = Held.by(unit.pid), engine_of(unit.pid)
    sentences = math.ceil(seconds / 5)
    async with playing([Listener(stub, sentences, seed=seed, key=key) for seed in range(2)]) as calls:
        command = [sys.executable, "-m", "bench.drills.flooding", unit.grpc, unit.http, str(seconds)]
        crowd = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        os.setpriority(os.PRIO_PROCESS, crowd.pid, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
        try:
            assert crowd.stdout is not None
            await crowd.stdout.readline()
            began = time.monotonic()
            news: list[Listener] = []
            while time.monotonic() - began < seconds - 1:
                news.append(await Listener(stub, seed=10 + len(news), key=key).hear())
                await asyncio.sleep(0.5)
            most = Held.by(unit.pid)
            answers: dict[str, int] = json.loads(await crowd.stdout.read() or "{}")
            ended = time.monotonic()
        except BaseException:
            crowd.kill()
            raise
        finally:
            await crowd.wait()
        for each in calls:
            await each.hear()
        still = breaks(calls, began, ended)

    async def given_back() -> bool:
        return Held.by(unit.pid).file_descriptors <= before.file_descriptors + 2

    found.recovered(await until(given_back, RECOVERY_S, "the return of the file descriptors"), RECOVERY_S)
    first_s = [each.first_s for each in news]
    refused = sum(count for name, count in answers.items() if name in REFUSALS)
    others = {name: count for name, count in answers.items() if name not in REFUSALS and not name.startswith("idle")}
    counted = await total(unit.http, "oscine_refused_total", {"outcome": "unauthenticated"}, key)
    found.keep(all(each.complete for each in calls), "a running call with a key did not come whole")
    found.keep(
        all(each.complete for each in news), f"a new call with a key ended with {[each.status for each in news]}"
    )
    found.keep(answers.keys() >= REFUSALS, f"some door refused nobody: {answers}")
    found.keep(not any("spoke" in name or " 200" in name or " 101" in name for name in answers), f"let in: {answers}")
    found.keep(counted >= refused, f"{refused} were refused, and metrics tell of {counted:g}")
    found.keep(engine_of(unit.pid) == engine, "the engine was started again")
    found.keep(most.memory - before.memory <= MOST_GROWTH, f"memory grew by {(most.memory - before.memory) >> 20} MiB")
    found.playing("a running call", still)
    found.in_time("the first sound of a new call", percentile(first_s, 95) or 0.0, FIRST_S)
    found.happened.append(
        f"{refused / seconds:.0f} refusals a second for {seconds:g} s, and 400 connections that never ended a request: "
        f"of running calls {told(calls, began, ended)}; {len(news)} new ones with a key sounded after "
        f"{1000 * (percentile(first_s, 50) or 0):.0f} ms (p50; before: {1000 * (percentile(before_s, 50) or 0):.0f}), "
        f"memory {(most.memory - before.memory) / 2**20:+.0f} MiB, all connections given back "
        f"{found.recovered_s:.1f} s later"
    )
    found.figures |= {
        "answers": answers,
        "others": others,
        "counted": counted,
        "first_s": [round(each, 3) for each in first_s],
        "before_s": [round(each, 3) for each in before_s],
        "breaks_s": still,
        "memory_growth": most.memory - before.memory,
        "file_descriptors": [before.file_descriptors, most.file_descriptors],
    }
