"""kill -9 of an engine process under running calls: of the only one, and of one of two."""

from __future__ import annotations

import os
import signal
import time

from bench import chaos
from bench.chaos import engines_of
from bench.client import connect
from bench.drills.listener import Listener, breaks, playing, told
from bench.drills.outcome import Outcome
from bench.drills.watching import total, until
from bench.model import TINY, model_directory
from bench.served import served
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

RECOVERY_S = 60.0
ELSEWHERE_S = 5.0


async def drill(short: bool) -> Outcome:
    found = Outcome()
    with model_directory(TINY) as model:
        with chaos.service(model, 4) as (pid, address):
            alone = await chaos.measure(pid, address, 4)
        found.keep(
            alone.good, f"calls of the only engine ended with {alone.errors}, {alone.hinted} of them with a hint"
        )
        ends = ", ".join(f"{count} calls ended with {name}" for name, count in alone.errors.items())
        found.happened.append(
            f"the only engine: {ends}, {alone.hinted} with a hint; health said no after {alone.not_serving_s:.2f} s, a "
            f"new call sounded after {alone.speaking_s:.1f} s"
        )
        flags = ("--device", "cpu,cpu", "--max-streams", "3", "--utilisation", "inf", "--grace", "2")
        with served(*flags, model=model, http=True) as unit:
            assert unit.http is not None
            await _one_of_two(found, unit.pid, unit.grpc, unit.http, 2 if short else 4)
    found.recovered(alone.speaking_s, RECOVERY_S)
    found.figures["alone"] = {"not_serving_s": alone.not_serving_s, "speaking_s": alone.speaking_s}
    return found


async def _one_of_two(found: Outcome, service: int, address: str, http: str, sentences: int) -> None:
    async def both() -> bool:
        return await total(http, "oscine_engine_up") == 2

    await until(both, RECOVERY_S, "the start of two engines")
    async with connect(address) as channel:
        stub = SpeechServiceStub(channel)
        async with playing([Listener(stub, sentences, seed=seed) for seed in range(4)]) as calls:
            os.kill(engines_of(service)[0], signal.SIGKILL)
            killed = time.monotonic()
            new = await Listener(stub, seed=9).hear()
            new_s = new.ended - killed if new.first is None else new.first - killed
            for each in calls:
                await each.hear()
            cut = [each for each in calls if each.status == "UNAVAILABLE"]
            others = [each for each in calls if each not in cut]
            back_s = time.monotonic() - killed + await until(both, RECOVERY_S, "the return of the killed engine")
            still = breaks(others, killed)
    found.keep(len(cut) == 2, f"{len(cut)} calls of four were cut off, not the two of the killed engine")
    found.keep(all(each.hint_ms is not None for each in cut), "a call was cut off without a hint")
    found.keep(all(each.complete for each in others), "a call of the other engine did not come whole")
    found.keep(new.complete, f"a new call beside the killed engine ended with {new.status}: {new.details}")
    found.in_time("a new call to the other engine", new_s, ELSEWHERE_S)
    found.playing("a call of the other engine", still)
    found.happened.append(
        f"one of two: {len(cut)} calls ended with UNAVAILABLE, {sum(each.hint_ms is not None for each in cut)} with a "
        f"hint; of the other engine's {told(others, killed)}; a new one sounded {new_s:.2f} s after the kill"
    )
    found.figures["of_two"] = {"new_call_s": round(new_s, 2), "both_up_by_s": round(back_s, 1), "breaks_s": still}
