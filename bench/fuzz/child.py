"""Cases of one parser: python -m bench.fuzz.child PARSER SEED FIRST CASES

A line for each case that has begun, its number, so that who waits knows the one that hangs or ends this process; JSON
for each that ended as it must not, and at the end for all of them.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import threading
import time
import traceback
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from bench.figures import resident
from bench.fuzz.draw import shown
from bench.fuzz.parsers import PARSERS, SLOW_S
from oscine_engine.runtime.memory import give_back

MOST_BYTES = 6 << 30
"""Of address space beyond what is there at the start: a file that makes a reader take more has won."""


def held() -> dict[str, int]:
    gc.collect()
    give_back()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "bytes": resident(),
    }


def told(error: Exception) -> str:
    """What was raised, and where."""
    frames = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[1:]]
    return f"{type(error).__name__}: {str(error)[:300]} ({' '.join(frames[-6:])})"


def run(name: str, seed: int, first: int, cases: int) -> dict[str, Any]:
    parser = PARSERS[name]
    ended: Counter[str] = Counter()
    slowest, before = (0.0, -1), held()
    with ExitStack() as stack:
        drawn = parser.make(stack)
        for number in range(first, cases):
            if number == first + (cases - first) // 2:
                before = held()
            act, what = drawn(Random(f"{name}:{seed}:{number}"))
            print(number, flush=True)
            began = time.process_time()
            fault = None
            try:
                act()
                ended["served"] += 1
            except Exception as error:
                if parser.typed(error) and str(error):
                    ended[type(error).__name__] += 1
                else:
                    fault = told(error)
            took = time.process_time() - began
            slowest = max(slowest, (took, number))
            if fault is None and took > SLOW_S:
                fault = f"it took {took:.1f} s of computing"
            if fault is not None:
                print(json.dumps({"case": number, "fault": fault, "input": shown(what, 1000)}), flush=True)
        after = held()
    grown = {each: after[each] - before[each] for each in after}
    return {"ended": dict(ended), "slowest_s": round(slowest[0], 3), "slowest_case": slowest[1], "grown": grown}


def main() -> None:
    name, *numbers = sys.argv[1:]
    os.environ["OMP_NUM_THREADS"] = "1"
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, used + MOST_BYTES))
    print(json.dumps(run(name, *map(int, numbers))), flush=True)


if __name__ == "__main__":
    main()
