"""The player in Chromium: python -m bench.browser [--minutes 10] [--held-minutes 3] [--calls 40] [--json]

The service's HTTP port in a process of its own, with a replay in the place of its engine (see bench.transport), and the
player in a headless Chromium of the same machine. What reaches the graph in front of the speakers is captured and
compared, sample by sample, with what libopus makes of what was sent.

Keys of the printed object:

* `benchmark`, `host` (as in first_packet), `browser`;
* `first`, of `calls` one after the other on one connection, each with its text sent once it was open: `packet_ms`,
  until the page had the first packet; `sound_ms`, until the first sample was at the speakers; `latency_ms`, what the
  browser reckons of that between the graph and there. `p50` `p99` `max` of each. The replay's own takes no time;
* `even`, a call of so many `seconds` on an even link, and `held`, one of which a `share` of the messages are held back
  by 300 ms, with all behind them: `messages`, and of those `held`; `underruns` that the player counted; `played` of
  `sent` samples that were heard, in order and unchanged; `inserted` stretches of anything else between them,
  `inserted_seconds` in all; `edge`, the greatest step of the signal, of full scale, where one begins or ends; `rest`,
  the greatest sample that was heard behind the end.

The exit status is 1 if a first sound took 150 ms or more beyond the first packet, if the even link had an underrun, if
a sample was lost, changed or repeated, or if an edge has a step of more than 0.02.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.browser.alignment import align
from bench.browser.chromium import Browser, chromium
from bench.browser.link import Link, now_and_then, through
from bench.browser.sent import Samples, heard, spoken
from bench.browser.service import captured
from bench.figures import host, outcome, ranks
from bench.transport.__main__ import record
from bench.transport.replay import ReplayPort
from oscine_service.audio import Format

FLAGS = ("--autoplay-policy=no-user-gesture-required",)
HELD_SHARE, HELD_S = 0.02, 0.3
MOST_BEYOND_MS, MOST_EDGE = 150.0, 0.02
SHORT_S = 0.6
"""Of a call that only its first sound is wanted of."""


@asynccontextmanager
async def service(samples: Path, seconds: float, folder: Path) -> AsyncIterator[str]:
    command = (sys.executable, "-m", "bench.browser.service", str(samples), str(seconds), str(folder))
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        address = (await process.stdout.readline()).decode().strip()
        if not address:
            raise RuntimeError("the service has ended")
        yield address
    finally:
        process.stdin.close()
        await process.wait()


async def first(browser: Browser, samples: Path, folder: Path, calls: int) -> dict[str, Any]:
    async with service(samples, SHORT_S, folder) as address:
        page = await browser.open(f"http://{address}/bench/")
        await page.run("import('/bench/stage.js').then(() => 1)")
        await page.run("stage.first(3, 1)")
        found = await page.run(f"stage.first({calls}, 10)")
        await browser.close(page)
    values = {name: [each[name] / 1000 for each in found] for name in ("packet", "sound", "latency")}
    return {"calls": calls} | {f"{name}_ms": ranks(times, 50, 99, 100, scale=1000) for name, times in values.items()}


async def listened(
    browser: Browser, samples: Samples, path: Path, folder: Path, name: str, seconds: float, link: Link
) -> dict[str, Any]:
    seed = 5
    async with service(path, seconds, folder) as address, through(link, address) as other:
        page = await browser.open(f"http://{other}/bench/")
        await page.run("import('/bench/stage.js').then(() => 1)")
        told = await page.run(f"stage.played({json.dumps(name)}, {{seed: {seed}}})")
        await browser.close(page)
    sent = heard(spoken(ReplayPort(samples, seconds), seed), Format())
    found = align(captured(folder, name), sent)
    result = {"seconds": seconds, "messages": link.messages, "held": link.held, "underruns": told["underruns"]}
    if found is None:
        return result | {"played": 0, "sent": len(sent)}
    return result | {
        "played": found.played,
        "sent": len(sent),
        "inserted": len(found.inserted),
        "inserted_seconds": round(found.seconds_inserted, 3),
        "edge": round(found.edge, 6),
        "rest": round(found.rest, 6),
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    result: dict[str, Any] = {"benchmark": "browser", "host": host()}
    with tempfile.TemporaryDirectory(prefix="oscine-browser-") as name:
        folder = Path(name)
        path = folder / "samples.npy"
        await asyncio.to_thread(record, path)
        samples: Samples = np.load(path)
        async with chromium(FLAGS) as browser:
            result["browser"] = (await browser.ask("Browser.getVersion"))["product"]
            result["first"] = await first(browser, path, folder, options.calls)
            for part, minutes, link in (
                ("even", options.minutes, Link()),
                ("held", options.held_minutes, Link(now_and_then(HELD_SHARE, HELD_S))),
            ):
                if minutes > 0:
                    result[part] = await listened(browser, samples, path, folder, part, 60 * minutes, link)
        if "held" in result:
            result["held"]["share"] = HELD_SHARE
    return result


def faults(result: dict[str, Any]) -> list[str]:
    """What is not as it must be."""
    found = []
    beyond = result["first"]["sound_ms"]["max"] - result["first"]["packet_ms"]["p50"]
    if beyond >= MOST_BEYOND_MS:
        found.append(f"a first sound {beyond:.0f} ms beyond the first packet, {MOST_BEYOND_MS:g} is too much")
    if result.get("even", {}).get("underruns"):
        found.append(f"even: the sound ran dry {result['even']['underruns']} times")
    for part in ("even", "held"):
        told = result.get(part)
        if told is None:
            continue
        if told["played"] != told["sent"]:
            found.append(f"{part}: {told['sent'] - told['played']} samples were not heard as they were sent")
        if told.get("edge", math.inf) > MOST_EDGE or told.get("rest", math.inf) > MOST_EDGE:
            found.append(f"{part}: a step of {told.get('edge')} at an edge, or {told.get('rest')} behind the end")
    return found


def show(result: dict[str, Any]) -> None:
    for part in ("browser", "first", "even", "held"):
        if part in result:
            print(f"{part:8} {result[part]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="on an even link; 0 leaves it out")
    parser.add_argument("--held-minutes", type=float, default=3.0, help="on a link that holds messages back; likewise")
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = asyncio.run(measure(options))
    return outcome(result, faults(result), None if options.json else show)


if __name__ == "__main__":
    sys.exit(main())
