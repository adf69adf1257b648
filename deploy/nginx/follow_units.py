#!/usr/bin/env python3
"""Tells nginx which units take calls: follow_units.py FOLDER [--ca FILE] [--reload COMMAND] ...

nginx without its commercial part notices that a unit is gone only by failing to reach it. A unit that is there and
refuses over gRPC, because its engine is being replaced, would get every new call, for it has the fewest. So this asks
each unit of FOLDER/units for /readyz, and writes FOLDER/units-grpc.conf and FOLDER/units-http.conf: with `down` behind
those that are not ready or are to be drained. Where that changes something, COMMAND (nginx -s reload) follows: calls
that run go on in nginx's old worker processes until they end.

A unit that answers no, or that nobody listens at, is out at once; one that does not answer in time, after three times.
Where none is ready all stay in: they refuse with a hint, which says more than nginx could.

Needs Python 3.10 or newer and nothing else. Ends at SIGTERM.
"""

from __future__ import annotations

import argparse
import http.client
import os
import shlex
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 1.0
AGAIN_S = 5.0
"""After which nginx is told once more where that failed and nothing else has changed."""
MISSES = 3
"""Questions in a row without an answer after which a unit counts as gone."""


@dataclass(frozen=True)
class Unit:
    """grpc, http: HOST:PORT. drain: it is to get no new calls."""

    name: str
    grpc: str
    http: str
    drain: bool = False


def parse(text: str) -> list[Unit]:
    """The units of a file. Raises ValueError, which names the line."""
    units: list[Unit] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) not in (3, 4) or (len(words) == 4 and words[3] != "drain"):
            raise ValueError(
                f"line {number}: write NAME GRPC-ADDRESS HTTP-ADDRESS, and drain where it is to be drained"
            )
        for address in words[1:3]:
            if not address.rpartition(":")[2].isdigit():
                raise ValueError(f"line {number}: {address} is not HOST:PORT")
        if any(unit.name == words[0] for unit in units):
            raise ValueError(f"line {number}: there are two units called {words[0]}")
        units.append(Unit(*words[:3], drain=len(words) == 4))
    if not units:
        raise ValueError("there are no units in it")
    return units


def ask(unit: Unit, tls: ssl.SSLContext | None = None) -> bool | None:
    """Whether it is ready; None where it did not answer in time. tls: for units that have certificates."""
    host, _, port = unit.http.rpartition(":")
    at = host.strip("[]"), int(port)
    connection = (
        http.client.HTTPConnection(*at, timeout=PATIENCE_S)
        if tls is None
        else http.client.HTTPSConnection(*at, timeout=PATIENCE_S, context=tls)
    )
    try:
        connection.request("GET", "/readyz", headers={"Connection": "close"})
        return connection.getresponse().status == 200
    except TimeoutError:
        return None
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Readiness:
    """What is thought of each unit, by what it answered lately."""

    def __init__(self) -> None:
        self._ready: dict[str, bool] = {}
        self._misses: dict[str, int] = {}

    def hear(self, name: str, answer: bool | None) -> None:
        misses = self._misses[name] = 0 if answer is not None else self._misses.get(name, 0) + 1
        if answer is not None:
            self._ready[name] = answer
        elif misses >= MISSES:
            self._ready[name] = False

    def of(self, name: str) -> bool:
        """One that nobody has heard of yet is ready."""
        return self._ready.get(name, True)


def chosen(units: Sequence[Unit], ready: Mapping[str, bool]) -> list[Unit]:
    """Who gets new calls: those that are ready, or else all, but for those that are to be drained; or else all."""
    staying = [unit for unit in units if not unit.drain] or list(units)
    return [unit for unit in staying if ready[unit.name]] or staying


def servers(units: Sequence[Unit], chosen: Sequence[Unit], door: str) -> str:
    """The lines of an upstream. door: grpc or http."""
    lines = ["# Written by follow_units.py from the file units."]
    for unit in units:
        down = "" if unit in chosen else " down"
        lines.append(f"server {getattr(unit, door)} max_fails=1 fail_timeout=1s{down}; # {unit.name}")
    return "\n".join(lines) + "\n"


def write(file: Path, text: str) -> bool:
    """At once or not at all; whether anything has changed."""
    if file.exists() and file.read_text() == text:
        return False
    beside = file.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, file)
    return True


def follow(folder: Path, reload: Sequence[str], every_s: float, once: bool, tls: ssl.SSLContext | None = None) -> None:
    readiness, said, wrong, units = Readiness(), "", "", list[Unit]()
    told, told_at = False, -AGAIN_S
    with ThreadPoolExecutor(16) as pool:
        while True:
            began = time.monotonic()
            try:
                units = parse((folder / "units").read_text())
                wrong = ""
            except (OSError, ValueError) as error:
                # What was there before counts on: half a file must not take a fleet down.
                if not units:
                    raise SystemExit(f"follow_units: {folder / 'units'}: {error}") from error
                if str(error) != wrong:
                    wrong = str(error)
                    print(f"{folder / 'units'}: {wrong}; the units before count on", file=sys.stderr, flush=True)
            for unit, answer in zip(units, pool.map(lambda unit: ask(unit, tls), units), strict=True):
                readiness.hear(unit.name, answer)
            ready = {unit.name: readiness.of(unit.name) for unit in units}
            taking = chosen(units, ready)
            # Both, whatever the first says.
            changed = [write(folder / f"units-{door}.conf", servers(units, taking, door)) for door in ("grpc", "http")]
            if any(changed) or (not told and began >= told_at + AGAIN_S):
                told, told_at = subprocess.run(reload).returncode == 0, began
                if not told:
                    print("nginx was not reloaded; this is tried again", file=sys.stderr, flush=True)
            line = f"new calls go to {', '.join(unit.name for unit in taking)}"
            if not any(ready.values()):
                line = f"no unit says that it is ready; {line}"
            if line != said:
                said = line
                print(line, flush=True)
            if once:
                return
            time.sleep(max(0.0, began + every_s - time.monotonic()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where units is, and units-grpc.conf and units-http.conf belong")
    parser.add_argument("--ca", metavar="FILE", help="ask over TLS, and trust the authorities in FILE (PEM)")
    parser.add_argument("--reload", default="nginx -s reload", help="default: %(default)s")
    parser.add_argument("--every", type=float, default=0.25, metavar="SECONDS", help="default: %(default)s")
    parser.add_argument("--once", action="store_true", help="once, and no more")
    options = parser.parse_args()
    try:
        tls = None if options.ca is None else ssl.create_default_context(cafile=options.ca)
    except OSError as error:
        raise SystemExit(f"follow_units: --ca {options.ca}: {error}") from error
    follow(options.folder, shlex.split(options.reload), options.every, options.once, tls)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
