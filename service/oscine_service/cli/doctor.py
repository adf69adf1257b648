"""`oscine doctor`: checks this machine and the settings of serve, and says how to mend what is wrong."""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict

from oscine_service.config import arguments
from oscine_service.doctor.finding import Finding, Level
from oscine_service.event_loop import new_event_loop
from oscine_service.observe import logs

HELP = "check this machine and the settings of serve, and say how to mend what is wrong"
SIGNS = {Level.GOOD: "good  ", Level.ADVICE: "advice", Level.FAULT: "FAULT "}
COLOURS = {Level.GOOD: "32", Level.ADVICE: "33", Level.FAULT: "31"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.Arguments(parser, arguments.ALL)
    parser.add_argument("--speak", action="store_true", help="start an engine and speak a sentence, too")
    parser.add_argument("--json", action="store_true", help="print one JSON object: findings, and whether all is well")


def run(options: argparse.Namespace) -> int:
    """Print what is found, as it is. Returns the exit status: 1 if something does not work."""
    logs.set_up("warning", "text")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    # Loads much; help should not.
    from oscine_service.doctor.examination import examine

    found: list[Finding] = []
    async for finding in examine(options, speak=options.speak):
        found.append(finding)
        if not options.json:
            print(line(finding, colour=sys.stdout.isatty()), flush=True)
    faults = sum(finding.level is Level.FAULT for finding in found)
    if options.json:
        print(json.dumps({"well": not faults, "findings": [asdict(finding) for finding in found]}))
    elif faults:
        print(f"{faults} of {len(found)} need mending", file=sys.stderr)
    return 1 if faults else 0


def line(finding: Finding, *, colour: bool) -> str:
    sign = SIGNS[finding.level]
    shown = f"\x1b[{COLOURS[finding.level]}m{sign}\x1b[0m" if colour else sign
    mend = f" -> {finding.mend}" if finding.mend else ""
    return f"{shown} {finding.about:9} {finding.what}{mend}"
