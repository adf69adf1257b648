"""Compare this implementation with recorded numbers of upstream: `python -m bench.parity DIR [--json]`.

Prints one row per check and exits 1 if any fails or cannot be made. With --json, one object instead.

Keys of the printed object:

* `folder`, as given; `torch`: its version; `seconds`: how long it took;
* `total` checks, of which `failed` so many; `ok`: whether none did;
* `checks`, a list: `name`; `max_abs_diff`, null where nothing could be compared; `tolerance`; `ok`; `note`.
"""

import argparse
import importlib
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bench.parity.rows import Row, document, missing

MODULES = ("llm", "flow", "hift", "token2wav", "features", "text")


def rows_of(name: str, folder: Path, config: dict[str, Any]) -> Iterator[Row]:
    """The rows of one check module. Whatever stops it becomes a failing row, after those made before."""
    made = 0
    try:
        module = importlib.import_module(f"bench.parity.{name}")
        for row in module.checks(folder, config):
            made += 1
            yield row
    except FileNotFoundError as error:
        yield missing(f"{name}.file", str(error))
    except KeyError as error:
        yield missing(f"{name}.entry", str(error))
    except Exception as error:  # the report must name every fault of every module, and go on
        yield Row(f"{name}.error", math.inf, 0.0, False, f"{type(error).__name__}: {error}")
    else:
        if made == 0:
            yield missing(name, "any check")


def run(folder: Path, modules: tuple[str, ...] = MODULES) -> Iterator[Row]:
    """Every row of every module for one reference folder."""
    try:
        config = document(folder, "config.json")
    except (FileNotFoundError, json.JSONDecodeError) as error:
        yield missing("config.json", str(error))
        return
    for name in modules:
        yield from rows_of(name, folder, config)


def _line(row: Row) -> str:
    difference = "-" if math.isinf(row.max_abs_diff) else f"{row.max_abs_diff:.2e}"
    verdict = "ok" if row.ok else "FAIL"
    return f"{verdict:4}  {row.name:52}  {difference:>8}  {row.tolerance:8.0e}  {row.note}".rstrip()


def _plain(row: Row) -> dict[str, Any]:
    difference = None if math.isinf(row.max_abs_diff) else row.max_abs_diff
    return {**asdict(row), "max_abs_diff": difference}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.parity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a folder in the format of tests/reference")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", choices=MODULES, action="append", help="run these modules alone")
    options = parser.parse_args()
    begun = time.perf_counter()
    rows = []
    if not options.json:
        print(f"{'':4}  {'check':52}  {'max diff':>8}  {'allowed':>8}")
    for row in run(options.folder, tuple(options.only or MODULES)):
        rows.append(row)
        if not options.json:
            print(_line(row), flush=True)
    failed = sum(not row.ok for row in rows)
    seconds = round(time.perf_counter() - begun, 2)
    if options.json:
        report = {
            "folder": str(options.folder),
            "torch": torch.__version__,
            "total": len(rows),
            "failed": failed,
            "ok": failed == 0,
            "seconds": seconds,
            "checks": [_plain(row) for row in rows],
        }
        print(json.dumps(report))
    else:
        print(f"{len(rows)} checks, {failed} failed, {seconds} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
