"""What a simulation comes to, in numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import percentile
from bench.simulation.fleet import Outcome


def summary(outcome: Outcome, devices: int) -> dict[str, Any]:
    """The keys that `python -m bench.simulate --help` explains."""
    heard = outcome.heard
    waits = [each.first_packet_s for each in heard if each.first_packet_s is not None]
    figures: dict[str, Any] = {"utterances": len(heard)}
    for percent in (50, 95, 99):
        wait = percentile(waits, percent)
        figures[f"ttfp_p{percent}_ms"] = None if wait is None else round(1000 * wait, 1)
    figures |= {
        "ttfp_max_ms": round(1000 * max(waits), 1) if waits else None,
        "underruns": sum(each.underruns for each in heard),
        "underrun_s": round(sum(each.underrun_s for each in heard), 3),
        "underrun_streams": sum(each.underruns > 0 for each in heard),
        "starved": sum(each.starved for each in heard),
        "refused": sum(each.refused for each in heard),
        "unserved": sum(each.done_at is None for each in heard),
        "broken": sum(each.broken for each in heard),
        "failures": outcome.failures,
        "utilisation": round(outcome.busy_s / (devices * outcome.elapsed_s), 3) if outcome.elapsed_s else 0.0,
        "most_open": outcome.most_open,
    }
    return figures


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row for each policy and load."""
    lines = [
        "| Policy | Requests/s | First packet p50 / p95 / p99 | Streams with underruns | Refused |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        waits = " / ".join(_milliseconds(row[f"ttfp_p{percent}_ms"]) for percent in (50, 95, 99))
        dry = f"{row['underrun_streams']} of {row['utterances']}" if row["underrun_streams"] else "0"
        lines.append(f"| {row['policy']} | {row['rps']:g} | {waits} ms | {dry} | {row['refused']} |")
    return "\n".join(lines)


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """First packets and streams with underruns over the load, a line for each policy."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "oscine"
    from matplotlib import pyplot

    figure, (waits, dry) = pyplot.subplots(1, 2, figsize=(10, 4))
    for policy in dict.fromkeys(row["policy"] for row in rows):
        mine = [row for row in rows if row["policy"] == policy]
        loads = [row["rps"] for row in mine]
        style = {"marker": "o", "markersize": 3, "linewidth": 2 if policy == "oscine" else 1, "label": policy}
        waits.plot(loads, [row["ttfp_p95_ms"] for row in mine], **style)
        dry.plot(loads, [100 * row["underrun_streams"] / row["utterances"] for row in mine], **style)
    waits.set(xlabel="requests a second", ylabel="first packet p95, ms", yscale="log")
    dry.set(xlabel="requests a second", ylabel="streams with underruns, %")
    for axes in (waits, dry):
        axes.grid(alpha=0.3)
    waits.legend(fontsize=8)
    figure.suptitle(f"Simulated {rows[0]['profile']}, utterances of 4.4 s")
    figure.tight_layout()
    # With neither a date nor random names, the same figures give the same file.
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
