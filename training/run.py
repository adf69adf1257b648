"""The whole recipe, from corpus to weights, within a number of minutes and on one or two GPUs.

    python -m training.run --data DATA --work WORK --minutes 22 --gpus 2 --mix 12 15

Stages are processes of their own with a log each in WORK/logs. One that fails is started again once, from its own
checkpoint; if it fails again the stages that need it are left out and the others go on. Stages that ended are not run
again, so the same command continues an interrupted run. WORK/status.json tells where each stands.

    prepare -> hift ---------------------------------> hift_tuned      on the last GPU
            -> tokenizer -> align -> lm                                on the first
                         -> flow ---------> flow_mels -> (hift_tuned)  on the first

Without word boundaries the language model has nothing to splice and trains all the same, so it only waits for align.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TRIES = 2
START_S = 20.0
"""What a process needs before its training clock starts: imports, loading, first steps."""


@dataclass(frozen=True, slots=True)
class Job:
    """One stage. It starts when those of `after` ended well and those of `awaits` ended, well or not. `seconds` gives
    its training time from the seconds left, or None where it takes what it takes."""

    name: str
    module: str
    arguments: tuple[str, ...]
    gpu: int
    after: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()
    seconds: Callable[[float], float] | None = None


def recipe(
    data: Path,
    work: Path,
    gpus: int,
    total_s: float,
    mix: tuple[str, str],
    prepare: tuple[str, ...],
    hift: tuple[str, ...] = (),
) -> list[Job]:
    """The stages of a run of `total_s` seconds; `prepare` and `hift` are more arguments of those."""
    first, last = 0, gpus - 1
    tail = max(30.0, 0.13 * total_s)
    until_tail: Callable[[float], float] = lambda left: left - tail - START_S  # noqa: E731
    share: Callable[[float], Callable[[float], float]] = lambda part: lambda left: part * total_s  # noqa: E731
    w = str(work)
    tune = ("--from-mels", f"{w}/flow_mels.npy", "--start", f"{w}/hift/state.pt")
    return [
        Job("prepare", "training.data", (str(data), w, *prepare), first),
        Job("hift", "training.hift.train", (w, f"{w}/hift", *hift), last, ("prepare",), seconds=until_tail),
        Job("tokenizer", "training.tokenizer", (w,), first, ("prepare",), seconds=share(0.22)),
        Job("align", "training.align", (w,), first, ("tokenizer",), seconds=share(0.05)),
        Job("lm", "training.lm", (w, "--mix", *mix, "--weight", "zh=2"), first, ("tokenizer",), ("align",), until_tail),
        Job("flow", "training.flow", (w,), first, ("tokenizer",), seconds=until_tail),
        Job("flow_mels", "training.flow_mels", (w, f"{w}/flow_mels.npy"), first, ("flow",)),
        Job(
            "hift_tuned",
            "training.hift.train",
            (w, f"{w}/hift_tuned", *tune),
            last,
            ("hift", "flow_mels"),
            seconds=lambda left: left - START_S,
        ),
    ]


def leave_out(jobs: list[Job], names: set[str]) -> list[Job]:
    """The jobs but for `names` and all that need one of them. Raises ValueError for a name that is none of theirs."""
    if unknown := names - {job.name for job in jobs}:
        raise ValueError(
            f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(job.name for job in jobs)}"
        )
    kept: list[Job] = []
    gone = set(names)
    for job in jobs:
        if gone.isdisjoint((job.name, *job.after)):
            kept.append(job)
        else:
            gone.add(job.name)
    return kept


class Runner:
    """Starts jobs when what they need has ended well, and keeps their state."""

    def __init__(self, jobs: list[Job], work: Path, total_s: float) -> None:
        self.jobs, self.work, self.total_s = jobs, work, total_s
        self.began = time.monotonic()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.tries = dict.fromkeys((j.name for j in jobs), 0)
        self.state = dict.fromkeys((j.name for j in jobs), "waiting")
        for job in jobs:
            if self._mark(job).exists():
                self.state[job.name] = "done"
        (work / "logs").mkdir(parents=True, exist_ok=True)

    def _mark(self, job: Job) -> Path:
        return self.work / "logs" / f"{job.name}.done"

    def run(self) -> bool:
        """Until nothing more can run; true if all ended well."""
        while True:
            for job in self.jobs:
                self._advance(job)
            self._report()
            if not self.running and not any(s == "waiting" for s in self.state.values()):
                return all(s == "done" for s in self.state.values())
            time.sleep(0.5)

    def _advance(self, job: Job) -> None:
        state = self.state[job.name]
        if state == "running":
            code = self.running[job.name].poll()
            if code is None:
                return
            del self.running[job.name]
            if code == 0:
                self._mark(job).touch()
                state = "done"
            else:
                state = "waiting" if self.tries[job.name] < TRIES else "failed"
            print(f"{self._clock()} {job.name} ended with status {code}: {state}", flush=True)
        elif state == "waiting":
            needs = [self.state[name] for name in job.after]
            if any(s in ("failed", "left out") for s in needs):
                state = "left out"
                print(f"{self._clock()} {job.name} is left out: it needs {', '.join(job.after)}", flush=True)
            elif all(s == "done" for s in needs) and not any(self._busy(name) for name in job.awaits):
                state = self._start(job)
        self.state[job.name] = state

    def _busy(self, name: str) -> bool:
        return self.state.get(name) in ("waiting", "running")

    def _start(self, job: Job) -> str:
        arguments = list(job.arguments)
        if job.seconds is not None:
            seconds = job.seconds(self.total_s - (time.monotonic() - self.began))
            if seconds < 5:
                print(f"{self._clock()} {job.name} is left out: no time is left for it", flush=True)
                return "left out"
            arguments += ["--seconds", f"{seconds:.0f}"]
        self.tries[job.name] += 1
        log = self.work / "logs" / f"{job.name}.log"
        with log.open("ab") as out:
            self.running[job.name] = subprocess.Popen(
                [sys.executable, "-m", job.module, *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": str(job.gpu), "PYTHONUNBUFFERED": "1"},
            )
        print(f"{self._clock()} {job.name} started on GPU {job.gpu}: {' '.join(arguments)}", flush=True)
        return "running"

    def _clock(self) -> str:
        return f"[{time.monotonic() - self.began:5.0f} s]"

    def _report(self) -> None:
        partial = self.work / "status.part"
        partial.write_text(json.dumps({"seconds": round(time.monotonic() - self.began), **self.state}))
        partial.rename(self.work / "status.json")


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True, help="for everything, preparing included")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--mix", nargs=2, required=True, metavar=("TEXT", "SPEECH"), help="interleaved block")
    parser.add_argument("--held-out", type=Path, help="folder of sentences that must not be trained on")
    parser.add_argument("--limit", help="take only the first clips, to try everything in two minutes")
    parser.add_argument("--hift-start", type=Path, help="state.pt or hift.safetensors that the vocoder begins from")
    parser.add_argument("--without", nargs="*", default=[], help="stages to leave out")
    a = parser.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    prepare = [*(("--held-out", str(a.held_out)) if a.held_out else ()), *(("--limit", a.limit) if a.limit else ())]
    hift = ("--start", str(a.hift_start), "--lr-scale", "1") if a.hift_start else ()
    jobs = recipe(a.data, a.work, a.gpus, a.minutes * 60, tuple(a.mix), tuple(prepare), hift)
    try:
        kept = leave_out(jobs, set(a.without))
    except ValueError as error:
        parser.error(str(error))
    sys.exit(0 if Runner(kept, a.work, a.minutes * 60).run() else 1)


if __name__ == "__main__":
    main()
