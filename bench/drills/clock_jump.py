"""The clock of the machine, as the service sees it, jumps a day ahead and two days back, under running calls.

A library of our own, `clock.c`, is preloaded into the service and its engine: no namespace has a clock of the day of
its own, and the machine's must be left alone. (Under Debian's libfaketime an engine hung before its clock had jumped.)
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.chaos import engines_of
from bench.client import connect
from bench.drills.listener import Listener, breaks, playing, told
from bench.drills.outcome import Outcome, Skipped
from bench.drills.watching import fetched
from bench.model import TINY, model_directory
from bench.served import Served, served
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

SOURCE = Path(__file__).with_name("clock.c")
DAY_S = 86400
JUMPS = (DAY_S, -DAY_S, 0)
TOKEN_S = 600
SETTLE_S = 3.0
"""Some heartbeats, and looks at the keys, after each jump."""


class Clock:
    """What the service is told the time is. folder: for what this needs. Raises Skipped without a C compiler."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise Skipped("no C compiler: install Debian's gcc and libc6-dev, as make drills does")
        self._library, self._off = folder / "clock.so", folder / "off"
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        self._off.write_bytes(bytes(8))

    def jump(self, seconds: int) -> None:
        """Off the true time by so much, from now on."""
        with self._off.open("r+b", buffering=0) as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "DRILL_CLOCK": str(self._off)}


async def drill(short: bool) -> Outcome:
    found = Outcome()
    with model_directory(TINY) as model, tempfile.TemporaryDirectory(prefix="oscine-drill-") as folder:
        clock, keys = Clock(Path(folder)), Path(folder) / "keys.json"
        key = made_key(keys, "drill", "speak,tokens,metrics")
        flags = ("--keys", str(keys), "--max-streams", "4", "--utilisation", "inf", "--grace", "2")
        with served(*flags, model=model, http=True, environment=clock.environment()) as unit:
            await _jumped(found, unit, clock, key, 5 if short else 8)
    return found


def made_key(file: Path, name: str, grants: str) -> str:
    """As `oscine keys add` makes and prints it."""
    command = [sys.executable, "-m", "oscine_service.cli", "keys", "add", name, "--keys", str(file), "--grants", grants]
    added = subprocess.run(command, capture_output=True, text=True, check=True)
    return added.stdout.strip()


async def _jumped(found: Outcome, unit: Served, clock: Clock, key: str, sentences: int) -> None:
    assert unit.http is not None
    engines = engines_of(unit.pid)
    async with connect(unit.grpc) as channel:
        stub = SpeechServiceStub(channel)
        token, _ = await _minted(unit.http, key)
        seen, firsts, tokens = [], [], []
        async with playing([Listener(stub, sentences, seed=seed, key=key) for seed in range(2)]) as calls:
            began = time.monotonic()
            for off in JUMPS:
                clock.jump(off)
                await asyncio.sleep(SETTLE_S)
                _, now = await _minted(unit.http, key)
                seen.append(round(now - time.time()))
                new = await Listener(stub, seed=9, key=key).hear()
                firsts.append(new.first_s)
                found.keep(new.complete, f"a new call at {off:+d} s ended with {new.status}: {new.details}")
                tokens.append((await Listener(stub, seed=9, key=token).hear()).status)
            for each in calls:
                await each.hear()
            still = breaks(calls, began)
    if any(abs(told_s - off) > SETTLE_S for told_s, off in zip(seen, JUMPS, strict=True)):
        raise RuntimeError(f"the service's clock was off by {seen} s, not by {list(JUMPS)}: nothing was tried")
    same = engines_of(unit.pid) == engines
    found.keep(same, "an engine was started again")
    found.keep(all(each.complete for each in calls), "a running call did not come whole")
    found.keep(tokens == ["UNAUTHENTICATED", "OK", "OK"], f"a token of ten minutes was answered with {tokens}")
    found.playing("a running call", still)
    found.recovered(max(firsts), 5.0)
    found.happened.append(
        f"a day ahead, two days back, and right again: of running calls {told(calls, began)}; "
        f"{'no engine was' if same else 'an engine was'} started again, new calls sounded after {max(firsts):.2f} s at "
        f"most, a token of ten minutes was answered with {', '.join(map(str, tokens))}"
    )
    found.figures |= {"clock_off_s": seen, "first_s": [round(each, 3) for each in firsts], "breaks_s": still}


async def _minted(http: str, key: str) -> tuple[str, float]:
    """A token of TOKEN_S, and what the service's clock says."""
    asked = json.dumps({"expires_in": TOKEN_S}).encode()
    answer = json.loads(await asyncio.to_thread(fetched, f"http://{http}/v1/tokens", key, asked))
    return answer["token"], answer["expires_at"] - TOKEN_S
