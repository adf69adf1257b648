"""The engine process of a measured service: random weights in memory. Started by `bench.serving.service`.

It notes what its ticks take and what the device holds, and writes both to files twice a second. To `stats` a line of
JSON each time:

* `at`: monotonic clock; `ids`: speech ids of all segments that have sounded; `context_mb`: memory of a second of flow
  context, in millions of bytes;
* `gpu`, on a GPU: bytes `allocated` and `reserved` by this process now, `peak` at any time (allocated), `used` of the
  whole card.

To the file beside it go `records` of every tick and every chunk of mel; a chunk began with its last tick and took as
long as all its ticks.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.serving.plan import Server
from bench.serving.records import CHUNK, ticks_of
from oscine_engine.checkpoint import draft, synthetic
from oscine_engine.checkpoint.load import Checkpoint
from oscine_engine.config import ModelConfig
from oscine_engine.flow.stream import FlowStream
from oscine_engine.flow.streams import FlowStreams
from oscine_engine.lm.drafter import PackedDraft
from oscine_engine.runtime import device as device_module
from oscine_engine.runtime.device import Device, DeviceLimits
from oscine_engine.runtime.graphs import Graphs
from oscine_engine.runtime.pages import PagePool
from oscine_engine.runtime.stages import Stages
from oscine_engine.runtime.trace import Left, Said, Solved, Ticked, Trace
from oscine_engine.scheduler.views import Stage
from oscine_service.unit import child

INTERVAL_S = 0.5
FRAMES_PER_S = 50


class Ticks:
    """An observer that writes down; the records since the last `taken`."""

    def __init__(self) -> None:
        self.ids = 0
        self._records = array("d")
        self._solving: dict[int, float] = {}
        """By stream, what the flow's ticks for its chunk have taken so far."""
        self._places: dict[int, tuple[int, int]] = {}
        """By stream, the segment of its last chunk and the place in it."""
        self._last = 0.0

    def __call__(self, event: Trace) -> None:
        match event:
            case Ticked(stage=stage, seeds=seeds, began=began, wall_s=wall_s, cpu_s=cpu_s):
                self._last = began
                self._records.extend((stage, began, wall_s, len(seeds), cpu_s, 0))
                if stage is Stage.FLOW:
                    for seed in seeds:
                        self._solving[seed] = self._solving.get(seed, 0.0) + wall_s
            case Solved(seed=seed, segment=segment, mel=mel):
                before, place = self._places.get(seed, (segment, -1))
                place = place + 1 if before == segment else 0
                self._places[seed] = segment, place
                self._records.extend((CHUNK, self._last, self._solving.pop(seed, 0.0), segment, place, len(mel)))
            case Said():
                self.ids += len(event.ids)
            case Left(seed=seed):
                self._solving.pop(seed, None)
                self._places.pop(seed, None)

    def taken(self) -> array[float]:
        records, self._records = self._records, array("d")
        return records


def report(ticks: Ticks, device: Device, kind: str, stats: Path) -> None:
    """Write the files for as long as this process lives."""
    pool = device.flow.pool
    page_s = device.flow.config.dit.static_chunk_size / FRAMES_PER_S
    context = pool.data.numel() * pool.data.element_size() / pool.num_pages / page_s
    with stats.open("a") as lines, ticks_of(stats).open("ab") as records:
        while True:
            state: dict[str, Any] = {"at": time.monotonic(), "ids": ticks.ids, "context_mb": round(context / 1e6, 2)}
            if kind.startswith("cuda"):
                free, whole = torch.cuda.mem_get_info()
                state["gpu"] = {
                    "allocated": torch.cuda.memory_allocated(),
                    "reserved": torch.cuda.memory_reserved(),
                    "peak": torch.cuda.max_memory_allocated(),
                    "used": whole - free,
                }
            ticks.taken().tofile(records)
            records.flush()
            print(json.dumps(state), file=lines, flush=True)
            time.sleep(INTERVAL_S)


def config_of(server: Server) -> ModelConfig:
    """Sizes and rules of the model that `server` speaks with."""
    return synthetic.FULL if server.model == "full" else synthetic.SMALL


class PatientStages(Stages):
    """Waits for some ids more than a chunk needs."""

    extra_ids = 0

    def __init__(self, *runners: Any) -> None:
        super().__init__(*runners)
        self._wanted += self.extra_ids


def load(server: Server, stats: Path) -> Device:
    server = replace(server, device=child.pinned(server.device))
    began = time.monotonic()
    torch.set_num_threads(1)
    checkpoint = synthetic.checkpoint(
        config_of(server), device=server.device, voices=server.voice_names, prompt_tokens=server.prompt_tokens
    )
    print(f"drew the weights in {time.monotonic() - began:.1f} s", file=sys.stderr)
    speculation: dict[str, Any] = {}
    if server.tokens is not None:
        # Only steps of fixed shape guess, so a CPU has to take them, too.
        drafter = drafter_of(checkpoint, server)
        speculation = {"drafter": drafter, "forced_acceptance": server.tokens, "graphed": True}
    PatientStages.extra_ids = server.extra_ids
    device_module.Stages = PatientStages  # type: ignore[misc]
    if "graphs" in server.without:
        # The same steps, launched one kernel at a time.
        Graphs.capture = lambda graphs, step: step  # type: ignore[method-assign]
    ticks = Ticks()
    device = Device(
        checkpoint,
        DeviceLimits(
            server.max_streams,
            utilisation=math.inf,
            voice_bytes=server.voice_bytes,
            side_by_side=server.side_by_side,
        ),
        server.device,
        precision=server.precision,
        head_start=server.head_start,
        observe=ticks,
        **speculation,
    )
    if "packing" in server.without:
        for runner in (device.lm, device.flow, device.vocoder):
            runner.step = one_by_one(runner.step)  # type: ignore[method-assign]
    if "overlap" in server.without and server.device != "cpu":
        device.flow.step = waited_for(device.flow.step)  # type: ignore[method-assign]
    if "incremental" in server.without:
        device.flow.step = recomputing(device.flow, server.max_streams)  # type: ignore[method-assign]
    threading.Thread(target=report, args=(ticks, device, server.device, stats), daemon=True).start()
    return device


def drafter_of(checkpoint: Checkpoint, server: Server) -> Callable[[PagePool], PackedDraft]:
    """A draft of random weights in the published shape, over the pages of the language model."""

    def drafter(pool: PagePool) -> PackedDraft:
        network = draft.random(checkpoint.config.lm, seed=0, device=pool.data.device, dtype=pool.data.dtype)
        most = 1 << (server.max_streams - 1).bit_length()
        return PackedDraft(network, checkpoint.lm, pool, checkpoint.config.sampling, max_streams=most)

    return drafter


def one_by_one(step: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """The same work, a stream at a time."""

    def steps(members: Sequence[Any]) -> list[Any]:
        return [outcome for member in members for outcome in step([member]) or [None]]

    return steps


def waited_for(step: Callable[[Sequence[Any]], None]) -> Callable[[Sequence[Any]], None]:
    """The same work, and nothing meanwhile."""

    def steps(members: Sequence[Any]) -> None:
        step(members)
        torch.cuda.synchronize()

    return steps


GHOST_PAGES = 3
"""Context of a chunk that is solved again, about half of what a sentence and its voice have in the end."""


def recomputing(flow: FlowStreams, most: int) -> Callable[[Sequence[FlowStream]], None]:
    """The work of a flow that keeps nothing: with each step also one of every chunk before, `most` of them in all.

    Those are of streams that nobody hears; what the others come to stays as it is.
    """
    step, ghosts = flow.step, list[FlowStream]()

    def steps(streams: Sequence[FlowStream]) -> None:
        if not ghosts:
            ghosts.extend(_ghost(flow) for _ in range(most))
        again = ghosts[: sum(len(stream.pages) - 1 for stream in streams)]
        for ghost in again:
            assert ghost.chunk is not None
            ghost.chunk.step = 0
        step([*streams, *again])

    return steps


def _ghost(flow: FlowStreams) -> FlowStream:
    config = flow.config
    tokens = config.dit.static_chunk_size // config.token_mel_ratio + config.pre_lookahead_len
    mel = torch.zeros(config.token_mel_ratio * tokens, config.output_size)
    stream = flow.prompt(torch.zeros(tokens, dtype=torch.int32), mel, torch.zeros(config.spk_embed_dim))
    stream.pages += flow.pool.alloc(GHOST_PAGES - 1)
    stream.frames = (GHOST_PAGES - 1) * config.dit.static_chunk_size
    flow.begin(stream)
    return stream


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.serving.engine")
    child.add_arguments(parser)
    parser.add_argument("--server", type=Server.read, required=True)
    parser.add_argument("--stats", type=Path, required=True)
    options = parser.parse_args()
    return child.run(options, lambda: load(options.server, options.stats))


if __name__ == "__main__":
    sys.exit(main())
