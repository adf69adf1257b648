"""Runs a benchmark's sections, each of which may fail without hiding the others."""

import sys
import time
import traceback
from collections.abc import Callable, Iterable


def run(sections: Iterable[tuple[str, Callable[[], object]]], failures: list[str]) -> int:
    """Call each, print what it took, and last `OK` or what failed: what raised, and what is in `failures` by then.

    Returns the exit status.
    """
    for name, section in sections:
        start = time.perf_counter()
        print(f"{name}:", flush=True)
        try:
            section()
        except Exception:
            traceback.print_exc(file=sys.stdout)
            failures.append(name)
        print(f"  ({time.perf_counter() - start:.1f} s)", flush=True)
    print(f"FAILED: {', '.join(dict.fromkeys(failures))}" if failures else "OK")
    return int(bool(failures))
