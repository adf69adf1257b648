"""Two units behind a balancer: one drained, one killed, both replaced one after the other, under calls all the time."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import grpc

from bench.figures import ranks
from bench.fleet.balancers import BALANCERS, HOST, Balancer, Place, free_port
from bench.fleet.hearing import TEXT, Call, Doors
from bench.fleet.unit import RECORDING, SECONDS
from bench.served import Served, served
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

if TYPE_CHECKING:
    from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceAsyncStub

CHANNELS = 4
"""Connections that all calls over gRPC share: calls are to be balanced, not connections."""
DOORS = ("grpc",) * 14 + ("websocket",) * 4 + ("http",) * 2
"""Of twenty clients."""
GRACE_S = 60
ALONE = 100
"""Calls one after the other that tell what a balancer adds."""
PATIENCE_S = 60.0


@dataclass(slots=True)
class Unit:
    """A place, and what runs there. recording: what it speaks, another one with every start."""

    place: Place
    recording: int = 0
    running: Served | None = None
    left: ExitStack = field(default_factory=ExitStack)

    async def start(self, doors: Doors, numbers: Iterator[int]) -> None:
        """Until it takes calls. Raises ServerFailed."""
        self.recording = next(numbers)
        doors.units.add(self.recording)
        environment = {RECORDING: str(self.recording), SECONDS: str(doors.seconds)}
        flags = ("--port", str(self.place.grpc), "--http-port", str(self.place.http), "--grace", str(GRACE_S))
        starting = served(*flags, module="bench.fleet.unit", http=True, environment=environment)
        self.running = await asyncio.to_thread(self.left.enter_context, starting)

    def signal(self, which: signal.Signals) -> float:
        """When it was sent."""
        assert self.running is not None
        self.running.process.send_signal(which)
        return time.monotonic()

    async def ended(self) -> int:
        """Its exit status."""
        assert self.running is not None
        status = await asyncio.to_thread(self.running.process.wait, GRACE_S + PATIENCE_S)
        await asyncio.to_thread(self.left.close)
        return status


@dataclass(slots=True)
class Crowd:
    """Clients that call again as soon as a call has ended, or as late as they are told."""

    doors: Doors
    seeds: Iterator[int]
    leaving: bool = False
    clients: list[asyncio.Task[None]] = field(default_factory=list)

    def join(self, clients: int) -> None:
        spread = self.doors.seconds / clients
        for number in range(clients):
            self.clients.append(asyncio.create_task(self._stay(DOORS[number % len(DOORS)], number * spread)))

    async def leave(self) -> None:
        """Once all that run have been heard to their ends. Raises what a client did."""
        self.leaving = True
        await asyncio.gather(*self.clients)

    async def _stay(self, door: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        wished: float | None = None
        while not self.leaving:
            call = await self.doors.call(door, next(self.seeds), wished)
            # Who was cut off wants the rest at once; who was refused still waits.
            wished = None if not call.told else call.wished if call.refused else call.ended
            if call.told:
                await asyncio.sleep(call.again or 0.0)


@asynccontextmanager
async def stubs(address: str, channels: int) -> AsyncIterator[list[SpeechServiceAsyncStub]]:
    # Pools of their own, or all channels would share a connection.
    options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
    async with AsyncExitStack() as stack:
        opened = [grpc.aio.insecure_channel(address, options) for _ in range(channels)]
        yield [SpeechServiceStub(await stack.enter_async_context(channel)) for channel in opened]


async def first_packet(stub: SpeechServiceAsyncStub, seed: int) -> float:
    """Seconds from a call's beginning until its first sound, which is then there at once."""

    async def requests() -> AsyncIterator[pb.SynthesizeRequest]:
        yield pb.SynthesizeRequest(config=pb.SynthesizeConfig(seed=seed, mode=pb.MODE_SENTENCE))
        yield pb.SynthesizeRequest(text="".join(TEXT))

    began = time.monotonic()
    call = stub.Synthesize(requests())
    async for response in call:
        if response.HasField("audio"):
            break
    took = time.monotonic() - began
    call.cancel()
    return took


async def added(balancer: Balancer, place: Place) -> dict[str, Any]:
    """What a first packet takes straight from a unit, and through the balancer, one call at a time."""
    async with stubs(f"{HOST}:{place.grpc}", 1) as (straight,), stubs(balancer.grpc, 1) as (through,):
        taken: dict[str, list[float]] = {"straight": [], "through": []}
        for seed in range(ALONE + 1):
            for name, stub in (("straight", straight), ("through", through)):
                took = await first_packet(stub, seed)
                if seed:  # the first call opens a connection
                    taken[name].append(took)
    return {name: ranks(values, 50, 99, scale=1000, digits=2) for name, values in taken.items()}


def outcomes(calls: Sequence[Call]) -> dict[str, int]:
    return dict(Counter(f"{call.door}: {call.told or 'ok'}" for call in calls))


def of_a_kill(speaking: Sequence[Call], at: float) -> dict[str, Any]:
    """What became of calls that spoke at a unit which was killed at `at`."""
    lost = [call for call in speaking if call.told]
    return {
        "speaking": len(speaking),
        "lost": len(lost),
        "told": outcomes(lost),
        "again": sum(call.again is not None for call in lost),
        "missed_s": ranks([call.ended - at for call in lost if call.ended], 50, 100, digits=3),
    }


def landing(calls: Sequence[Call]) -> dict[str, float | None]:
    """Seconds from a client's wish to speak until a unit had taken its call, refusals on the way included."""
    waits = [call.started - call.wished for call in calls if call.started is not None]
    return ranks(waits, 50, 99, 100, digits=3)


@dataclass(slots=True)
class Fleet:
    """The units, the balancer, and all that call."""

    units: tuple[Unit, Unit]
    balancer: Balancer
    doors: Doors
    numbers: Iterator[int]

    def speaking(self, unit: Unit) -> list[Call]:
        return [call for call in self.doors.running if call.unit == unit.recording]

    def since(self, moment: float) -> list[Call]:
        return [call for call in self.doors.calls if call.asked >= moment]

    async def until_balanced(self) -> float:
        """Seconds until each unit has two fifths of all calls at least. Raises TimeoutError."""
        began = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            while min(len(self.speaking(unit)) for unit in self.units) < 0.4 * len(self.doors.running):
                await asyncio.sleep(0.05)
        return time.monotonic() - began

    async def back(self, unit: Unit) -> dict[str, Any]:
        """Start it again where it was."""
        await unit.start(self.doors, self.numbers)
        ready = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            while not self.speaking(unit):
                await asyncio.sleep(0.01)
        first = time.monotonic() - ready
        return {"first_call_s": round(first, 2), "balanced_s": round(first + await self.until_balanced(), 1)}

    async def heard(self, calls: Sequence[Call]) -> None:
        """Until they have ended. Raises TimeoutError."""
        async with asyncio.timeout(self.doors.seconds + PATIENCE_S):
            while any(call.ended is None for call in calls):
                await asyncio.sleep(0.02)

    async def drained(self, unit: Unit) -> dict[str, Any]:
        """One unit is told to stop."""
        speaking, waiting = self.speaking(unit), [call for call in self.doors.running if call.unit is None]
        told = unit.signal(signal.SIGTERM)
        status = await unit.ended()
        took = time.monotonic() - told
        await self.heard([*speaking, *waiting])
        new = self.since(told)
        last = max((call.asked - told for call in new if call.unit == unit.recording), default=0.0)
        return {
            "speaking": len(speaking),
            "lost": sum(bool(call.told) for call in speaking),
            "waiting": len(waiting),
            "waiting_lost": outcomes([call for call in waiting if call.told]),
            "took_s": round(took, 1),
            "status": status,
            "new": len(new),
            "new_told": outcomes([call for call in new if call.told]),
            "refused": sum(call.refused for call in new),
            "last_new_s": round(last, 3),
            "landing_s": landing(new),
        }

    async def killed(self, unit: Unit) -> dict[str, Any]:
        """One unit is gone from one moment to the next."""
        speaking, others = self.speaking(unit), [other for other in self.units if other is not unit]
        untouched = [call for other in others for call in self.speaking(other)]
        told = unit.signal(signal.SIGKILL)
        await unit.ended()
        await self.heard([*speaking, *untouched])
        # The same clients, and all others that came meanwhile.
        new = self.since(told)
        return {
            **of_a_kill(speaking, told),
            "untouched": {"speaking": len(untouched), "lost": sum(bool(call.told) for call in untouched)},
            "new": len(new),
            "new_told": outcomes([call for call in new if call.told]),
            "refused": sum(call.refused for call in new),
            "landing_s": landing(new),
        }

    async def upgraded(self) -> dict[str, Any]:
        """Both, one after the other, as docs/operations.md has it: drain, stop, start, let in."""
        began = time.monotonic()
        running = list(self.doors.running)
        statuses = []
        for unit in self.units:
            self.balancer.drain([unit.place.name])
            async with asyncio.timeout(self.doors.seconds + PATIENCE_S):
                while self.speaking(unit):
                    await asyncio.sleep(0.05)
            unit.signal(signal.SIGTERM)
            statuses.append(await unit.ended())
            await unit.start(self.doors, self.numbers)
            self.balancer.drain([])
            await self.until_balanced()
        took = time.monotonic() - began
        calls = [*running, *self.since(began)]
        await self.heard(calls)
        return {
            "took_s": round(took, 1),
            "statuses": statuses,
            "calls": len(calls),
            "failed": outcomes([call for call in calls if call.told]),
            "landing_s": landing(self.since(began)),
        }


async def fleet(balancer: str, clients: int, seconds: float) -> dict[str, Any]:
    """Everything there is to print, from `added_ms` on. Raises NoBalancer, and ServerFailed."""
    places = [Place(f"unit-{number}", free_port(), free_port()) for number in (1, 2)]
    units, numbers = (Unit(places[0]), Unit(places[1])), count(1)
    with ExitStack() as running, BALANCERS[balancer](places) as stands:
        for unit in units:
            running.push(unit.left)
        async with stubs(stands.grpc, CHANNELS) as opened:
            doors = Doors(opened, stands.http, seconds)
            for unit in units:
                await unit.start(doors, numbers)
            both = Fleet(units, stands, doors, numbers)
            found: dict[str, Any] = {"added_ms": await added(stands, places[0])}
            crowd = Crowd(doors, count(1))
            crowd.join(clients)
            await asyncio.sleep(seconds)
            await both.until_balanced()
            found["shares"] = [len(both.speaking(unit)) for unit in units]
            found["drained"] = await both.drained(units[0])
            found["drained_back"] = await both.back(units[0])
            await asyncio.sleep(seconds / 2)
            found["killed"] = await both.killed(units[1])
            found["killed_back"] = await both.back(units[1])
            await asyncio.sleep(seconds / 2)
            found["upgraded"] = await both.upgraded()
            await crowd.leave()
            found["calls"] = len(doors.calls)
            found["split"] = sum(call.wrong for call in doors.calls)
            found["outcomes"] = outcomes(doors.calls)
            found["unexplained"] = outcomes([call for call in doors.calls if call.told and call.again is None])
        for unit in units:
            unit.signal(signal.SIGTERM)
            await unit.ended()
    return found
