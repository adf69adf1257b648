"""The scheduler against a simulated clock: python -m bench.simulate --profile h200 --rps 40 [--seconds 60] [--json]

Runs the engine's own scheduler (policy, admission, start of the first packet) over a table of what ticks cost, with
Poisson arrivals of utterances like the English ones of Seed-TTS: 4.4 s on average, log-normal, the whole text at once.
A time to first packet counts from the moment a stream could start until its first packet leaves the loop; the service's
text front end and transport are not in it. Runs end when the last utterance has ended. Percentiles are nearest-rank.

`--policy` names another scheduler; `--table 10,20,40` runs every policy at each of these loads and prints a Markdown
table, `--plot FILE` draws it. `--fleet G` puts G devices behind least-request balancing (of two drawn at random the
one with fewer streams), `--rps` then being the load of all; with `--mtbf` devices fail. `--plan` answers how many
devices so many calls need.

Keys of the printed object:

* `benchmark`, `profile`, `source` (of the costs), `policy`, `rps`, `seconds`, `seed`, `devices`;
* `utterances`: how many arrived; `ttfp_p50_ms` `ttfp_p95_ms` `ttfp_p99_ms` `ttfp_max_ms`: time to first packet of those
  that got one; None if none did;
* `underruns`: packets that came after their listener had run dry, who plays at once and collects nothing beforehand;
  `underrun_s` how late in all; `underrun_streams` in how many streams;
* `starved`: the same for want of text, which no device could help;
* `refused`: refusals by admission; `unserved`: utterances that never were spoken to their end;
* `broken`: streams lost to a device's `failures`, asked for again by their clients;
* `utilisation`: share of the time that devices were busy. The loop never idles while a stream is within its credit,
  so it runs ahead and this is near 1 long before a device is full: judge by first packets and underruns;
* `most_open`: streams open at a time.
"""

import argparse
import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.simulation.device import Truth
from bench.simulation.fleet import Failures, run
from bench.simulation.load import Load
from bench.simulation.plan import plan
from bench.simulation.policies import POLICIES
from bench.simulation.profiles import PROFILES, Profile, guessing
from bench.simulation.report import draw, summary, table
from oscine_engine.scheduler.admission import UTILISATION, Limits
from oscine_engine.scheduler.costs import CostModel


def simulate(options: argparse.Namespace, profile: Profile, policy: str, rps: float) -> dict[str, Any]:
    chosen = POLICIES[policy]
    voice = chosen.voice
    load = Load(rps, options.seconds, mean_s=options.mean, text_rate=options.text_rate)
    devices = options.fleet or 1
    seeds = random.Random(options.seed)
    limits = Limits(streams=10**6, utilisation=options.limit)
    truth = Truth(*options.noise)
    outcome = run(
        lambda: chosen.device(profile, voice, random.Random(seeds.random()), limits, truth),
        devices,
        voice,
        load.utterances(random.Random(options.seed)),
        random.Random(options.seed + 1),
        Failures(options.mtbf, options.repair) if options.mtbf else None,
        retries=options.retries,
    )
    about = {"profile": options.profile, "source": profile.source, "policy": policy, "rps": rps}
    about |= {"seconds": options.seconds, "seed": options.seed, "devices": devices}
    return {"benchmark": "simulate", **about, **summary(outcome, devices)}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=PROFILES, default="h200")
    parser.add_argument("--costs", type=Path, help="a measured cost model as JSON, instead of the profile's")
    parser.add_argument("--rps", type=float, default=40.0, help="utterances a second (40)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they arrive (60)")
    parser.add_argument("--policy", choices=POLICIES, default="oscine", help=policies())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mean", type=float, default=4.4, help="seconds of an utterance on average (4.4)")
    parser.add_argument("--text-rate", type=float, help="text ids a second; without, the text is there at once")
    parser.add_argument(
        "--acceptance", type=float, metavar="IDS", help="ids that a step of seven guesses says; without, none are made"
    )
    parser.add_argument("--noise", type=float, nargs=2, default=(1.0, 1.0), metavar=("LOW", "HIGH"))
    parser.add_argument(
        "--limit", type=float, default=UTILISATION, help="utilisation that admission allows (%(default)s)"
    )
    parser.add_argument("--fleet", type=int, metavar="G", help="devices behind one balancer")
    parser.add_argument("--mtbf", type=float, help="mean seconds between failures of one device")
    parser.add_argument("--repair", type=float, default=15.0, help="seconds until a failed device serves again (15)")
    parser.add_argument("--retries", action="store_true", help="refused clients ask again after the hint")
    parser.add_argument("--table", type=lambda s: [float(each) for each in s.split(",")], metavar="RPS,RPS,...")
    parser.add_argument("--plot", type=Path, help="with --table: draw it into this file (needs the train extra)")
    parser.add_argument("--plan", action="store_true", help="devices for so many calls, as Markdown")
    parser.add_argument("--json", action="store_true", help="print one object")
    return parser


def policies() -> str:
    return "; ".join(f"{name}: {policy.what}" for name, policy in POLICIES.items())


def main() -> None:
    options = arguments().parse_args()
    profile = PROFILES[options.profile]
    if options.acceptance is not None:
        profile = guessing(profile, options.acceptance)
    if options.costs:
        profile = replace(profile, costs=CostModel.from_json(json.loads(options.costs.read_text())), source="measured")
    if options.plan:
        print(plan())
    elif options.table:
        rows = [simulate(options, profile, policy, rps) for policy in POLICIES for rps in options.table]
        print(json.dumps({"benchmark": "simulate", "rows": rows}) if options.json else table(rows))
        if options.plot:
            draw(rows, options.plot)
    else:
        result = simulate(options, profile, options.policy, options.rps)
        if options.json:
            print(json.dumps(result))
        else:
            print("\n".join(f"{name:17} {value}" for name, value in result.items()))


if __name__ == "__main__":
    sys.exit(main())
