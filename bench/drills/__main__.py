"""Failure drills: what was promised, what happens, what is lost. python -m bench drills [--only NAME] [--json]

Each drill starts a real service, breaks something under it and looks at what clients notice. Run as root, each is in
namespaces of its own for processes, mounts and the network: nothing outlives it, and no packet leaves it. What a
machine cannot do is skipped, and says why. NAME is one of

    engine_killed    kill -9 of the only engine, and of one of two
    service_killed   kill -9 of the service while voices are made
    disk_full        no room for the voice store and the log
    slow_disk        five writes a second under both
    clock_jump       a day ahead, two days back
    overload         five times as many clients as places, for two minutes
    flood            clients without a key, at all doors
    bad_network      packets late and lost, and a line that is dead for 2 s

Keys of the printed object: `benchmark`, `host` (as in first_packet), `run` (when), `short`, and `drills`, of each:

* `drill`, `promise`, `happened`: in words; `lost`: what was promised to be kept and was not; `late`: what came, but not
  in its time; `recovered_s`: until all was as before; `seconds` it took; `figures`: the same for machines;
* or `skipped`: what the machine lacks.

Times are on a clock: what else the machine does is in `late`, too. The exit status is 1 if anything was lost or late,
2 if only something was skipped. `--record` adds the object to bench/results/drills.jsonl and writes the table of
docs/operations.md from the last time that each drill was recorded; `--table` prints that, and runs nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.drills.catalogue import DRILLS, Drill
from bench.figures import host

RESULTS = Path(__file__).parents[1] / "results" / "drills.jsonl"
WALLS = (
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
)
PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
MARK = "<!-- The table is printed by: python -m bench drills --table -->"
PUT_BACK_S = 30.0
FAILED, NOT_ALL = 1, 2


def carry_out(drill: Drill, short: bool) -> dict[str, Any]:
    """What it found, within its time."""
    about = {"drill": drill.name, "promise": drill.promise}
    root = os.geteuid() == 0
    if drill.root and not root:
        return about | {"skipped": "only root can mount and make networks here"}
    with tempfile.TemporaryDirectory(prefix="oscine-drill-") as folder:
        file = Path(folder) / "told"
        command = [*(WALLS if root else ()), sys.executable, "-m", "bench.drills.one", drill.name, str(file)]
        command += ["short"] if short else []
        ended = _run(command, drill.limit_s)
        if file.exists():
            told: dict[str, Any] = json.loads(file.read_text())
            return about | told
    return about | {"skipped": None, "happened": [], "lost": [f"the drill {ended}"], "late": [], "recovered_s": None}


def _run(command: Sequence[str], limit_s: float) -> str:
    """How the command ended. Its standard output joins the errors, which are told as they come."""
    with subprocess.Popen(command, stdout=sys.stderr, start_new_session=True) as process:
        try:
            return f"ended with status {process.wait(limit_s)} before it had found anything"
        except subprocess.TimeoutExpired:
            return f"took longer than {limit_s:g} s and was ended"
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started, and with time to put back what it has changed."""
    for name, patience in ((signal.SIGTERM, PUT_BACK_S), (signal.SIGKILL, None)):
        if process.poll() is None:
            os.killpg(process.pid, name)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)


def status(drills: Sequence[dict[str, Any]]) -> int:
    """The exit status."""
    if any(each.get("lost") or each.get("late") for each in drills):
        return FAILED
    return NOT_ALL if any(each["skipped"] for each in drills) else 0


def show(told: dict[str, Any]) -> None:
    print(f"\n{told['drill']}\n  promised   {told['promise']}")
    if told["skipped"]:
        print(f"  skipped    {told['skipped']}")
        return
    for name in ("happened", "lost", "late"):
        for each in told[name] or ["nothing"]:
            print(f"  {name:10} {each}")
    if told["recovered_s"] is not None:
        print(f"  recovered  {told['recovered_s']:g} s")


def table(results: Path = RESULTS) -> str:
    """Of the last record of each drill, below what they were taken on."""
    records = [json.loads(row) for row in results.read_text().splitlines()]
    last = {told["drill"]: (told, record) for record in records for told in record["drills"]}
    rows = [_taken_on([record for _, record in last.values()]), "", "| drill | promise | measured |", "|---|---|---|"]
    for drill in DRILLS:
        told = last[drill.name][0] if drill.name in last else {"skipped": "not recorded yet"}
        measured = told["skipped"] or "; ".join(told["happened"])
        for name in ("lost", "late"):
            measured += "".join(f". **{name.capitalize()}:** {each}" for each in told.get(name, []))
        rows.append(f"| {drill.title} (`{drill.name}`) | {drill.promise} | {measured} |")
    return "\n".join(rows)


def with_table(page: str, told: str) -> str:
    """A page with this table in the place of the one behind its mark, which goes on to the next heading or the end."""
    before, mark, rest = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page has no place for the table: no line says {MARK}")
    _, heading, after = rest.partition("\n## ")
    return f"{before}{mark}\n\n{told}\n{heading}{after}"


def _taken_on(records: Sequence[dict[str, Any]]) -> str:
    """In words: the machine, how busy it was, and how long the drills were."""
    hosts = [record["host"] for record in records]
    machines = ", ".join(sorted({f"{each['cores']} cores of an {each['cpu']}" for each in hosts}))
    loads = [each["load"] for each in hosts]
    how = "short" if any(record["short"] for record in records) else "whole"
    commits = ", ".join(sorted({each["commit"] for each in hosts}))
    return f"{machines}; load {min(loads):.1f} to {max(loads):.1f}; {how} drills; commit {commits}."


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench drills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [drill.name for drill in DRILLS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="this one; may be repeated")
    parser.add_argument("--short", action="store_true", help="seconds where a whole drill takes minutes")
    parser.add_argument(
        "--record", action="store_true", help=f"add the outcome to {RESULTS.name}, and write the table into {PAGE.name}"
    )
    parser.add_argument("--table", action="store_true", help="print the table of what was recorded")
    parser.add_argument("--json", action="store_true", help="print one object")
    options = parser.parse_args()
    if options.table:
        print(table())
        return 0
    # So that a drill ends with whoever ends this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    told = []
    for drill in DRILLS:
        if drill.name in (options.only or names):
            told.append(carry_out(drill, options.short))
            if not options.json:
                show(told[-1])
    now = datetime.now(UTC).isoformat(timespec="seconds")
    result = {"benchmark": "drills", "host": host(), "run": now, "short": options.short, "drills": told}
    if options.record:
        with RESULTS.open("a") as file:
            file.write(json.dumps(result) + "\n")
        PAGE.write_text(with_table(PAGE.read_text(), table()))
    if options.json:
        print(json.dumps(result))
    return status(told)


if __name__ == "__main__":
    sys.exit(main())
