"""The soak through the service: real calls over TCP, and clients that are killed or freeze. Run as bench.soak --grpc.

As a program of its own it is a crowd of such clients: python -m bench.soak_wire ADDRESS, with one call a line on
standard input, as JSON. It says that it has begun, makes all of them at once, and stays until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from bench.chaos import engine_of, service
from bench.client import RATE, connect, speak
from bench.first_packet import MODES
from bench.soak_plan import Kind, Plan
from oscine_engine.events import Mode
from oscine_engine.runtime.device_loop import REST_S
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub

CROWD = 5
"""Calls of one client process that vanishes."""
STAY_S = (1.0, 5.0)
"""For how long such a client speaks before it is gone."""
LOST = "Internal error from Core"
"""What grpc's client makes of a call that was ended while it wrote."""
MISSED_S = 90.0
"""A frozen client must be missed by then, and all it held be given back."""


@dataclass(slots=True)
class Tally:
    """What happened to the calls of clients that stay."""

    ended: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    status_lost: int = 0
    audio_s: float = 0.0
    unexpected: list[str] = field(default_factory=list)


def config_of(plan: Plan) -> pb.SynthesizeConfig:
    return pb.SynthesizeConfig(mode=MODES[plan.mode], seed=plan.seed)


async def admitted_call(stub: SpeechServiceAsyncStub, plan: Plan, tally: Tally) -> float:
    """One call, however often it is refused; seconds of audio. Raises grpc.aio.AioRpcError."""
    while True:
        try:
            call = await speak(stub, config_of(plan), plan.parts, plan.pause_s)
        except grpc.aio.AioRpcError as error:
            hint = dict(error.trailing_metadata() or ()).get("retry-after-ms")
            if error.code() is grpc.StatusCode.INTERNAL and error.details() == LOST:
                tally.status_lost += 1
                continue
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or hint is None:
                raise
            tally.refused += 1
            await asyncio.sleep(int(hint) / 1000)
        else:
            return sum(packet.samples.size for packet in call.packets) / RATE


async def attend(stub: SpeechServiceAsyncStub, plan: Plan, tally: Tally) -> None:
    """One client that stays: it hears its call to the end, or cancels it at its moment."""
    call = asyncio.create_task(admitted_call(stub, plan, tally))
    if plan.kind is Kind.CANCELS:
        await asyncio.wait([call], timeout=plan.after_s)
        call.cancel()
    await asyncio.wait([call])
    if call.cancelled():
        tally.ended["cancelled"] += 1
    elif (error := call.exception()) is not None:
        tally.ended[error.code().name if isinstance(error, grpc.aio.AioRpcError) else type(error).__name__] += 1
        tally.unexpected.append(f"{plan.kind} {plan.seed}: {error}")
    else:
        tally.ended["done"] += 1
        tally.audio_s += call.result()
        if not call.result():
            tally.unexpected.append(f"{plan.kind} {plan.seed}: no audio")


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds. memory: resident, in bytes."""

    file_descriptors: int
    threads: int
    memory: int

    @classmethod
    def by(cls, pid: int) -> Held:
        process = Path(f"/proc/{pid}")
        resident = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return cls(len(os.listdir(process / "fd")), len(os.listdir(process / "task")), resident)

    def beyond(self, before: Held) -> dict[str, int]:
        return {name: getattr(self, name) - getattr(before, name) for name in ("file_descriptors", "threads")}


async def places(address: str, most: int) -> int:
    """How many calls, of `most` at once that send nothing, are let in."""
    async with connect(address) as channel:
        stub = SpeechServiceStub(channel)
        leave = asyncio.Event()

        async def waiting() -> AsyncIterator[pb.SynthesizeRequest]:
            yield pb.SynthesizeRequest(config=pb.SynthesizeConfig())
            await leave.wait()

        let_in = 0
        calls = []
        for _ in range(most):
            call = stub.Synthesize(waiting())
            calls.append(call)
            try:
                let_in += (await call.read()) is not grpc.aio.EOF
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
        for call in calls:
            call.cancel()
        return let_in


async def vanishing(
    address: str, group: Sequence[Plan], at_once: bool, draw: random.Random
) -> asyncio.subprocess.Process:
    """A client process with calls, killed or frozen in the middle of them."""
    lines = [json.dumps([plan.parts, plan.pause_s, plan.mode, plan.seed]) for plan in group]
    crowd = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.soak_wire",
        address,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert crowd.stdin is not None and crowd.stdout is not None
    crowd.stdin.write("\n".join(lines).encode() + b"\n")
    crowd.stdin.write_eof()
    await crowd.stdout.readline()
    await asyncio.sleep(draw.uniform(*STAY_S))
    crowd.send_signal(signal.SIGKILL if at_once else signal.SIGSTOP)
    return crowd


async def soak(
    model: Path | None,
    warm: Sequence[Plan],
    sessions: Sequence[Plan],
    clients: int,
    most: int,
    say: Callable[[str], object],
) -> dict[str, Any]:
    """Everything there is to print, from `sessions` on; `warm` is not counted."""
    gone = [plan for plan in sessions if plan.kind in (Kind.DROPS, Kind.GOES_DEAF)]
    # A voice of the model's own is not poisoned; what a bad one does is tried in process.
    staying = [plan for plan in sessions if plan.kind in (Kind.SPEAKS, Kind.CANCELS)]
    crowds = [gone[at : at + CROWD] for at in range(0, len(gone), CROWD)]
    draw = random.Random(0)
    tally = Tally()
    with service(model, most) as (pid, address):
        pids = {"service": pid, "engine": engine_of(pid)}

        async def calls(plans: Sequence[Plan], into: Tally) -> None:
            waiting = iter(plans)
            async with connect(address) as channel, asyncio.TaskGroup() as group:
                stub = SpeechServiceStub(channel)

                async def client() -> None:
                    for plan in waiting:
                        await attend(stub, plan, into)

                for _ in range(clients):
                    group.create_task(client())

        async def leave() -> list[asyncio.subprocess.Process]:
            return [await vanishing(address, group, place % 2 == 0, draw) for place, group in enumerate(crowds)]

        say(f"{clients} clients warm up")
        await calls(warm, Tally())
        before_places = await places(address, most)
        await asyncio.sleep(2 * REST_S)
        before = {name: Held.by(each) for name, each in pids.items()}
        say(f"{len(staying)} calls, and {len(gone)} of clients that vanish")
        began = time.monotonic()
        _, vanished = await asyncio.gather(calls(staying, tally), leave())
        wall_s = time.monotonic() - began
        say("frozen clients are to be missed")
        until = time.monotonic() + MISSED_S
        while time.monotonic() < until:
            after = {name: Held.by(each) for name, each in pids.items()}
            left = {name: after[name].beyond(before[name]) for name in pids}
            if not any(count > 0 for each in left.values() for count in each.values()):
                break
            await asyncio.sleep(0.5)
        missed_s = time.monotonic() - began - wall_s
        await asyncio.sleep(2 * REST_S)
        after = {name: Held.by(each) for name, each in pids.items()}
        after_places = await places(address, most)
        for crowd in vanished:
            if crowd.returncode is None:
                crowd.kill()
            await crowd.wait()
    return {
        "sessions": len(staying) + len(gone),
        "clients": clients,
        "max_streams": most,
        "wall_s": round(wall_s, 1),
        "ended": dict(sorted(tally.ended.items())),
        "vanished": {"killed": sum(map(len, crowds[::2])), "frozen": sum(map(len, crowds[1::2]))},
        "missed_s": round(missed_s, 1),
        "audio_s": round(tally.audio_s, 1),
        "refused": tally.refused,
        "status_lost": tally.status_lost,
        "unexpected": tally.unexpected,
        "leftovers": {**left, "places": max(0, before_places - after_places)},
        "memory_growth": {name: round(after[name].memory / before[name].memory - 1, 4) for name in pids},
        "memory_mib": {
            name: {"before": round(before[name].memory / 2**20, 1), "after": round(after[name].memory / 2**20, 1)}
            for name in pids
        },
    }


def passed(result: dict[str, Any], most_growth: float) -> bool:
    """Whether everything is as it must be."""
    left = result["leftovers"]
    return (
        not result["unexpected"]
        and not left["places"]
        and not any(count > 0 for name in ("service", "engine") for count in left[name].values())
        and max(result["memory_growth"].values()) <= most_growth
    )


async def crowd(address: str, lines: Sequence[str]) -> None:
    """Make all calls at once and stay."""
    plans = [
        Plan(Kind.GOES_DEAF, tuple(parts), pause_s, Mode(mode), seed, 0.0)
        for parts, pause_s, mode, seed in map(json.loads, lines)
    ]
    async with connect(address) as channel:
        stub = SpeechServiceStub(channel)
        print("begun", flush=True)
        await asyncio.gather(*(admitted_call(stub, plan, Tally()) for plan in plans), return_exceptions=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(crowd(sys.argv[1], [text for text in sys.stdin if text.strip()]))
