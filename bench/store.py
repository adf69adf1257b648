"""How fast is a voice found among thousands? python -m bench store [--voices N] [--shared s3|file] [--json]

Fills a store in a new folder with voices that all sound different, reads it with another one as a service does, and
looks voices up by names drawn at random, after all of them have been looked up once.

Keys of the printed object: `benchmark`, `host`, `voices`, `seconds` (of each one's reference), `lookups`, and

* `add_ms`: keeping a voice for good, synchronised to the disk; `store_mib`: what all take there;
* `find_us`: from a name to its row, what every call of a service does; `get_us`: to the arrays too, of voices that are
  in memory; `read_us`: to the arrays of voices that are not, read from the file and checked against their digest;
* `find_while_adding_us`: the first while another process adds voices without a pause, `added_meanwhile` of them;
* `list_ms`: all voices that somebody sees, once; `limit_us`; `ok`: p99 of `find_us` and `get_us` are below it.

With `--shared` voices are shared by two machines instead, each with a copy of its own that a process keeps up to date,
through an S3 server that is started for it (SeaweedFS) or through a folder. Its keys: `voices` (there beforehand),
`seconds`, `changes`, and

* `first_copy_s`: a new machine's copying of all; `look_ms`: comparing all, which finds nothing new;
* `add_ms`: keeping a voice for good; `seen_ms`: from then until the other machine can speak in it;
* `gone_ms`: from the end of a deletion until the other machine knows it no more;
* `limit_ms`; `ok`: all of `seen_ms` and `gone_ms` are below it.

These are times on a clock: on a machine that does other things they tell how long others were in the way.
The exit status is 0 only if `ok`. The folder is made in `--in`, or where temporary files go: take a real disk.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from bench import shared_store
from bench.drawn_voices import TOKENS_A_SECOND, keep_adding, name, voice
from bench.figures import host, ranks
from oscine_engine.voices.store import VoiceStore

LIMIT_US = 1000.0
HOT = 100
"""Voices that are asked for again and again: fewer than fit in the store's memory."""


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def microseconds(times: Sequence[float]) -> dict[str, float | None]:
    return ranks(times, 50, 99, 100, scale=1e6)


def measure(folder: Path, voices: int, seconds: float, lookups: int) -> dict[str, Any]:
    writer = VoiceStore(folder)
    added = []
    for number in range(voices):
        each = voice(number, seconds)
        added.append(timed(lambda each=each: writer.add(each)))
    writer.close()
    drawn = random.Random(0)
    names = [name(drawn.randrange(voices)) for _ in range(lookups)]
    store = VoiceStore(folder)
    for number in range(voices):
        store.find(name(number))
    found = [timed(lambda each=each: store.find(each)) for each in names]
    hot = [name(drawn.randrange(voices)) for _ in range(min(HOT, voices))]
    for each in hot:
        store.get(each)
    got = [timed(lambda each=each: store.get(each)) for each in drawn.choices(hot, k=lookups)]
    bare = VoiceStore(folder, cached_bytes=0)
    read = [timed(lambda each=each: bare.get(each)) for each in names[: max(1, lookups // 10)]]
    listed = timed(store.list)
    meanwhile, count = _while_adding(folder, store, names, voices, seconds)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    bare.close()
    store.close()
    figures = {"find_us": microseconds(found), "get_us": microseconds(got)}
    return {
        "voices": voices,
        "seconds": seconds,
        "lookups": lookups,
        "add_ms": ranks(added, 50, 99, 100, scale=1e3, digits=2),
        "store_mib": round(size / 2**20, 1),
        **figures,
        "read_us": microseconds(read),
        "find_while_adding_us": microseconds(meanwhile),
        "added_meanwhile": count,
        "list_ms": round(1e3 * listed, 1),
        "limit_us": LIMIT_US,
        "ok": all((each["p99"] or LIMIT_US) < LIMIT_US for each in figures.values()),
    }


def _while_adding(
    folder: Path, store: VoiceStore, names: Sequence[str], first: int, seconds: float
) -> tuple[list[float], int]:
    """Times of looking `names` up while another process adds voices, and how many it added."""
    # Spawned: torch's threads do not outlive a fork.
    context = multiprocessing.get_context("spawn")
    stop, count = context.Event(), context.Value("q", 0, lock=False)
    adding = context.Process(target=keep_adding, args=(folder, first, seconds, stop, count))
    adding.start()
    try:
        while not count.value and adding.is_alive():
            time.sleep(0.01)
        times = [timed(lambda each=each: store.find(each)) for each in names]
    finally:
        stop.set()
        adding.join()
    if adding.exitcode:
        raise RuntimeError(f"the process that adds voices ended with status {adding.exitcode}")
    return times, int(count.value)


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(
        prog="python -m bench store", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--voices", type=int, default=10_000, help="default %(default)s")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each one's reference (default %(default)s)")
    parser.add_argument("--lookups", type=int, default=20_000, help="default %(default)s")
    parser.add_argument("--shared", choices=["s3", "file"], help="measure what two machines share instead")
    parser.add_argument("--changes", type=int, default=100, help="with --shared (default %(default)s)")
    parser.add_argument("--in", dest="folder", type=Path, metavar="DIR", help="make the store's folder in here")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    if options.voices < 1 or options.changes < 1 or options.lookups < 1 or options.seconds * TOKENS_A_SECOND < 1:
        parser.error("voices, lookups and changes must be at least 1, seconds at least 0.04")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="oscine-store-", dir=options.folder) as folder:
        if options.shared is None:
            found = measure(Path(folder), options.voices, options.seconds, options.lookups)
        else:
            found = shared_store.measure(
                Path(folder),
                options.shared,
                options.voices,
                lambda number: voice(number, options.seconds),
                options.changes,
            )
            found["seconds"] = options.seconds
    figures = {"benchmark": "store", "host": host(), **found}
    print(json.dumps(figures, indent=None if options.json else 1))
    sys.exit(0 if figures["ok"] else 1)


if __name__ == "__main__":
    main()
