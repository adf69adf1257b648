"""Does anything stay behind? python -m bench.soak [--sessions 500] [--model DIR|tiny] [--json]

Many sessions of one engine in this process, some of which are cancelled, dropped, abandoned or poisoned; afterwards
everything that was there before must be there and nothing else. A few that were heard to their end are then spoken
again alone and compared.

Sessions are drawn ahead from `--seed`: one to four lines each, whole or word by word; a fifth cancels at a random
moment; a tenth vanishes, half of them with their task and half by doing nothing any more, until the engine ends them;
one in a hundred has a voice whose numbers overflow, so that what is computed with it is not a number. `--clients` of
them come at a time, more than the engine has places for (`--max-streams`): a refused one tries again after the hint.
All places are given away, however slow the machine (`--utilisation 0.68` for as many as speak in time), since what
shares ticks is what could disturb each other. Listeners take what is made as fast as it comes.

Before anything is counted every client has spoken a long sentence, and three or so like the others, so that memory and
threads that an engine needs once are there.

Keys of the printed object:

* `benchmark`, `model`, `host` (as in first_packet), `sessions`, `clients`, `max_streams`, `wall_s` (of the sessions);
* `together`: streams in one tick, `p50`, `p95` and `max` of all ticks of the sessions;
* `ended`: sessions by how they ended: `done`, `dropped`, or the error's code; `audio_s`: heard by those that spoke to
  their end; `refused`: times that admission said no; `unexpected`: what did not end as it was meant to, as texts;
* `leftovers`: after minus before: `streams`, `pages`, `tasks`, `file_descriptors`, `threads`; none may be above 0;
* `memory_growth`: resident memory of the idle engine after over before, minus 1, at most 0.02, once what the clients
  here held of sessions left alone is given back; `memory_mib`: `before` and `after`;
* `survivors`: `count` spoken again; `same_ids`: sessions with the same speech ids in every segment; `ties`: segments
  with others where both were right, since the draw at which they part was closer than rounding (`tie_margins`: how far
  apart the two best scores, or the nucleus and its edge, were there); `different`: segments that are no tie, which must
  be 0; `mel_max` and `wave_max`: largest differences where the ids are the same, at most 1e-3 and 2e-2; `ok`.

With `--grpc` the sessions are calls to `oscine serve` in processes of its own. Clients that vanish are processes with
five calls each, half of them killed and half frozen, which the service must miss by itself; nobody is poisoned and
nothing is spoken again. There is no `together` and no `survivors`, and more or other keys are:

* `status_lost`: calls tried again because they ended while text was on its way, and the client's library did not say
  how; `vanished`: calls of `killed` and of `frozen` clients; `missed_s`: from the end of the other calls until nothing
  of theirs was left; `leftovers`: of `service` and `engine`, the two processes, `file_descriptors` and `threads`, and
  `places`: calls that were let in at once before and are not after; `memory_growth` and `memory_mib` of both processes.

The exit status is 1 if anything is not as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench import soak_wire
from bench.figures import host, ranks, resident
from bench.first_packet import SENTENCES
from bench.model import add_model, model_directory, model_name
from bench.served import ServerFailed
from bench.soak_check import Keeper, Samples, judged, restore, store, summary
from bench.soak_plan import Kind, Plan, plans, warm_ups
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.engine import Engine, EngineSettings
from oscine_engine.errors import Cancelled, Idle, InternalError, OscineError, Overloaded, Stalled
from oscine_engine.events import Audio, Done, SessionRequest
from oscine_engine.runtime.device_loop import REST_S
from oscine_engine.runtime.memory import give_back
from oscine_engine.runtime.trace import Said, Ticked, Trace
from oscine_engine.session import Session, SessionLimits

SURVIVORS = 30
MOST_MEMORY_GROWTH = 0.02
GONE_S = 3.0
"""After this long without a sign of its client the engine ends a session."""
DRAIN_S = 60.0
POISON = "poisoned"


@dataclass(slots=True)
class Tally:
    """What happened. `abandoned`: sessions that were left alone, kept until the engine has ended them."""

    ended: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    audio_s: float = 0.0
    unexpected: list[str] = field(default_factory=list)
    abandoned: list[tuple[Plan, Session]] = field(default_factory=list)


def poisoned(checkpoint: Checkpoint) -> Checkpoint:
    """The same model with one more voice, whose sound is numbers too large to compute with: they become no numbers."""
    voice = next(iter(checkpoint.voices.values()))
    bad = replace(voice, name=POISON, mel=torch.full_like(voice.mel, torch.finfo(torch.float32).max))
    return replace(checkpoint, voices={**checkpoint.voices, POISON: bad})


async def admitted(engine: Engine, request: SessionRequest, tally: Tally) -> Session:
    """Open, however often it takes."""
    while True:
        try:
            return await engine.open(request)
        except Overloaded as refusal:
            tally.refused += 1
            await asyncio.sleep(refusal.retry_after_s)


async def write(session: Session, plan: Plan) -> None:
    for part in plan.parts:
        await session.append(part)
        await asyncio.sleep(plan.pause_s)
    await session.finish()


async def hear(session: Session) -> Samples:
    """The whole wave. Raises OscineError of a session that failed, ValueError for one with a hole."""
    heard: list[Samples] = []
    position = 0
    async for event in session:
        if isinstance(event, Audio):
            if event.start_sample != position:
                raise ValueError(f"a packet starts at {event.start_sample}, the one before ended at {position}")
            position += event.samples.size
            heard.append(event.samples)
        elif isinstance(event, Done) and round(event.stats.audio_s * session.started.sample_rate) != position:
            raise ValueError(f"{position} samples came, {event.stats.audio_s} s were said to")
    return np.concatenate(heard) if heard else np.zeros(0, np.float32)


async def converse(session: Session, plan: Plan) -> Samples:
    """Say and hear at the same time; both end when one fails."""
    async with session, asyncio.TaskGroup() as group:
        group.create_task(write(session, plan))
        hearing = group.create_task(hear(session))
    return hearing.result()


async def cancelling(session: Session, plan: Plan) -> Samples:
    """The session is cancelled from the side, while it speaks."""
    talk = asyncio.create_task(converse(session, plan))
    await asyncio.sleep(plan.after_s)
    await session.cancel()
    return await talk


async def dropping(session: Session, plan: Plan) -> Samples | None:
    """The client's task is gone, without a word to the session but what leaving its block says; None if it was cut."""
    talk = asyncio.create_task(converse(session, plan))
    await asyncio.sleep(plan.after_s)
    talk.cancel()
    await asyncio.wait([talk])
    return None if talk.cancelled() else talk.result()


async def deafening(session: Session, plan: Plan) -> Samples | None:
    """The client stops in the middle, and nothing says so; None if it did before the end."""
    talk = asyncio.gather(write(session, plan), hear(session))
    try:
        _, wave = await asyncio.wait_for(talk, plan.after_s)
    except TimeoutError:
        return None
    return wave


def told(error: BaseException) -> Iterator[BaseException]:
    """The errors inside a group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from told(each)
    else:
        yield error


EXPECTED: dict[Kind, type[OscineError]] = {Kind.CANCELS: Cancelled, Kind.POISONED: InternalError}
"""What a session must raise. One that was to be cut short may also have been done before its moment came."""


async def attend(engine: Engine, plan: Plan, tally: Tally) -> Samples | None:
    """One client's session from its opening to its end; returns what was heard of one that spoke to its end.

    Runs in a task of its own: on Python 3.11 a task group that failed leaves its task half cancelled.
    """
    voice = POISON if plan.kind is Kind.POISONED else None
    session = await admitted(engine, SessionRequest(voice=voice, mode=plan.mode, seed=plan.seed), tally)
    try:
        match plan.kind:
            case Kind.SPEAKS | Kind.POISONED:
                wave: Samples | None = await converse(session, plan)
            case Kind.CANCELS:
                wave = await cancelling(session, plan)
            case Kind.DROPS:
                wave = await dropping(session, plan)
            case Kind.GOES_DEAF:
                wave = await deafening(session, plan)
    except Exception as error:
        errors = list(told(error))
        expected = EXPECTED.get(plan.kind)
        if expected is None or not all(isinstance(each, expected) for each in errors):
            tally.unexpected.append(f"{plan.kind} {plan.seed}: {errors!r}")
        tally.ended[getattr(errors[0], "code", type(errors[0]).__name__)] += 1
        return None
    if wave is None and plan.kind is Kind.GOES_DEAF:
        tally.abandoned.append((plan, session))
        return None
    tally.ended["done" if wave is not None else "dropped"] += 1
    if plan.kind is Kind.POISONED:
        tally.unexpected.append(f"{plan.kind} {plan.seed}: it was heard to its end")
    if wave is not None and plan.kind is Kind.SPEAKS:
        tally.audio_s += wave.size / engine.sample_rate
        return wave
    return None


@dataclass(frozen=True, slots=True)
class Held:
    """What the process and the engine hold at one moment."""

    streams: int
    pages: int
    tasks: int
    file_descriptors: int
    threads: int

    @classmethod
    def now(cls, engine: Engine) -> Held:
        load = engine.load_now
        return cls(
            streams=load.streams,
            pages=load.pages,
            tasks=len(asyncio.all_tasks()),
            file_descriptors=len(os.listdir("/proc/self/fd")),
            threads=len(os.listdir("/proc/self/task")),
        )

    def beyond(self, before: Held) -> dict[str, int]:
        return {name: getattr(self, name) - getattr(before, name) for name in self.__slots__}


async def drained(engine: Engine) -> None:
    """Wait until the engine holds nothing, DRAIN_S at most, and has given back memory."""
    until = time.monotonic() + DRAIN_S
    while engine.load_now != (0, 0) and time.monotonic() < until:
        await asyncio.sleep(0.05)
    await asyncio.sleep(2 * REST_S)


async def ends(abandoned: Sequence[tuple[Plan, Session]], tally: Tally) -> None:
    """The engine has ended every session that was left alone, and says so to who comes back."""
    for plan, session in abandoned:
        try:
            async with asyncio.timeout(GONE_S):
                await hear(session)
            tally.unexpected.append(f"{plan.kind} {plan.seed}: it ended well")
        except (Idle, Stalled) as error:
            tally.ended[error.code] += 1
        except (OscineError, TimeoutError, ValueError) as error:
            tally.unexpected.append(f"{plan.kind} {plan.seed}: {error!r}")


async def run(engine: Engine, sessions: Sequence[Plan], clients: int, tally: Tally, keep: Keeper, folder: Path) -> Kept:
    """All sessions, `clients` at a time; what the chosen ones said is kept in `folder`."""
    waiting = iter(sessions)
    kept: Kept = {}

    async def client() -> None:
        for plan in waiting:
            wave = await asyncio.create_task(attend(engine, plan, tally))
            if plan.seed in keep.seeds and wave is not None:
                spoken = keep.take(plan.seed, wave)
                store(spoken, folder / f"{plan.seed}.npz")
                kept[plan.seed] = spoken.said

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return kept


Kept = dict[int, list[Said]]


async def soak(
    checkpoint: Checkpoint,
    warm: Sequence[Plan],
    sessions: Sequence[Plan],
    settings: EngineSettings,
    clients: int,
    say: Callable[[str], object],
) -> dict[str, Any]:
    """Everything there is to print, from `sessions` on; `warm` is not counted."""
    speaking = [plan.seed for plan in sessions if plan.kind is Kind.SPEAKS]
    keep = Keeper(frozenset(random.Random(0).sample(speaking, min(SURVIVORS, len(speaking)))))
    sizes: Counter[int] = Counter()
    tally = Tally()

    def watch(event: Trace) -> None:
        keep(event)
        if isinstance(event, Ticked):
            sizes[len(event.seeds)] += 1

    with tempfile.TemporaryDirectory(prefix="oscine-soak-") as place:
        async with Engine(poisoned(checkpoint), settings, observe=watch) as engine:
            say(f"{clients} clients warm up")
            await run(engine, warm, clients, Tally(), keep, Path(place))
            await drained(engine)
            give_back()
            before, memory = Held.now(engine), resident()
            sizes.clear()
            began = time.monotonic()
            say(f"{len(sessions)} sessions")
            kept = await run(engine, sessions, clients, tally, keep, Path(place))
            await drained(engine)
            wall_s, together = time.monotonic() - began, sorted(sizes.elements())
            await ends(tally.abandoned, tally)
            tally.abandoned.clear()
            # As the engine did at rest: what was kept here of abandoned sessions lay in the midst of its memory.
            give_back()
            after, grown = Held.now(engine), resident()
            say(f"{len(kept)} once more, alone")
            verdicts = []
            for plan in sessions:
                if plan.seed in kept:
                    whole = replace(plan, parts=("".join(plan.parts),), pause_s=0.0)
                    wave = await asyncio.create_task(attend(engine, whole, Tally()))
                    if wave is None:
                        tally.unexpected.append(f"{plan.kind} {plan.seed}: it did not end well alone")
                        continue
                    loaded = restore(kept[plan.seed], Path(place) / f"{plan.seed}.npz")
                    verdicts.append(judged(loaded, keep.take(plan.seed, wave), checkpoint))
    return {
        "sessions": len(sessions),
        "clients": clients,
        "max_streams": settings.max_streams,
        "wall_s": round(wall_s, 1),
        "together": ranks(together, 50, 95, 100, digits=0),
        "ended": dict(sorted(tally.ended.items())),
        "audio_s": round(tally.audio_s, 1),
        "refused": tally.refused,
        "unexpected": tally.unexpected,
        "leftovers": after.beyond(before),
        "memory_growth": round(grown / memory - 1, 4),
        "memory_mib": {"before": round(memory / 2**20, 1), "after": round(grown / 2**20, 1)},
        "survivors": summary(verdicts),
    }


def passed(result: dict[str, Any]) -> bool:
    """Whether everything is as it must be."""
    return (
        not result["unexpected"]
        and not any(count > 0 for count in result["leftovers"].values())
        and result["memory_growth"] <= MOST_MEMORY_GROWTH
        and result["survivors"]["ok"]
    )


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--sessions", type=int, default=500, help="default %(default)s")
    parser.add_argument("--clients", type=int, default=16, help="at a time (default %(default)s)")
    usual = EngineSettings()
    parser.add_argument("--max-streams", type=int, default=usual.max_streams, help="default %(default)s")
    parser.add_argument("--utilisation", type=float, default=math.inf, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="draws the sessions (default %(default)s)")
    parser.add_argument("--grpc", action="store_true", help="through the service")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    if options.sessions < 1 or options.clients < 1:
        parser.error("--sessions and --clients count from 1")
    machine = host()

    def say(what: str) -> None:
        if not options.json:
            print(what, file=sys.stderr, flush=True)

    lines = [text for text in SENTENCES.read_text(encoding="utf-8").splitlines() if text.strip()]
    drawn, warm = plans(options.sessions, lines, options.seed), warm_ups(options.clients, lines, options.seed)
    try:
        with model_directory(options.model) as model:
            torch.set_num_threads(1)
            if options.grpc:
                most = options.max_streams
                through = soak_wire.soak(model, warm, drawn, options.clients, most, say)
                figures = asyncio.run(through)
                good = soak_wire.passed(figures, MOST_MEMORY_GROWTH)
            else:
                settings = EngineSettings(
                    max_streams=options.max_streams,
                    utilisation=options.utilisation,
                    session=SessionLimits(idle_s=GONE_S, stall_s=GONE_S),
                )
                figures = asyncio.run(soak(load(model), warm, drawn, settings, options.clients, say))
                good = passed(figures)
    except (OSError, OscineError, ServerFailed) as error:
        raise SystemExit(f"bench.soak: {error}") from error
    result = {"benchmark": "soak", "model": model_name(options.model), "host": machine, **figures}
    print(json.dumps(result) if options.json else "\n".join(f"{key:20} {value}" for key, value in result.items()))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
