"""Does an agent's pace spoil anything? python -m bench.feed [--sessions 6] [--model DIR|tiny] [--json]

An agent writes a few sentences, a piece of about a word or half of one at a time, 20, 50 and 100 pieces a second, as a
language model's tokens come, and stalls a few times at random places, inside words too, for up to some seconds. Every
mode is used in turn, `--streams` agents write at a time, and a listener plays everything at once, collecting nothing
beforehand. Before that each text is spoken with all of it there from the start, with the same seed.

A listener who runs dry because its text came too late is starved; one who runs dry although there was text is an
underrun. The engine counts both (`Stats`). From outside, a gap counts as unexplained if the session had had something
to compute for `EXCUSE_S` without a break when its listener ran dry.

Keys of the printed object:

* `benchmark`, `model`, `host` (as in first_packet), `streams`;
* `rows`, one for each number of pieces `per_s`: `sessions`, `failed` (their messages are in `errors`), `refused`: how
  often one was sent away and came again when it was told to, `stalls` and `stalled_s` in all; `underruns`, which must
  be 0, and `starved` with `starved_s`, as the engine counts them; `gaps` of the player and `gap_s` in all;
  `unexplained` ones, which must be 0; `unspoken`: sessions that read other text ids than the undisturbed run, which
  must be 0; `other_segments`: sessions cut into other segments; `other_ids`: sessions with other speech ids; both must
  be 0, since what is said depends on the text and not on when it came;
* `underruns`, `unexplained`, `unspoken`, `other_ids`: sums of all rows.

The exit status is 1 if a session failed or anything that must be 0 is not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from bench.figures import host
from bench.first_packet import SENTENCES
from bench.model import add_model, model_directory, model_name
from bench.player import Gap, Player
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import OscineError, Overloaded
from oscine_engine.events import Audio, Done, Mode, SessionRequest, Stats
from oscine_engine.runtime.trace import Said, Trace
from oscine_engine.session import Session

RATES = (20, 50, 100)
LINES = 4
STALLS, SHORTEST_STALL_S, LONGEST_STALL_S = 3, 0.2, 5.0
POLL_S = 0.01
MOST_REFUSALS = 20
"""Of one agent, before it gives up."""
EXCUSE_S = 1.0
"""What a stream that waited for text may take to sound again, on a machine that is not full."""


@dataclass(frozen=True, slots=True)
class Script:
    """What one agent writes: pieces of text, and how long it stalls before some of them, by place."""

    pieces: tuple[str, ...]
    stalls: Mapping[int, float]
    mode: Mode
    seed: int


def tokens(text: str) -> list[str]:
    """About what one token of a language model is: up to five letters, with the blank before them."""
    return re.findall(r"\s*\S{1,5}|\s+", text)


def scripts(count: int, lines: Sequence[str], longest_s: float = LONGEST_STALL_S) -> list[Script]:
    """`count` agents, the same ones each time; the modes in turn."""
    draw = random.Random(0)
    made = []
    for number in range(count):
        written = tuple(tokens(" ".join(draw.sample(lines, LINES))))
        places = draw.sample(range(1, len(written)), min(STALLS, len(written) - 1))
        stalls = {place: draw.uniform(SHORTEST_STALL_S, longest_s) for place in places}
        made.append(Script(written, stalls, list(Mode)[number % len(Mode)], number + 1))
    return made


@dataclass(frozen=True, slots=True)
class Heard:
    """One session: what it cost, what its listener missed, and what was said. unexplained: see EXCUSE_S. refused: how
    often it was sent away before."""

    stats: Stats
    gaps: tuple[Gap, ...]
    unexplained: int
    said: tuple[Said, ...]
    refused: int = 0


@dataclass(slots=True)
class Working:
    """Since when a session has had something to compute, by the moments at which that changed."""

    changes: list[tuple[float, bool]] = field(default_factory=list)

    def note(self, now: float, working: bool) -> None:
        if not self.changes or self.changes[-1][1] != working:
            self.changes.append((now, working))

    def since(self, at: float) -> float | None:
        """None if there was nothing to compute at `at`."""
        before = [change for change in self.changes if change[0] <= at]
        return before[-1][0] if before and before[-1][1] else None

    def unexplained(self, gaps: Sequence[Gap]) -> int:
        """Gaps that began when there had been something to compute for longer than EXCUSE_S."""
        starts = [(gap.began, self.since(gap.began)) for gap in gaps]
        return sum(since is not None and began - since > EXCUSE_S for began, since in starts)


Keep = dict[int, list[Said]]


async def write(session: Session, script: Script, per_s: float) -> None:
    due = time.monotonic()
    for place, piece in enumerate(script.pieces):
        due += script.stalls.get(place, 0.0)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        await session.append(piece)
        due += 1 / per_s
    await session.finish()


async def write_at_once(session: Session, script: Script) -> None:
    await session.append("".join(script.pieces))
    await session.finish()


async def poll(session: Session, working: Working) -> None:
    while True:
        working.note(time.monotonic(), session.working)
        await asyncio.sleep(POLL_S)


async def hear(engine: Engine, script: Script, keep: Keep, per_s: float | None) -> Heard:
    """One session at `per_s` pieces a second, None for all at once. Raises OscineError."""
    keep[script.seed] = []
    player, working, stats = Player(engine.sample_rate), Working(), None
    try:
        async with (
            await engine.open(SessionRequest(mode=script.mode, seed=script.seed)) as session,
            asyncio.TaskGroup() as group,
        ):
            polling = group.create_task(poll(session, working))
            group.create_task(write_at_once(session, script) if per_s is None else write(session, script, per_s))
            async for event in session:
                match event:
                    case Audio():
                        player.take(time.monotonic(), event.samples.size)
                    case Done():
                        stats = event.stats
            polling.cancel()
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    assert stats is not None
    return Heard(stats, tuple(player.gaps), working.unexplained(player.gaps), tuple(keep.pop(script.seed)))


async def everyone(
    engine: Engine, agents: Sequence[Script], keep: Keep, per_s: float | None, streams: int
) -> list[Heard | str]:
    """All agents, `streams` at a time, in order; who is refused comes again when told to."""
    free = asyncio.Semaphore(streams)

    async def one(script: Script) -> Heard | str:
        refused = 0
        async with free:
            while True:
                try:
                    return replace(await hear(engine, script, keep, per_s), refused=refused)
                except Overloaded as refusal:
                    if (refused := refused + 1) > MOST_REFUSALS:
                        return f"{refusal.code}: {refusal}"
                    await asyncio.sleep(refusal.retry_after_s)
                except OscineError as error:
                    return f"{error.code}: {error}"

    return await asyncio.gather(*(one(script) for script in agents))


def read(heard: Heard) -> tuple[int, ...]:
    """All text ids, in order."""
    return tuple(each for said in heard.said for each in said.text)


def row(
    per_s: float, agents: Sequence[Script], fed: Sequence[Heard | str], at_once: Sequence[Heard | str]
) -> dict[str, Any]:
    """Figures of one pace; see the top of this file."""
    good = [
        (one, other)
        for one, other in zip(fed, at_once, strict=True)
        if isinstance(one, Heard) and isinstance(other, Heard)
    ]
    errors = [each for each in (*fed, *at_once) if isinstance(each, str)]
    stats = [one.stats for one, _ in good]

    def differ(what: Callable[[Heard], object]) -> int:
        return sum(what(one) != what(other) for one, other in good)

    return {
        "per_s": per_s,
        "sessions": len(fed),
        "failed": len(fed) - len(good),
        "errors": sorted(set(errors)),
        "refused": sum(one.refused for one, _ in good),
        "stalls": sum(len(script.stalls) for script in agents),
        "stalled_s": round(sum(sum(script.stalls.values()) for script in agents), 1),
        "underruns": sum(each.underruns for each in stats),
        "starved": sum(each.starved for each in stats),
        "starved_s": round(sum(each.starved_s for each in stats), 2),
        "gaps": sum(len(one.gaps) for one, _ in good),
        "gap_s": round(sum(gap.seconds for one, _ in good for gap in one.gaps), 2),
        "unexplained": sum(one.unexplained for one, _ in good),
        "unspoken": differ(read),
        "other_segments": differ(lambda heard: [said.text for said in heard.said]),
        "other_ids": differ(lambda heard: [said.ids for said in heard.said]),
    }


MUST_BE_ZERO = ("failed", "underruns", "unexplained", "unspoken", "other_segments", "other_ids")


async def feed(
    model: Path | None, agents: Sequence[Script], streams: int, rates: Sequence[float]
) -> list[dict[str, Any]]:
    """The rows."""
    keep: Keep = {}

    def watch(event: Trace) -> None:
        if isinstance(event, Said):
            keep[event.seed].append(event)

    async with Engine.load(EngineSettings(model=model, max_streams=max(8, streams)), observe=watch) as engine:
        at_once = await everyone(engine, agents, keep, None, 1)
        return [row(per_s, agents, await everyone(engine, agents, keep, per_s, streams), at_once) for per_s in rates]


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--sessions", type=int, default=6, help="for each pace (default %(default)s)")
    parser.add_argument("--per-s", type=float, nargs="+", default=RATES, help="pieces a second (default 20 50 100)")
    parser.add_argument(
        "--stall-s", type=float, default=LONGEST_STALL_S, help="the longest an agent stalls (default %(default)s)"
    )
    parser.add_argument("--streams", type=int, default=2, help="at a time (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    if options.sessions < 1 or options.streams < 1 or min(options.per_s) <= 0:
        parser.error("--sessions and --streams count from 1, --per-s must be above 0")
    if options.stall_s < SHORTEST_STALL_S:
        parser.error(f"--stall-s must be at least {SHORTEST_STALL_S}")
    machine = host()
    lines = [text for text in SENTENCES.read_text(encoding="utf-8").splitlines() if text.strip()]
    try:
        with model_directory(options.model) as model:
            torch.set_num_threads(1)
            rows = asyncio.run(
                feed(model, scripts(options.sessions, lines, options.stall_s), options.streams, options.per_s)
            )
    except (OSError, OscineError) as error:
        raise SystemExit(f"bench.feed: {error}") from error
    sums = {name: sum(each[name] for each in rows) for name in ("underruns", "unexplained", "unspoken", "other_ids")}
    result = {
        "benchmark": "feed",
        "model": model_name(options.model),
        "host": machine,
        "streams": options.streams,
        "rows": rows,
        **sums,
    }
    if options.json:
        print(json.dumps(result))
    else:
        for each in rows:
            print(", ".join(f"{name} {value}" for name, value in each.items()))
    sys.exit(1 if any(each[name] for each in rows for name in MUST_BE_ZERO) else 0)


if __name__ == "__main__":
    main()
