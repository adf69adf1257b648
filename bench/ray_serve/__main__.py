"""Units as replicas of Ray Serve: python -m bench ray_serve [--ingress proxy|haproxy] [--only PART...] [--json]

A Ray of its own with two replicas, in a network namespace of its own (so that nobody else reaches what Ray opens on all
addresses; needs `unshare` and the right to use it), in the environment of `make fleet`. Replicas speak recordings, each
another one, and clients know every sample of them; those of the part `spoken` have engines of their own.

--ingress: what calls come through: `proxy`, Ray's own, or `haproxy`, which has calls go straight to the replicas.

Keys of the printed object:

* `benchmark`, `host`, `ingress`, `ray`: its version;
* `alone`: `straight_ms` and `through_ms`: the first packets of --calls calls one after the other at a unit and through
  Ray, by door; `failed`: by how those ended that did not end well;
* `crowded`: `shares` of --clients calls at once that the two replicas had; `undisturbed`: failures of those before
  anything happened; `drained`: another deployment took the place of both: calls that they were `speaking`
  then or took later, how many were `lost`, what new ones waited (`landing_s`); `killed`: the process of a replica was
  killed: what its calls were `told`, how many in a way that says to call `again`, and when two were there again;
  `split`: calls that heard two replicas;
* `scaled`: seconds until there were two replicas for the streams of one that is full, and one again without any;
* `spoken`: whether two replicas say the `same`; how a bad request, a call when all are `full`, and calls whose engines
  were killed are refused; seconds until cancelled calls' places were free.

The exit status is 1 if something was lost that is not to be.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distributions
from typing import Any

from bench.figures import host, outcome
from tests.fleet.environments import KEPT, MISSING, ROOT, program

PARTS = ("alone", "crowded", "scaled", "spoken")
LONGEST_S = 1200.0
IN_A_NETWORK = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def measure(ingress: str, parts: list[str], clients: int, seconds: float, calls: int) -> dict[str, Any]:
    """Raises FileNotFoundError without Ray's environment, and CalledProcessError."""
    python = program("ray")
    if not python.exists():
        raise FileNotFoundError(f"the environment of Ray {MISSING}")
    plan = {"parts": parts, "clients": clients, "seconds": seconds, "calls": calls}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    # For machines that are busy otherwise.
    environment |= {"RAY_raylet_start_wait_time_s": "300", "RAY_worker_register_timeout_seconds": "300"}
    environment["RAY_SERVE_ENABLE_HA_PROXY"] = str(int(ingress == "haproxy"))
    with tempfile.NamedTemporaryFile("r") as told:
        command = [*IN_A_NETWORK, str(python), "-m", "bench.ray_serve.inside", told.name]
        subprocess.run(command, input=json.dumps(plan), text=True, check=True, env=environment, timeout=LONGEST_S)
        found = json.load(told)
    return {"benchmark": "ray_serve", "host": host(), "ingress": ingress, "ray": _version(), **found}


def _version() -> str:
    found: list[Distribution] = list(
        distributions(name="ray", path=[str(p) for p in KEPT.glob("ray/lib/*/site-packages")])
    )
    return found[0].version


def faults(result: dict[str, Any]) -> list[str]:
    """What is not as it must be."""
    found = []
    for part in ("straight_ms", "through_ms"):
        found += [f"{part}: {door}: {told['failed']}" for door, told in result.get(part, {}).items() if told["failed"]]
    if "drained" in result:
        found += [f"undisturbed calls failed: {told}"] if (told := result["undisturbed"]["failed"]) else []
        found += [f"the replicas that went lost {told}"] if (told := result["drained"]["lost"]) else []
        found += (
            [f"calls of the other replica were lost: {told}"] if (told := result["killed"]["untouched"]["lost"]) else []
        )
        found += [f"{result['split']} calls heard two replicas"] if result["split"] else []
    if "scaled" in result and result["scaled"]["failed"]:
        found.append(f"calls failed while replicas were added: {result['scaled']['failed']}")
    if "spoken" in result and not result["spoken"]["same"]["equal"]:
        found.append("two replicas say the same text with the same seed differently")
    return found


def show(result: dict[str, Any]) -> None:
    for name, value in result.items():
        print(f"{name:14} {json.dumps(value)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ingress", choices=("proxy", "haproxy"), default="proxy")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each call")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.ingress, options.only, options.clients, options.seconds, options.calls)
    return outcome(result, faults(result), None if options.json else show)


if __name__ == "__main__":
    sys.exit(main())
