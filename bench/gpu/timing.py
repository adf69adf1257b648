"""What the device takes for something, by its own clock; on a CPU, which has none, the time of one call."""

import time
from collections.abc import Callable

import torch

from oscine_engine.runtime.graphs import Graphs


def launch_us(launch: Callable[[], object], device: torch.device, repeats: int = 20) -> float:
    """us of one `launch`, so many of which follow each other behind one that does not count."""
    if device.type != "cuda":
        start = time.perf_counter()
        launch()
        return 1e6 * (time.perf_counter() - start)
    launch()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        launch()
    end.record()
    end.synchronize()
    return float(1e3 * begin.elapsed_time(end) / repeats)


def elapsed_us(work: Callable[[], object], device: torch.device, repeats: int = 20, times: int = 1) -> float:
    """us of one call of `work`, so many `times` of which are one graph, so that the host does not count."""
    if device.type != "cuda":
        times = 1

    def several() -> None:
        for _ in range(times):
            work()

    return launch_us(Graphs(device).capture(several), device, repeats) / times
