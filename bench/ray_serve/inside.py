"""What runs in Ray's environment: python -m bench.ray_serve.inside TO, a plan as JSON on standard input."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from bench.fleet.unit import RECORDING, SECONDS
from bench.ray_serve import scenes
from bench.ray_serve.cluster import cluster
from bench.ray_serve.spoken import spoken
from bench.served import served


async def all_of(parts: list[str], clients: int, seconds: float, calls: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "alone" in parts:
        environment = {RECORDING: "1", SECONDS: str(scenes.SHORT_S)}
        with served(module="bench.fleet.unit", http=True, environment=environment) as unit:
            found["straight_ms"] = await scenes.straight(unit, 1, calls)
    with cluster():
        if "alone" in parts:
            found["through_ms"] = await scenes.through(calls)
        if "crowded" in parts:
            found |= await scenes.crowded(clients, seconds)
        if "scaled" in parts:
            found["scaled"] = await scenes.scaled(seconds)
        if "spoken" in parts:
            found["spoken"] = await spoken()
    return found


if __name__ == "__main__":
    result = asyncio.run(all_of(**json.load(sys.stdin)))
    Path(sys.argv[1]).write_text(json.dumps(result))
