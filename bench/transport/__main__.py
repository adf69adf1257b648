"""What the doors cost: python -m bench.transport [--streams 120] [--seconds 30] [--door grpc|websocket] [--json]

The whole service process, with a replay in the place of its engine: a recording of the embedded voice, handed out in
real time in packets as the engine makes them (0.32 s, then 1 s each, 30 ms before the listener would run dry). Every
stream is another stretch of it and is encoded on its own, as Opus. Clients in another process of the same machine hear
`--streams` of it at a time, each over a connection of its own, `--seconds` long; then some one after the other, for
what a door adds to a first packet.

Keys of the printed object:

* `benchmark`, `host` (as in first_packet), `streams`, `seconds`, `encoding_ms`: CPU time to encode a second of speech,
  with nothing else going on;
* of each door, `grpc` and `websocket`: `lateness_ms` `p50` `p99` `max`: of each frame, how long after its turn it came,
  for a player that started when the replay handed out the first packet; 0 for those that were early. `first_ms` `p50`
  `p99` `max`: from the sending of the text until the first audio was there, with all streams running;
  `alone_ms`, the same of one stream at a time, which is what the door adds, for the replay takes no time;
* `frames` that came, `lost`: that should have come as well; `failed`: streams that ended with an error, with `errors`;
  `left_open`: streams the service still held afterwards;
* `cpu_ms`: of the `service` and the `clients`, a second of speech, and of the service's `encoding` and `rest`;
  `cores`: that the service and the clients kept busy.

The exit status is 1 if a frame or a stream was lost, a stream is left open, the lateness's p99 is 20 ms or more, or
`alone_ms` p99 is 3 ms or more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from bench.asked import Asked, asked
from bench.figures import host, outcome, ranks
from bench.transport.clients import SPREAD_S
from bench.transport.replay import RATE

TEXT = (
    "The harbour was quiet when the first boats came in, and the gulls had not yet noticed them. By seven the nets lay "
    "on the stones, and people stood around with their baskets, talking about the wind."
)
DOORS = ("grpc", "websocket")
FRAME = RATE // 50
ALONE = 100
MOST_LATENESS_MS, MOST_ADDED_MS = 20.0, 3.0


def record(path: Path) -> None:
    """Some seconds of the embedded voice, in a process of its own: this one is to be small."""
    code = (
        "import sys, asyncio, numpy\n"
        "from oscine_engine.engine import Engine\n"
        "from oscine_engine.events import Audio\n"
        "async def speak():\n"
        "    async with Engine.load() as engine, await engine.open() as session:\n"
        "        await session.append(sys.argv[2])\n"
        "        await session.finish()\n"
        "        return numpy.concatenate([each.samples async for each in session if isinstance(each, Audio)])\n"
        "numpy.save(sys.argv[1], asyncio.run(speak()))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path), TEXT], check=True)


def service(samples: Path, seconds: float) -> AbstractContextManager[Asked]:
    return asked("bench.transport.service", str(samples), str(seconds))


def hear(door: str, addresses: dict[str, str], streams: int, spread_s: float) -> dict[str, Any]:
    plan = {
        "door": door,
        "address": addresses["http" if door == "websocket" else door],
        "streams": streams,
        "spread_s": spread_s,
        "first_seed": 1,
    }
    with tempfile.NamedTemporaryFile("r") as told:
        command = [sys.executable, "-m", "bench.transport.clients", told.name]
        subprocess.run(command, input=json.dumps(plan), text=True, check=True)
        found: dict[str, Any] = json.load(told)
    return found


def lateness(messages: list[list[float]], begun: float) -> Iterator[float]:
    """Seconds, of each frame. begun: when its player started."""
    for arrived, start, samples, frames in messages:
        for number in range(int(frames)):
            due = begun + (start + min(number * FRAME, samples)) / RATE
            yield max(0.0, arrived - due)


def door_figures(door: str, samples: Path, streams: int, seconds: float) -> dict[str, Any]:
    with service(samples, seconds) as running:
        addresses = running.read()
        before = running.tell()
        heard = hear(door, addresses, streams, SPREAD_S)
        after = running.tell()
    begun = {int(seed): moment for seed, moment in after["begun"].items()}
    good = [each for each in heard["heard"] if each["ended"] is None]
    late = [value for each in good for value in lateness(each["messages"], begun[each["seed"]])]
    first = [each["messages"][0][0] - each["sent"] for each in good]
    frames = [sum(int(message[3]) for message in each["messages"]) for each in heard["heard"]]
    # Of each stream: the encoder's own delay makes one or two frames more than the speech has, which make up for none
    # that another stream has lost.
    lost = sum(max(0, round(seconds * 50) - count) for count in frames)
    spoken = sum(int(message[2]) for each in heard["heard"] for message in each["messages"]) / RATE
    cpu = {"service": after["cpu_s"] - before["cpu_s"], "clients": heard["cpu_s"]}
    each_ms = {name: round(1000 * used / spoken, 2) for name, used in cpu.items()} if spoken else {}
    wall = seconds + SPREAD_S
    encoding = after["encoding_ms"]
    return {
        "lateness_ms": ranks(late, 50, 99, 100, scale=1000),
        "first_ms": ranks(first, 50, 99, 100, scale=1000),
        "frames": sum(frames),
        "lost": lost,
        "failed": len(heard["heard"]) - len(good),
        "errors": sorted({each["ended"] for each in heard["heard"] if each["ended"] is not None})[:3],
        "left_open": after["open"],
        "cpu_ms": {**each_ms, "encoding": round(encoding, 2), "rest": round(each_ms.get("service", 0.0) - encoding, 2)},
        "cores": {name: round(used / wall, 2) for name, used in cpu.items()},
        "encoding_ms": encoding,
    }


def alone(door: str, samples: Path) -> dict[str, float | None]:
    """One stream at a time: half a second each, so that they do not meet."""
    with service(samples, 0.3) as running:
        addresses = running.read()
        hear(door, addresses, 10, 5.0)
        heard = hear(door, addresses, ALONE, ALONE * 0.5)["heard"]
    return ranks([each["messages"][0][0] - each["sent"] for each in heard], 50, 99, 100, scale=1000, digits=2)


def measure(doors: tuple[str, ...], streams: int, seconds: float) -> dict[str, Any]:
    result: dict[str, Any] = {"benchmark": "transport", "host": host(), "streams": streams, "seconds": seconds}
    with tempfile.TemporaryDirectory(prefix="oscine-transport-") as folder:
        samples = Path(folder) / "samples.npy"
        record(samples)
        assert np.load(samples, mmap_mode="r").size > RATE
        for door in doors:
            figures = door_figures(door, samples, streams, seconds)
            result["encoding_ms"] = round(figures.pop("encoding_ms"), 2)
            result[door] = figures | {"alone_ms": alone(door, samples)}
    return result


def faults(result: dict[str, Any]) -> list[str]:
    """What is not as it must be."""
    found = []
    for door in (each for each in DOORS if each in result):
        told = result[door]
        found += [f"{door}: {told[name]} {name}" for name in ("lost", "failed", "left_open") if told[name]]
        late, added = told["lateness_ms"]["p99"], told["alone_ms"]["p99"]
        if late is None or late >= MOST_LATENESS_MS:
            found.append(f"{door}: frames late by {late} ms at p99, {MOST_LATENESS_MS:g} is too much")
        if added is None or added >= MOST_ADDED_MS:
            found.append(f"{door}: {added} ms added to a first packet at p99, {MOST_ADDED_MS:g} is too much")
    return found


def show(result: dict[str, Any]) -> None:
    print(f"{result['streams']} streams of {result['seconds']:g} s, Opus; encoding {result['encoding_ms']} ms a second")
    for door in (each for each in DOORS if each in result):
        print(door)
        for name, value in result[door].items():
            print(f"  {name:12} {value}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=120)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--door", choices=DOORS, help="one only")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    doors = DOORS if options.door is None else (options.door,)
    result = measure(doors, options.streams, options.seconds)
    return outcome(result, faults(result), None if options.json else show)


if __name__ == "__main__":
    sys.exit(main())
