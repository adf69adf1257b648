"""Two units behind a balancer: python -m bench.fleet [--balancer nginx|envoy] [--clients 200] [--seconds 8] [--json]

Starts two units on this machine, each the whole service in a process of its own with a replay in the place of its
engine, and nginx or Envoy before them, with the files of deploy/. `--clients` clients speak all the time: 70 % over
gRPC, on four connections, 20 % over WebSocket, 10 % over HTTP. Each call lasts `--seconds`; whoever has heard all of it
calls again, and whoever is refused or cut off does so after as long as the error says. What a unit speaks is noise of
its own, other noise with every start, from another place for every call: so every byte of every call is compared with
what one unit should have sent.

Then one unit is told to stop (SIGTERM) and started again, the other one is killed (SIGKILL) and started again, and both
are replaced one after the other as docs/operations.md tells.

Keys of the printed object:

* `benchmark`, `host` (as in first_packet), `balancer`, `clients`, `seconds`;
* `added_ms`: `straight` and `through` the balancer, `p50` `p99`, from the beginning of a call over gRPC until its first
  sound, which the replay has at once; one call at a time, nothing else going on;
* `shares`: calls that speak at each unit before anything happens;
* `drained`: calls that were `speaking` there, of them `lost`; of those that were `waiting` for their first sound, at
  either unit, how those ended that did not end well (`waiting_lost`); `took_s` from the signal to the end of the
  process, its exit `status`; `new`: calls that began meanwhile, of them `refused`, and how those ended that did not end
  well (`new_told`); `last_new_s`: how long after the signal the last call began that the unit still took; `landing_s`
  `p50` `p99` `max`: of new calls, from the wish to speak until a unit had taken the call, refusals included;
* `drained_back`, `killed_back`: seconds from its being ready until it had its first call, and two fifths of all;
* `killed`: as above; `told`: what clients that were cut off were told, `again`: how many of them by an error after
  which to call again; `missed_s`: from the kill until they knew; `untouched`: calls at the other unit, and how many of
  them were lost;
* `upgraded`: `took_s`, `calls` that ran or began meanwhile, those that `failed`, `landing_s`;
* `calls` in all, `split`: those that did not hear one unit from the first byte to the last; `outcomes`;
  `unexplained`: of them, those that ended neither well nor with an error after which to call again.

`--table FILE...` measures nothing: it writes the table of docs/operations.md from what `--json` printed.

The exit status is 1 if a drain or an upgrade lost or refused a call, a kill lost one at the other unit or told a client
anything but to call again, a new call waited for longer than a second, or a call was split.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.figures import host, outcome
from bench.fleet.balancers import BALANCERS, NoBalancer
from bench.fleet.scenario import fleet
from bench.served import ServerFailed
from oscine_service.event_loop import new_event_loop

LONGEST_S = 1.0
"""From the wish to speak until a unit has taken the call."""


def faults(result: dict[str, Any], longest_s: float = LONGEST_S) -> list[str]:
    """What is not as it must be. longest_s: that a new call may wait for."""
    drained, killed, upgraded = result["drained"], result["killed"], result["upgraded"]
    found = [f"drained: {drained[name]} {name}" for name in ("lost", "waiting_lost", "refused") if drained[name]]
    if drained["status"] or any(upgraded["statuses"]):
        found.append(
            f"exit status {drained['status']} of what was drained, {upgraded['statuses']} of what was replaced"
        )
    if not drained["speaking"] or not killed["lost"]:
        found.append("nobody spoke at the unit that was drained or killed: nothing was seen")
    if killed["again"] < killed["lost"]:
        found.append(f"killed: {killed['lost'] - killed['again']} were not told to call again: {killed['told']}")
    if killed["untouched"]["lost"]:
        found.append(f"killed: {killed['untouched']['lost']} lost at the other unit")
    if upgraded["failed"]:
        found.append(f"upgraded: {upgraded['failed']}")
    for name in ("drained", "killed", "upgraded"):
        longest = result[name]["landing_s"]["max"]
        if longest is None or longest > longest_s:
            found.append(f"{name}: a new call waited for {longest} s")
    if result["unexplained"]:
        found.append(f"ended for no good reason: {result['unexplained']}")
    if result["split"]:
        found.append(f"{result['split']} calls heard what no unit alone would have sent them")
    return found


def show(result: dict[str, Any]) -> None:
    print(f"{result['clients']} clients, calls of {result['seconds']:g} s, {result['balancer']} before two units")
    for name, value in result.items():
        if name not in ("benchmark", "host", "balancer", "clients", "seconds"):
            print(f"  {name:13} {value}")


def table(results: Sequence[dict[str, Any]]) -> str:
    """Of Markdown, a column for each."""
    load = ", ".join(f"{each['host']['load']:g}" for each in results)
    head = [f"{each['balancer']}, {each['clients']} clients, calls of {each['seconds']:g} s" for each in results]
    lines = [f"| two cores, load before {load} | " + " | ".join(head) + " |", "|---" * (len(results) + 1) + "|"]
    for name, cell in ROWS.items():
        lines.append(f"| {name} | " + " | ".join(cell(each) for each in results) + " |")
    return "\n".join(lines)


def _first(result: dict[str, Any]) -> str:
    straight, through = result["added_ms"]["straight"], result["added_ms"]["through"]
    return f"{straight['p50']:g} / {straight['p99']:g}, {through['p50']:g} / {through['p99']:g}"


def _new(found: dict[str, Any]) -> str:
    return f"{found['new']}, {found['refused']}, {found['landing_s']['max']:g} s"


def _back(result: dict[str, Any]) -> str:
    return ", ".join(f"{result[name]['first_call_s']:g} s" for name in ("drained_back", "killed_back"))


ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "first packet, ms, p50 / p99: straight, through the balancer": _first,
    "calls at each unit": lambda each: " and ".join(map(str, each["shares"])),
    "drained: calls there, lost": lambda each: f"{each['drained']['speaking']}, {each['drained']['lost']}",
    "new calls meanwhile, refused, longest until taken": lambda each: _new(each["drained"]),
    "killed: calls there, lost, told to call again": lambda each: (
        f"{each['killed']['speaking']}, {each['killed']['lost']}, {each['killed']['again']}"
    ),
    "calls at the other unit, lost": lambda each: (
        f"{each['killed']['untouched']['speaking']}, {each['killed']['untouched']['lost']}"
    ),
    "new calls after the kill, refused, longest until taken": lambda each: _new(each["killed"]),
    "started again: first call after": _back,
    "both replaced: calls, failed, took": lambda each: (
        f"{each['upgraded']['calls']}, {sum(each['upgraded']['failed'].values())}, {each['upgraded']['took_s']:g} s"
    ),
    "calls in all, heard by parts of two units": lambda each: f"{each['calls']}, {each['split']}",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--balancer", choices=tuple(BALANCERS), default="nginx", help="default: %(default)s")
    parser.add_argument("--clients", type=int, default=200, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a call (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--table", nargs="+", type=Path, metavar="FILE", help="of what was measured before")
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(file.read_text()) for file in options.table]))
        return 0
    about = {"benchmark": "fleet", "host": host(), "balancer": options.balancer}
    about |= {"clients": options.clients, "seconds": options.seconds}
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            result = about | runner.run(fleet(options.balancer, options.clients, options.seconds))
    except (NoBalancer, ServerFailed) as error:
        raise SystemExit(f"bench.fleet: {error}") from error
    return outcome(result, faults(result), None if options.json else show)


if __name__ == "__main__":
    sys.exit(main())
