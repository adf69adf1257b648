"""How many listeners at once? python -m bench.load [--seconds 30] [--model DIR|tiny] [--json]

Opens sessions of one engine in this process, one after the other, until admission refuses one. Each speaks without a
pause and reports what its listener has played, so that the engine works at the listeners' pace and not faster. The
listeners collect nothing beforehand: a packet plays when it is there and the one before it has ended, and whenever
there is none, that is an underrun. Text always waits, so none of them can be for want of text.

After `--seconds` sessions are cancelled at random moments, one after the other, each replaced by a new one, while the
others go on.

Keys of the printed object:

* `benchmark`, `model`, `host` (as in first_packet), `seconds`;
* `streams`: admitted; `underruns`: `count`, `ms` in all and `streams` that had any, from the first packet to the end of
  the run, the cancelled and the new ones included; `first_packet_ms` `p50` `p95` `max`: of the streams admitted first,
  from the request to open on; `failed`: errors of sessions, which none should have; `audio_s`: made in all;
  `busy`: share of the time that the loop's thread computed in, and `busy_cpu`: CPU time of that thread over the time,
  which is less where other processes took their turns;
* `refusals`: `count` (tries at a full engine, one every second); `ms` `p50` `max`: until each was told;
  `hint_s` `p50` `max`: when to try again; `admitted_later`: tries that were let in after all;
* `cancels`: `count`; `silence_ms` `p50` `p95` `max`: from the call of `cancel` to the end of the last tick for the
  stream, or to the last audio that was handed out, whichever is later, 0 if there was neither;
  `tick_ms` `p50` `p95` `max`: all ticks meanwhile; `late`: cancels that took longer than the stream's last tick and
  20 ms.

The exit status is 1 if a listener ran dry, nothing was refused, or a cancel was late.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from bench.figures import host, ranks
from bench.model import TINY, add_model, model_directory, model_name
from bench.player import Player
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import Cancelled, OscineError, Overloaded
from oscine_engine.events import Audio, Mode, SessionRequest
from oscine_engine.runtime.trace import Left, Ticked, Trace
from oscine_engine.session import Session

SENTENCE = "Your package left our warehouse last night, and should reach you within two days, or three if it snows. "
WAITING = 3
"""Sentences of text that wait to be spoken at any time."""
MOST_STREAMS = {TINY: 32}
FEWER_STREAMS = 12
"""Limit of the engine, above what two cores carry: memory is set aside for so many."""
REPORT_S, KNOCK_S, ARRIVAL_S = 0.1, 1.0, 0.1
GRACE_S = 0.02
CANCELS = 40


@dataclass(slots=True)
class Listener:
    """One session and its listener. asked: when it asked to be let in. last: when the last packet came."""

    session: Session
    asked: float
    player: Player
    first: float | None = None
    last: float = 0.0
    error: OscineError | None = None

    async def listen(self) -> None:
        """Hear until the session is cancelled; text is there at any time, and what was played is reported."""
        async with self.session, asyncio.TaskGroup() as group:
            reporting = group.create_task(self._report())
            try:
                async for event in self.session:
                    if isinstance(event, Audio):
                        self.last = time.monotonic()
                        self.first = self.first or self.last
                        self.player.take(self.last, event.samples.size)
                    while self.session.waiting < WAITING:
                        await self.session.append(SENTENCE)
            except Cancelled:
                pass
            except OscineError as error:
                self.error = error
            reporting.cancel()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            await self.session.played(self.player.played(time.monotonic()))


@dataclass(frozen=True, slots=True)
class Refused:
    """Told after `seconds` to come again in `hint_s`."""

    seconds: float
    hint_s: float


@dataclass(slots=True)
class Cost:
    """An observer of ticks. busy_s, cpu_s: computed in all. ends: by stream, when its last tick ended and what it took.

    ticks: of all ticks what they took, since it was last set to an empty list.
    """

    busy_s: float = 0.0
    cpu_s: float = 0.0
    ends: dict[int, tuple[float, float]] = field(default_factory=dict)
    ticks: list[float] = field(default_factory=list)
    left: set[int] = field(default_factory=set)

    def __call__(self, event: Trace) -> None:
        match event:
            case Ticked():
                self.busy_s += event.wall_s
                self.cpu_s += event.cpu_s
                self.ticks.append(event.wall_s)
                end = (event.began + event.wall_s, event.wall_s)
                self.ends.update((seed, end) for seed in event.seeds)
            case Left():
                self.left.add(event.seed)


@dataclass(frozen=True, slots=True)
class Silence:
    """After a cancel: seconds until the last tick for the stream had ended and the last packet was out, and what that
    tick took."""

    seconds: float
    tick_s: float

    @property
    def late(self) -> bool:
        return self.seconds > self.tick_s + GRACE_S


class Room:
    """An engine and its listeners."""

    def __init__(self, engine: Engine, cost: Cost, group: asyncio.TaskGroup) -> None:
        self.engine = engine
        self.cost = cost
        self.listeners: list[Listener] = []
        self.gone: list[Listener] = []
        self.refusals: list[Refused] = []
        self._group = group
        self._seeds = 0

    async def knock(self) -> Listener | None:
        """Ask to be let in, once; None if refused."""
        self._seeds += 1
        asked = time.monotonic()
        try:
            session = await self.engine.open(SessionRequest(mode=Mode.SENTENCE, seed=self._seeds))
        except Overloaded as refusal:
            self.refusals.append(Refused(time.monotonic() - asked, refusal.retry_after_s))
            return None
        listener = Listener(session, asked, Player(self.engine.sample_rate))
        self.listeners.append(listener)
        self._group.create_task(listener.listen())
        return listener

    async def cancel(self, listener: Listener) -> Silence:
        """Cancel one and see when it is silent."""
        seed = listener.session.started.seed
        called = time.monotonic()
        await listener.session.cancel()
        self.listeners.remove(listener)
        self.gone.append(listener)
        while seed not in self.cost.left:
            await asyncio.sleep(0.005)
        ended, tick_s = self.cost.ends.get(seed, (called, 0.0))
        return Silence(max(0.0, ended - called, listener.last - called), tick_s)


async def load(model: Path | None, most: int, seconds: float, cancels: int) -> dict[str, Any]:
    """Everything there is to print, from `streams` on."""
    cost = Cost()
    draw = random.Random(0)
    async with (
        Engine.load(EngineSettings(model=model, max_streams=most), observe=cost) as engine,
        asyncio.TaskGroup() as group,
    ):
        room = Room(engine, cost, group)
        while await room.knock():
            await asyncio.sleep(ARRIVAL_S)
        began, busy, cpu = time.monotonic(), cost.busy_s, cost.cpu_s
        later = 0
        while time.monotonic() < began + seconds:
            await asyncio.sleep(KNOCK_S)
            later += await room.knock() is not None
        steady = list(room.listeners)
        took = time.monotonic() - began
        shares = ((cost.busy_s - busy) / took, (cost.cpu_s - cpu) / took)
        cost.ticks = []
        silences = []
        for _ in range(cancels):
            await asyncio.sleep(draw.uniform(0.1, 0.5))
            silences.append(await room.cancel(draw.choice(room.listeners)))
            await room.knock()
        ticks = cost.ticks
        for listener in list(room.listeners):
            await room.cancel(listener)
    gaps = [listener.player.gaps for listener in room.gone]
    return {
        "streams": len(steady),
        "underruns": {
            "count": sum(len(each) for each in gaps),
            "ms": round(1000 * sum(gap.seconds for each in gaps for gap in each), 1),
            "streams": sum(bool(each) for each in gaps),
        },
        "first_packet_ms": ranks([each.first - each.asked for each in steady if each.first], 50, 95, 100, scale=1000),
        "failed": sorted({f"{each.error.code}: {each.error}" for each in room.gone if each.error}),
        "audio_s": round(sum(listener.player.received for listener in room.gone) / engine.sample_rate, 1),
        "busy": round(shares[0], 3),
        "busy_cpu": round(shares[1], 3),
        "refusals": {
            "count": len(room.refusals),
            "ms": ranks([each.seconds for each in room.refusals], 50, 100, scale=1000, digits=2),
            "hint_s": ranks([each.hint_s for each in room.refusals], 50, 100, digits=2),
            "admitted_later": later,
        },
        "cancels": cancelled(silences, ticks),
    }


def cancelled(silences: Sequence[Silence], ticks: Sequence[float]) -> dict[str, Any]:
    """Figures of the cancels."""
    return {
        "count": len(silences),
        "silence_ms": ranks([each.seconds for each in silences], 50, 95, 100, scale=1000),
        "tick_ms": ranks(ticks, 50, 95, 100, scale=1000),
        "late": sum(each.late for each in silences),
    }


def passed(result: dict[str, Any]) -> bool:
    """Whether nobody ran dry, somebody was refused, and every cancel was in time."""
    refused, late = result["refusals"]["count"] > 0, result["cancels"]["late"] > 0
    return refused and not late and not result["underruns"]["count"] and not result["failed"]


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--seconds", type=float, default=30.0, help="with all streams (default %(default)s)")
    parser.add_argument("--cancels", type=int, default=CANCELS, help="default %(default)s")
    parser.add_argument(
        "--max-streams",
        type=int,
        help=f"limit of the engine (default {FEWER_STREAMS}, {MOST_STREAMS[TINY]} for {TINY})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    if options.seconds <= 0 or options.cancels < 0:
        parser.error("--seconds must be above 0, --cancels from 0")
    most = options.max_streams or MOST_STREAMS.get(options.model, FEWER_STREAMS)
    result: dict[str, Any] = {
        "benchmark": "load",
        "model": model_name(options.model),
        "host": host(),
        "seconds": options.seconds,
    }
    try:
        with model_directory(options.model) as model:
            torch.set_num_threads(1)
            result |= asyncio.run(load(model, most, options.seconds, options.cancels))
    except (OSError, OscineError) as error:
        raise SystemExit(f"bench.load: {error}") from error
    print(json.dumps(result) if options.json else "\n".join(f"{key:20} {value}" for key, value in result.items()))
    sys.exit(0 if passed(result) else 1)


if __name__ == "__main__":
    main()
