"""How evenly calls are sent: python -m bench.rtp [--calls 100] [--seconds 600] [--codec PCMU|PCMA|opus] [--json]

The whole way of a call without an engine: a process with the service's WebSocket and RTP, in which a recording of the
embedded voice is handed out as an engine would (bench.transport), a process with the other side of `--calls` calls,
which sends as much as it hears, and an agent's session over WebSocket that speaks into each. All on one machine, over
its loopback. When a packet left is told by the kernel, as the moment at which it came.

Keys of the printed object:

* `benchmark`, `host` (as in first_packet), `calls`, `seconds`, `codec`;
* `late_ms` `p50` `p99` `max`: of each packet, behind the grid of 20 ms on which the earliest of its call lie;
* `drift_ms`: of a call, by how much the last tenth of its packets is later (or earlier) against its timestamps than the
  first tenth; the largest of all calls;
* `packets` that came; `out_of_sequence`, `off_the_clock`: how many are not numbered, or not timed, as follows from the
  one before; `skipped`: ticks that the clock left out; `latest_ms`: the latest of its ticks;
* `spoken`: packets with speech; `holes`: packets of silence between two of speech, where speech came too late;
* `reports`: sender reports that came; `failed`: sessions that ended with an error;
* `cpu_ms`: of the `service` and the `callers`, a second of one call.

The exit status is 1 if `late_ms` p99 is 5 ms or more, `drift_ms` 1 ms or more, or anything is out of sequence, off the
clock or failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from bench.asked import asked
from bench.figures import host, outcome, ranks
from bench.transport.__main__ import record

CODECS = ("PCMU", "PCMA", "opus")
MOST_LATE_MS, MOST_DRIFT_MS = 5.0, 1.0
SPREAD_S = 1.0
"""Agents begin to speak at even distances over so long."""


async def speak(address: str, name: str, seed: int, after_s: float) -> str | None:
    """Into a call, until all was heard; what it ended with if not well."""
    await asyncio.sleep(after_s)
    async with connect(f"ws://{address}/v1/speech", compression=None, proxy=None) as socket:
        await socket.send(json.dumps({"type": "start", "seed": seed, "mode": "sentence", "sink": name}))
        await socket.send(json.dumps({"type": "text", "text": "Play it."}))
        await socket.send(json.dumps({"type": "end"}))
        async for message in socket:
            told: dict[str, Any] = json.loads(message)
            if told["type"] == "done":
                return None
            if told["type"] == "error":
                return str(told["message"])
    return "the connection was closed"


async def speak_all(address: str, names: list[str]) -> list[str]:
    told = await asyncio.gather(
        *(speak(address, name, n + 1, SPREAD_S * n / len(names)) for n, name in enumerate(names))
    )
    return [each for each in told if each is not None]


def measure(calls: int, seconds: float, codec: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="oscine-rtp-") as folder:
        samples = Path(folder) / "samples.npy"
        record(samples)
        with asked("bench.rtp.service", str(samples), str(seconds)) as service:
            address = service.read()
            with asked("bench.rtp.callers", address, str(calls), codec) as callers:
                names: list[str] = callers.read()
                before = service.tell()
                errors = asyncio.run(speak_all(address, names))
                after = service.tell()
                callers.close()
                found = callers.read()
    each: list[dict[str, Any]] = found["calls"]
    spoken_s = calls * (seconds + SPREAD_S)
    cpu = {"service": after["cpu_s"] - before["cpu_s"], "callers": found["cpu_s"]}
    return {
        "benchmark": "rtp",
        "host": host(),
        "calls": calls,
        "seconds": seconds,
        "codec": codec,
        "late_ms": ranks([late for call in each for late in call["late_ms"]], 50, 99, 100, digits=2),
        "drift_ms": round(max(abs(call["drift_ms"]) for call in each), 3),
        **{
            name: sum(call[name] for call in each)
            for name in ("packets", "out_of_sequence", "off_the_clock", "spoken", "holes", "reports")
        },
        "skipped": after["skipped"],
        "latest_ms": after["latest_ms"],
        "failed": len(errors),
        "errors": sorted(set(errors))[:3],
        "cpu_ms": {name: round(1000 * used / spoken_s, 2) for name, used in cpu.items()},
    }


def faults(result: dict[str, Any]) -> list[str]:
    """What is not as it must be."""
    found = [f"{result[name]} {name}" for name in ("out_of_sequence", "off_the_clock", "failed") if result[name]]
    if result["late_ms"]["p99"] >= MOST_LATE_MS:
        found.append(f"packets late by {result['late_ms']['p99']} ms at p99, {MOST_LATE_MS:g} is too much")
    if result["drift_ms"] >= MOST_DRIFT_MS:
        found.append(f"a drift of {result['drift_ms']} ms, {MOST_DRIFT_MS:g} is too much")
    return found


def show(result: dict[str, Any]) -> None:
    for name, value in result.items():
        print(f"{name:16} {value}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--codec", choices=CODECS, default=CODECS[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.calls, options.seconds, options.codec)
    return outcome(result, faults(result), None if options.json else show)


if __name__ == "__main__":
    sys.exit(main())
