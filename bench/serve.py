"""How fast is the whole service at full size? python -m bench.serve [--quick] [--rows PATTERN,...] [--out FILE]

Starts the service with random weights of the released sizes (`--model tiny`: very small ones), as `oscine serve` would:
a service process and an engine process. Clients in processes of their own call it over loopback gRPC. There is a list
of rows (`--list`), of which `--rows` takes some, by names or patterns; those of one server are measured with one start.
Each row is warmed up for `--warm-up` seconds, measured for `--seconds`, and appended to FILE as a line of JSON.

Measured as the published figures are: a client sends the whole text in one message, and the first packet counts from
the sending of that message to the first audio bytes at the client, PCM unless the row says otherwise. Texts are as long
as those of Seed-TTS English (4.4 s of speech on average, lengths forced), the voice is a registered one of 97 speech
tokens, cut so that the first chunk of k new ids ends on the model's grid: k = 21 gives 760 ms in the first packet, k =
10 gives 320. Closed loop (c8): so many clients, each of which calls again when it has heard all. Open loop (open 30):
calls come by chance, so many a second on average, whether others have ended or not. Admission is by number alone. What
random weights say is meaningless; what it costs is not. With a draft, only the decision how many of its ids are taken
is drawn; drafting, verification and sampling are done in full.

Rows beside those: `opus`; `fed` (interleaved, 50 text ids a second, a message each; the first packet counts from the
last word that it needs); `long` (texts of ten sentences of 8 s); `tokens` (ids a step, 1.0 without a draft); `cold` (a
voice of 5 s that nobody has spoken in); `64 voices`; `26 ids` (waits for as many as the best published service must);
`without` (a part switched off: see bench/serving/plan.py).

`--engines N` measures other rows: one engine under `--clients` and under `--rate`, and all N under N times as much,
with one start. On a GPU each engine has one of its own (cuda:0, cuda:1 ...), on a CPU they share it.

Keys of a line of FILE:

* `benchmark`, `row`, `run` (when the command began), `host` (as in first_packet, with `gpu`), `server`, `load` (see
  bench/serving/plan.py), `load_s`: from the start of the service to its being ready, `seconds`, `warm_up`;
* `calls` whose text was sent while it was measured, of which `refused` by admission and `failed` with `errors`;
* `rps`: calls that ended, a second; `rtfx`: seconds of audio that arrived, a second;
* `ttfp_ms` `p50` `p95` `p99` `max`: as above; `request_ms`: the same from before the call was made, which adds the
  opening of a session; `end_to_end_ms`: until the last audio; `from_first_text_ms` (fed): from the first word;
* `first_chunk_ms`: audio that came with the first packet; `audio_s`: of a call;
* `underruns`: `calls` that had any, `count`, `ms` in all, `longest_ms`, of a player that collects nothing beforehand;
* `cpu`: cores' worth of CPU time of `service`, `engine` (all of them) and `drivers`;
* `over` (several engines): the `row` of one engine, and this row's `rtfx` over that one's; `shares`: of all speech ids,
  what each engine said. `stages` are then means over the engines, `gpu_mib` the most that one of them has;
* `stages`, of lm, flow and vocoder: `busy` (share of the time in its ticks), `cpu` (the same in CPU time of the loop's
  thread), `ticks`, `rows` (streams a tick), `ms` `p50` `p95`: of a tick, as the host sees it;
* `where_ms`, with one client, medians: from the text's sending `to_first_tick`, in ticks of `lm`, `flow`, `vocoder`,
  `between` those, `to_client` from the vocoder's end; `lm_ticks`, `flow_ticks`: how many until the first packet;
* `segment_ratio` (long): time in ticks of a whole chunk of the tenth sentence over one in the same place of the first;
* `ids_a_row`: speech ids of all segments that sounded, over rows in ticks of the language model: with a draft, about
  what it says in a step;
* `context_mb`: memory of a second of flow context; `gpu_mib`: of the engine process `allocated`, `reserved`, `peak`;
  `used`: of the whole card.

`--report` measures nothing: it writes the tables and the plot of docs/benchmarks.md from the newest lines of FILE, of
the given model, device, precision and ids a step, beside the published figures.
The exit status is 1 if calls failed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.figures import host
from bench.served import ServerFailed
from bench.serving import plan
from bench.serving.measure import measure
from bench.serving.plan import Row, Server
from bench.serving.service import service

OUT = Path(__file__).parent / "results" / "serve.jsonl"
MARGIN_S = 10.0
"""What a row takes besides its seconds, at most, as long as the service keeps up."""


def chosen(rows: Sequence[Row], patterns: Sequence[str]) -> list[Row]:
    """Rows that one of `patterns` names, in the order of `rows`. Raises ValueError for a pattern that names none."""
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(row.name, pattern) for row in rows):
            raise ValueError(f"no row is called {pattern!r}: see --list")
    return [row for row in rows if any(fnmatch.fnmatchcase(row.name, pattern) for pattern in patterns)]


def measured(
    rows: Sequence[Row], seconds: tuple[float, float], until: float, commit: str | None = None
) -> Iterator[dict[str, Any]]:
    """A line for each row that can be measured before `until` (monotonic clock)."""
    run = datetime.now(UTC).isoformat(timespec="seconds")
    machine = host() | ({"commit": commit} if commit else {})
    about = {"benchmark": "serve", "run": run, "host": {**machine, "gpu": _gpu(rows[0].server.device)}}
    for server in dict.fromkeys(row.server for row in rows):
        group = [row for row in rows if row.server == server]
        with tempfile.TemporaryDirectory(prefix="oscine-serve-") as folder:
            stats = [Path(folder) / f"stats{number}.jsonl" for number in range(server.engines)]
            rtfx: dict[str, float] = {}
            with service(server, stats) as running:
                print(f"the service is ready after {running.load_s:.1f} s", file=sys.stderr, flush=True)
                for row in group:
                    if time.monotonic() + sum(seconds) + MARGIN_S > until:
                        print(f"{row.name}: left out, for there is no time", file=sys.stderr, flush=True)
                        continue
                    line = {
                        **about,
                        "row": row.name,
                        "server": asdict(server),
                        "load": asdict(row.load),
                        "load_s": running.load_s,
                        "warm_up": seconds[0],
                        **measure(running, stats, server, row.load, seconds),
                    }
                    rtfx[row.name] = line["rtfx"]
                    if row.over is not None:
                        less = rtfx.get(row.over)
                        line["over"] = {"row": row.over, "rtfx": round(line["rtfx"] / less, 3) if less else None}
                    yield line


def _gpu(device: str) -> str | None:
    if not device.startswith("cuda"):
        return None
    import torch

    return torch.cuda.get_device_name(device)


HEADER = f"{'row':16}  {'ttfp ms p50/p95/p99':>22}    rps   rtfx  calls  underruns    e2e p95  failed  busy lm/flow/voc"


def shown(line: dict[str, Any]) -> str:
    """One line for people, under HEADER."""

    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f}"

    ttfp = " / ".join(number(line["ttfp_ms"][name]) for name in ("p50", "p95", "p99"))
    dry, busy = line["underruns"], "/".join(f"{stage['busy']:.2f}" for stage in line["stages"].values())
    over = f"  {line['over']['rtfx']} times {line['over']['row']}" if "over" in line else ""
    return (
        f"{line['row']:16}  {ttfp:>22}  {line['rps']:5.2f}  {line['rtfx']:5.1f}  {line['calls']:5}  "
        f"{dry['calls']:3} ({dry['ms']:.0f} ms)  {number(line['end_to_end_ms']['p95']):>7}  "
        f"{line['failed'] + line['refused']:6}  {busy}{over}"
    )


def report(results: Path, base: Server) -> None:
    """Write what the lines of `base`'s model, device and precision say."""
    from bench.serving.report import write

    def of_base(line: Mapping[str, Any]) -> bool:
        server = line["server"]
        alike = all(server[name] == getattr(base, name) for name in ("model", "device", "precision"))
        return alike and (server["tokens"] == base.tokens or line["row"].startswith("tokens "))

    try:
        write(results, of_base)
    except (OSError, ValueError) as error:
        raise SystemExit(f"bench.serve: {error}") from error


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["full", "tiny"], default="full", help="sizes (default %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default %(default)s)")
    parser.add_argument("--precision", choices=["float32", "float16", "bfloat16"], default="float32")
    parser.add_argument("--rows", default="*", metavar="PATTERN,...", help="which rows (default: all)")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(plan.QUICK)}")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--warm-up", type=float, default=15.0, metavar="S", help="of a row (default %(default)g)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="of a row (default %(default)g)")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="S", help="leave out rows that end later")
    parser.add_argument(
        "--tokens",
        type=float,
        default=plan.PUBLISHED_TOKENS,
        metavar="T",
        help="ids a step of the language model on average; 1 is without a draft (default %(default)g)",
    )
    parser.add_argument("--max-streams", type=int, default=64, help="of an engine (default %(default)s)")
    parser.add_argument("--engines", type=int, default=1, metavar="N", help="one engine against N: rows of their own")
    parser.add_argument(
        "--clients", type=int, default=plan.CLIENTS_AN_ENGINE, help="of an engine of N (default %(default)s)"
    )
    parser.add_argument(
        "--rate", type=float, default=plan.RATE_AN_ENGINE, help="requests/s of an engine of N (default %(default)g)"
    )
    parser.add_argument("--commit", metavar="ID", help="of this code, where git cannot tell")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help="appended to (default %(default)s)")
    parser.add_argument("--report", action="store_true", help="write tables and plot from FILE, measure nothing")
    parser.add_argument("--json", action="store_true", help="print the lines as they are written")
    options = parser.parse_args()
    until = time.monotonic() + options.budget
    tokens = None if options.tokens == 1.0 else options.tokens
    if min(options.engines, options.clients) < 1 or options.rate <= 0:
        parser.error("--engines and --clients count from 1, --rate from above 0")
    base = Server(
        options.model,
        options.device,
        options.precision,
        tokens=tokens,
        max_streams=options.max_streams,
        engines=options.engines,
    )
    if options.report:
        report(options.out, base)
        return
    try:
        several = plan.rows_of_several(base, options.clients, options.rate)
        rows = chosen(
            list(plan.rows(base) if base.engines == 1 else several),
            plan.QUICK if options.quick else options.rows.split(","),
        )
    except ValueError as error:
        parser.error(str(error))
    if options.list:
        print("\n".join(row.name for row in rows))
        return
    if options.seconds <= 0 or options.warm_up < 0:
        parser.error("--seconds counts from above 0, --warm-up from 0")
    failed = 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not options.json:
        print(HEADER, flush=True)
    try:
        for line in measured(rows, (options.warm_up, options.seconds), until, options.commit):
            with options.out.open("a") as file:
                print(json.dumps(line), file=file)
            print(json.dumps(line) if options.json else shown(line), flush=True)
            for message in line["errors"]:
                print(f"{line['row']}: {message}", file=sys.stderr)
            failed += line["failed"]
    except (OSError, ServerFailed) as error:
        raise SystemExit(f"bench.serve: {error}") from error
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
