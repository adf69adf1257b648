"""Plain arithmetic of measurements, what they were taken on, and how they are told."""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Nearest-rank: the smallest value that at least `percent` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(percent / 100 * len(values)) - 1)] if values else None


def ranks(values: Sequence[float], *percents: int, scale: float = 1.0, digits: int = 1) -> dict[str, float | None]:
    """{"p50": ...} and so on, scaled and rounded; 100 is named "max". None where there are no values."""
    found = {"max" if percent == 100 else f"p{percent}": percentile(values, percent) for percent in percents}
    return {name: None if value is None else round(scale * value, digits) for name, value in found.items()}


def line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Least squares: (ys at x = 0, rise per x). Raises ValueError where all xs are the same."""
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((each - x) ** 2 for each in xs)
    if not spread:
        raise ValueError("a line needs two different places")
    rise = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread
    return y - rise * x, rise


def resident() -> int:
    """Bytes of this process in memory, after what Python no longer refers to has been freed."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def host() -> dict[str, Any]:
    """What the figures were taken on."""
    named = (row.partition(":")[2].strip() for row in _read("/proc/cpuinfo").splitlines() if "model name" in row)
    commit = _git("rev-parse", "--short", "HEAD")
    return {
        "cpu": next(named, platform.processor() or platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": version("torch"),
        "commit": commit and commit + ("+" if _git("status", "--porcelain", "--untracked-files=no") else ""),
    }


def outcome(result: dict[str, Any], faults: Sequence[str], show: Callable[[dict[str, Any]], None] | None) -> int:
    """Print a benchmark's result, by `show` or as one JSON object, and to standard error what is wrong with it. The
    exit status."""
    if show is None:
        print(json.dumps(result))
    else:
        show(result)
    for fault in faults:
        print(fault, file=sys.stderr)
    return bool(faults)


def _read(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""


def _git(*arguments: str) -> str | None:
    """None outside a checkout."""
    try:
        asked = subprocess.run(["git", "-C", str(Path(__file__).parent), *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
