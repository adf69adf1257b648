"""Nonsense for every parser: python -m bench.fuzz [--cases 10000] [--door NAME ...] [--seed 0] [--case N] [--json]

Random bytes, valid messages that were damaged, cut short, oversized or sent in the wrong order, files whose heads lie:
10,000 cases for each door. Each must be served or end in an error that says what is wrong.

Doors with sockets are those of a whole service in a process of its own, with keys, a voice store and its process for
recordings, in front of an engine that answers at once: `grpc` (oscine.v1), `riva`, `websocket`, `cartesia`,
`elevenlabs`, `elevenlabs-single`, `deepgram`, `dashscope` (eight cases on a socket), `speech`, `voices` and `tokens`
over HTTP, and `wire`: bytes at the ports that are no HTTP, HTTP/2 or WebSocket. The others are parsers in a process of
their own: `text`, `ssml`, `lexicon`, `recordings`, `settings`, `keys`, `lists` (of `oscine batch`), `voices-files` (of
a store, and spk2info.pt), `unit` (messages between the two processes of a unit), `unit-host` (the same at a real
loop over a model of random weights, a tenth of the cases), `telephony` (offers, RTP and RTCP) and `reward`.

A case is drawn from its number alone: `--door text --case 17` is the same case again.

Keys of the printed object: `benchmark`, `host` (as in first_packet), `cases`, `seed`; of each door under `doors`:

* `ended`: cases by what they ended with: a status, a close code, the class of an error, or `served`;
* `faults`: what must not be, as texts with the number of the case: an error without a type or a reason (INTERNAL,
  UNKNOWN, 500, 1011), a fault in the service's log, a case that did not end, took more than 2 s of CPU time, or ended
  its process;
* `grown`: in the second half of the cases: tasks, calls and streams, none of which may become more; threads (at most 6,
  which come as they are needed), file descriptors (at most 2, likewise), and `bytes` of memory (at most 32 MiB);
* `held_s`: the longest that the service's event loop computed without a pause, or `slowest_s` of a parser, by CPU time.

The exit status is 1 if anything is not as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from bench.asked import Asked, asked
from bench.figures import host, outcome
from bench.fuzz import over_grpc, over_http, over_websocket, over_wire
from bench.fuzz.parsers import PARSERS
from bench.fuzz.verdict import HANGING_S, FaultError

HTTP = (over_http.OPENAI, over_http.VOICES, over_http.TOKENS)
SOCKETS = (over_grpc.OSCINE, over_grpc.RIVA, *over_websocket.DIALECTS, *HTTP, "wire")
DOORS = (*SOCKETS, *PARSERS)
AT_A_TIME = 4
SETTLE_S = 45.0
"""More than a port gives to a connection on which nothing comes."""
MORE = {"bytes": 32 << 20, "descriptors": 2, "threads": 6}
"""That may be held behind the second half of the cases than behind the first; worker threads come as needed."""


class Door(Protocol):
    async def case(self, random: Random) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Service:
    """The service process. process: tells what it holds, and what it logged since it was asked before."""

    process: Asked
    grpc: str
    http: str
    key: str


@contextmanager
def service() -> Iterator[Service]:
    with (
        tempfile.TemporaryDirectory(prefix="oscine-fuzz-") as folder,
        asked("bench.fuzz.service", folder) as process,
    ):
        yield Service(process, **process.read())


@asynccontextmanager
async def opened(name: str, running: Service) -> AsyncIterator[Door]:
    if name in (over_grpc.OSCINE, over_grpc.RIVA):
        async with over_grpc.opened(name, running.grpc, running.key) as door:
            yield door
    elif name in HTTP:
        yield over_http.HttpDoor(name, running.http, running.key)
    elif name == "wire":
        yield over_wire.WireDoor(running.grpc, running.http, running.key)
    else:
        yield over_websocket.WebSocketDoor(name, running.http, running.key)


async def drive(name: str, running: Service, seed: int, numbers: range) -> tuple[Counter[str], list[str]]:
    """The cases of these numbers, some at a time: how they ended, and what was wrong."""
    ended: Counter[str] = Counter()
    faults: list[str] = []
    waiting = iter(numbers)

    async def work(door: Door) -> None:
        for number in waiting:
            if running.process.ended is not None:
                return
            try:
                async with asyncio.timeout(HANGING_S):
                    ended.update(await door.case(Random(f"{name}:{seed}:{number}")))
            except TimeoutError:
                faults.append(f"case {number}: it did not end within {HANGING_S:g} s")
            except FaultError as fault:
                faults.append(f"case {number}: {fault}")
            except Exception as error:
                faults.append(f"case {number}: {type(error).__name__}: {error}")

    async with opened(name, running) as door:
        await asyncio.gather(*(work(door) for _ in range(AT_A_TIME)))
    return ended, faults


def settled(running: Service, base: dict[str, Any] | None) -> tuple[dict[str, Any], list[str], float]:
    """What the service holds once it holds no more than `base`, or will not: with faults and held_s of meanwhile."""
    faults: list[str] = []
    held, until = 0.0, time.monotonic() + SETTLE_S
    while True:
        told = running.process.tell()
        faults += told.pop("faults")
        held = max(held, told.pop("held_s"))
        calm = not told["calls"] and not told["streams"]
        if calm and (
            base is None or all(told[each] <= base[each] + MORE.get(each, 0) for each in ("tasks", "descriptors"))
        ):
            return told, faults, held
        if time.monotonic() > until:
            return told, faults, held
        time.sleep(0.5)


def socket_door(name: str, running: Service, seed: int, numbers: range) -> dict[str, Any]:
    step = over_websocket.CASES if name in over_websocket.DIALECTS else 1
    numbers = range(numbers.start, numbers.stop, step)
    half = numbers.start + (numbers.stop - numbers.start) // 2 // step * step
    _, logged, _ = settled(running, None)
    ended: Counter[str] = Counter()
    faults: list[str] = []
    longest = 0.0
    held: list[dict[str, Any]] = []
    for part in (range(numbers.start, half, step), range(half, numbers.stop, step)):
        more, wrong = asyncio.run(drive(name, running, seed, part))
        ended += more
        faults += wrong
        if running.process.ended is not None:
            return {"ended": dict(ended), "faults": [*faults, f"the service ended with status {running.process.ended}"]}
        now, logged, longest_here = settled(running, held[0] if held else None)
        held.append(now)
        faults += [f"logged: {each}" for each in logged]
        longest = max(longest, longest_here)
    grown = {each: held[1][each] - held[0][each] for each in held[1]}
    return {"ended": dict(ended), "faults": faults, "grown": grown, "held_s": round(longest, 3)}


def parser_door(name: str, seed: int, numbers: range) -> dict[str, Any]:
    """In processes of their own: one that ends is followed by another one, behind the case that it ended with."""
    numbers = range(numbers.start, numbers.start + -(-len(numbers) // PARSERS[name].one_in))
    result: dict[str, Any] = {"ended": Counter(), "faults": [], "grown": {}, "slowest_s": 0.0}
    first = numbers.start
    while first < numbers.stop:
        at, told = _cases(name, seed, first, numbers.stop, result["faults"])
        if told is None:
            first = at + 1
            continue
        result["ended"] += Counter(told["ended"])
        result |= {"grown": told["grown"], "slowest_s": told["slowest_s"], "slowest_case": told["slowest_case"]}
        break
    return result | {"ended": dict(result["ended"])}


def _cases(name: str, seed: int, first: int, last: int, faults: list[str]) -> tuple[int, dict[str, Any] | None]:
    """From `first` on: the last one that began, and what the process told in the end."""
    command = [sys.executable, "-m", "bench.fuzz.child", name, str(seed), str(first), str(last)]
    lines: queue.Queue[str] = queue.Queue()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        stdout = process.stdout

        def read() -> None:
            for line in stdout:
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        at = first - 1
        while True:
            try:
                line = lines.get(timeout=HANGING_S)
            except queue.Empty:
                process.kill()
                faults.append(f"case {at}: it did not end within {HANGING_S:g} s")
                return at, None
            if not line:
                faults.append(f"case {at}: its process ended with status {process.wait()}")
                return at, None
            if line[0].isdigit():
                at = int(line)
                continue
            told: dict[str, Any] = json.loads(line)
            if "case" not in told:
                return at, told
            faults.append(f"case {told['case']}: {told['fault']} input: {told['input']}")


def wrong(told: dict[str, Any]) -> list[str]:
    """What is not as it must be with a door."""
    grown = told.get("grown", {})
    return [*told["faults"], *(f"{n} more {each}" for each, n in grown.items() if n > MORE.get(each, 0))]


def measure(doors: tuple[str, ...], seed: int, numbers: range) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in doors:
        began = time.monotonic()
        if name in PARSERS:
            told = parser_door(name, seed, numbers)
        else:
            # A fresh one each: what a door leaves behind is its own.
            with service() as running:
                told = socket_door(name, running, seed, numbers)
        found[name] = told | {"wall_s": round(time.monotonic() - began, 1)}
        print(f"{name}: {len(wrong(told))} faults, {found[name]['wall_s']} s", file=sys.stderr, flush=True)
    return {"benchmark": "fuzz", "host": host(), "cases": len(numbers), "seed": seed, "doors": found}


def show(result: dict[str, Any]) -> None:
    for name, told in result["doors"].items():
        print(f"{name}: {sum(told['ended'].values())} cases in {told['wall_s']} s")
        for each in ("ended", "grown", "held_s", "slowest_s"):
            if each in told:
                print(f"  {each:10} {told[each]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--door", action="append", choices=DOORS, help="these only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="this one only")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    numbers = range(options.cases) if options.case is None else range(options.case, options.case + 1)
    result = measure(tuple(options.door or DOORS), options.seed, numbers)
    faults = [f"{name}: {each}" for name, told in result["doors"].items() for each in wrong(told)]
    return outcome(result, faults, None if options.json else show)


if __name__ == "__main__":
    sys.exit(main())
