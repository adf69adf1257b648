"""What the socket between service and engine costs: first audio with and without it. No gRPC outside, no encoding.

    python -m bench.hop [--model DIR] [--calls N] [--json]

Loads one engine into this process and starts another in a process of its own; the same sessions go to both in turn, one
at a time, the first pair to the one, the next to the other first. Keys of the printed object:

* `benchmark`, `model` ("embedded" or the directory's name), `host` (as in first_packet), `calls` to each;
* `near`, `far`, for the engine in this process and in its own: `open_ms` and `first_ms`, each `p50` and `p95`: until
  the session was open, and until its first audio was there, both from before it was asked for;
* `ratio`: the median over pairs of far over near first audio; `added_ms`: the median of their difference.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import host, ranks
from oscine_engine.engine import Engine
from oscine_engine.events import Audio, Mode, SessionRequest
from oscine_engine.front import Front
from oscine_engine.settings import EngineSettings
from oscine_service.event_loop import new_event_loop
from oscine_service.unit.front import unit

TEXT = "Good morning."
WARM_UPS = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds."""

    opened: float
    first: float


async def sample(front: Front, seed: int) -> Sample:
    began = time.perf_counter()
    async with await front.open(SessionRequest(mode=Mode.SENTENCE, seed=seed)) as session:
        opened = first = time.perf_counter() - began
        await session.append(TEXT)
        await session.finish()
        sounded = False
        async for event in session:
            if isinstance(event, Audio) and not sounded:
                sounded, first = True, time.perf_counter() - began
    return Sample(opened, first)


async def measure(model: Path | None, calls: int) -> dict[str, Any]:
    settings = EngineSettings(model=model, utilisation=math.inf)
    near: list[Sample] = []
    far: list[Sample] = []
    async with Engine.load(settings) as engine, unit(settings) as apart:
        for seed in range(-WARM_UPS, calls):
            turn: list[tuple[Front, list[Sample]]] = [(engine, near), (apart.front, far)]
            for front, samples in turn if seed % 2 else reversed(turn):
                heard = await sample(front, abs(seed))
                if seed >= 0:
                    samples.append(heard)
    return {
        "calls": calls,
        "near": _times(near),
        "far": _times(far),
        "ratio": round(statistics.median(b.first / a.first for a, b in zip(near, far, strict=True)), 3),
        "added_ms": round(1000 * statistics.median(b.first - a.first for a, b in zip(near, far, strict=True)), 2),
    }


def _times(samples: list[Sample]) -> dict[str, Any]:
    return {
        "open_ms": ranks([each.opened for each in samples], 50, 95, scale=1000, digits=2),
        "first_ms": ranks([each.first for each in samples], 50, 95, scale=1000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.hop", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, metavar="DIR", help="model directory (default: the embedded voice)")
    parser.add_argument("--calls", type=int, default=60, help="sessions to each engine (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    about = {"benchmark": "hop", "model": options.model.name if options.model else "embedded", "host": host()}
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        found = runner.run(measure(options.model, options.calls))
    if options.json:
        print(json.dumps(about | found))
        return
    for name, where in (("near", "in this process"), ("far", "in its own")):
        opened, first = found[name]["open_ms"], found[name]["first_ms"]
        print(f"engine {where:15}  open {opened['p50']:.2f} ms  first audio {first['p50']:.1f} ms ({first['p95']:.1f})")
    print(f"its own process adds {found['added_ms']:.2f} ms to the first audio: {found['ratio']:.3f} times as long")


if __name__ == "__main__":
    main()
