"""Would the language model and the flow get on faster side by side? python -m bench.gpu.overlap [--precision float16]

Random weights of the released sizes. For some numbers of streams in each, the captured step of the language model and
the captured Euler step are replayed: the same number of times one after the other on one CUDA stream, and at the same
time on two, as many of each as take equally long. What is told is the time both take apart over the time they take
together: 1 means that nothing is won, 2 that each costs the other nothing. No host work is part of it.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from bench.gpu.flow import Bench as FlowBench
from bench.gpu.lm import Bench as LMBench
from oscine_engine.checkpoint import synthetic

CASES = ((1, 1), (8, 1), (8, 8), (32, 8), (32, 32), (64, 32))
"""Streams in a step of the language model, and in an Euler step."""
CONTEXT_PAGES = 6
"""Seconds of speech that each stream of the flow looks back on."""
SECONDS = 0.4
"""Of each measurement."""


@contextmanager
def launched() -> Iterator[list[torch.cuda.CUDAGraph]]:
    """Graphs in the order in which they were last replayed; those captured in here only."""
    seen: list[torch.cuda.CUDAGraph] = []
    replay: Callable[[torch.cuda.CUDAGraph], None] = torch.cuda.CUDAGraph.replay

    def noted(graph: torch.cuda.CUDAGraph) -> None:
        seen.append(graph)
        replay(graph)

    torch.cuda.CUDAGraph.replay = noted  # type: ignore[method-assign,assignment]
    try:
        yield seen
    finally:
        torch.cuda.CUDAGraph.replay = replay  # type: ignore[method-assign,assignment]


def lm_step(bench: LMBench, dtype: torch.dtype, streams: int) -> Callable[[], None]:
    with launched() as seen:
        runner = bench.runner(dtype, streams)
        runner.capture()
        speaking = [bench.begun(runner, seed) for seed in range(streams)]
        for _ in range(4):
            runner.step(speaking)
        graph = seen[-1]
    return keeping(graph, runner)


def euler_step(bench: FlowBench, dtype: torch.dtype, streams: int) -> Callable[[], None]:
    with launched() as seen:
        runner = bench.runner((CONTEXT_PAGES + 2) * streams, streams, dtype)
        runner.capture()
        spoken = bench._opened(runner, [bench._context(runner, CONTEXT_PAGES) for _ in range(streams)])
        for stream in spoken:
            runner.begin(stream)
        for _ in range(2):
            runner.step(spoken)
        graph = seen[-1]
    return keeping(graph, runner)


def keeping(graph: torch.cuda.CUDAGraph, owner: Any) -> Callable[[], None]:
    """Replay `graph`, whose memory is there as long as its owner is."""

    def replay(owner: Any = owner) -> None:
        graph.replay()

    return replay


def took(*work: tuple[Callable[[], None], int]) -> float:
    """Seconds for all, each so many times on a CUDA stream of its own."""
    streams = [torch.cuda.Stream() for _ in work]  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start = time.perf_counter()
    left = [times for _, times in work]
    while any(left):
        # In turn, so that neither waits for the other's launches.
        for place, (step, times) in enumerate(work):
            share = -(-times // 20)
            with torch.cuda.stream(streams[place]):
                for _ in range(min(share, left[place])):
                    step()
            left[place] = max(0, left[place] - share)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def compare(speak: Callable[[], None], solve: Callable[[], None]) -> dict[str, float]:
    """ms of each step alone, and what both win by running at the same time."""
    alone = [took((step, 100)) / 100 for step in (speak, solve)]
    times = [max(20, int(SECONDS / 2 / seconds)) for seconds in alone]
    apart = took((speak, times[0])) + took((solve, times[1]))
    together = took((speak, times[0]), (solve, times[1]))
    return {"lm_ms": 1e3 * alone[0], "euler_ms": 1e3 * alone[1], "won": apart / together}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.overlap", description=__doc__.splitlines()[0])
    parser.add_argument("--precision", default="float16", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("this needs a GPU: CUDA streams are what it compares", file=sys.stderr)
        return 1
    device, dtype = torch.device("cuda"), getattr(torch, options.precision)
    lm = LMBench(synthetic.FULL.lm, device, dtype)
    flow = FlowBench(synthetic.FULL.flow, device, dtype, False)
    rows = []
    speaking: dict[int, Callable[[], None]] = {}
    solving: dict[int, Callable[[], None]] = {}
    with torch.inference_mode():
        for talking, solved in CASES:
            if talking not in speaking:
                speaking = {talking: lm_step(lm, dtype, talking)}
            if solved not in solving:
                solving = {solved: euler_step(flow, dtype, solved)}
            row = {"lm_streams": talking, "flow_streams": solved, **compare(speaking[talking], solving[solved])}
            rows.append(row)
            if not options.json:
                print(
                    f"{talking:3} and {solved:3} streams: {row['lm_ms']:.2f} and {row['euler_ms']:.2f} ms a step; "
                    f"together {row['won']:.2f} times as fast"
                )
    if options.json:
        print(json.dumps({"device": torch.cuda.get_device_name(), "precision": options.precision, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
