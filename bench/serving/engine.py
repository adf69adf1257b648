"""The engine process of a measured service: random weights in memory. Started by `bench.serving.service`.

It counts what its ticks take and what the device holds, and writes both to a file twice a second, a line of JSON each:

* `at`: monotonic clock; `stages`: for "lm", "flow" and "vocoder" `ticks`, `rows` (streams in them, summed), `wall_s`;
  `ids`: speech ids of all segments that have sounded;
* `gpu`, on a GPU: bytes `allocated` and `reserved` by this process now, `peak` at any time (allocated), `used` of the
  whole card.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.serving.plan import Server
from oscine_service.unit import child

if TYPE_CHECKING:
    from oscine_engine.config import ModelConfig
    from oscine_engine.runtime.device import Device
    from oscine_engine.runtime.trace import Trace

INTERVAL_S = 0.5


class Ticks:
    """An observer that adds up."""

    def __init__(self) -> None:
        self.ticks, self.rows, self.wall_s = [0, 0, 0], [0, 0, 0], [0.0, 0.0, 0.0]
        self.ids = 0

    def __call__(self, event: Trace) -> None:
        from oscine_engine.runtime.trace import Said, Ticked

        match event:
            case Ticked():
                self.ticks[event.stage] += 1
                self.rows[event.stage] += len(event.seeds)
                self.wall_s[event.stage] += event.wall_s
            case Said():
                self.ids += len(event.ids)

    def state(self) -> dict[str, Any]:
        from oscine_engine.scheduler.views import Stage

        stages = {
            stage.name.lower(): {"ticks": self.ticks[stage], "rows": self.rows[stage], "wall_s": self.wall_s[stage]}
            for stage in Stage
        }
        return {"at": time.monotonic(), "stages": stages, "ids": self.ids}


def report(ticks: Ticks, device: str, path: Path) -> None:
    """Write the file for as long as this process lives."""
    import torch

    with path.open("a") as file:
        while True:
            state = ticks.state()
            if device.startswith("cuda"):
                free, whole = torch.cuda.mem_get_info()
                state["gpu"] = {
                    "allocated": torch.cuda.memory_allocated(),
                    "reserved": torch.cuda.memory_reserved(),
                    "peak": torch.cuda.max_memory_allocated(),
                    "used": whole - free,
                }
            print(json.dumps(state), file=file, flush=True)
            time.sleep(INTERVAL_S)


def config_of(server: Server) -> ModelConfig:
    """Sizes and rules of the model that `server` speaks with."""
    from oscine_engine.checkpoint import synthetic

    config = synthetic.FULL if server.model == "full" else synthetic.SMALL
    return dataclasses.replace(config, flow=dataclasses.replace(config.flow, pre_lookahead_len=server.look_ahead))


def load(server: Server, stats: Path) -> Device:
    import torch

    from oscine_engine.checkpoint import synthetic
    from oscine_engine.runtime.device import HEAD_START, Device, DeviceLimits

    began = time.monotonic()
    torch.set_num_threads(1)
    checkpoint = synthetic.checkpoint(
        config_of(server), device=server.device, voices=server.voice_names, prompt_tokens=server.prompt_tokens
    )
    print(f"drew the weights in {time.monotonic() - began:.1f} s", file=sys.stderr)
    ticks = Ticks()
    extras: dict[str, Any] = {}
    if server.head_start != HEAD_START:
        extras["head_start"] = server.head_start
    if server.precision != "float32":
        extras["precision"] = server.precision
    limits = DeviceLimits(server.max_streams, utilisation=math.inf, voice_bytes=server.voice_bytes)
    device = Device(checkpoint, limits, server.device, observe=ticks, **extras)
    if "packing" in server.without:
        for runner in (device.lm, device.flow, device.vocoder):
            runner.step = one_by_one(runner.step)  # type: ignore[method-assign]
    threading.Thread(target=report, args=(ticks, server.device, stats), daemon=True).start()
    return device


def one_by_one(step: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """The same work, a stream at a time."""

    def steps(members: Sequence[Any]) -> list[Any]:
        return [outcome for member in members for outcome in step([member]) or [None]]

    return steps


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.serving.engine")
    child.add_arguments(parser)
    parser.add_argument("--server", type=Server.read, required=True)
    parser.add_argument("--stats", type=Path, required=True)
    options = parser.parse_args()
    return child.run(options, lambda: load(options.server, options.stats))


if __name__ == "__main__":
    sys.exit(main())
