"""Tables and a plot from the lines of a result set, put into docs/benchmarks.md between two marks.

Of each row the newest line counts. Every row names its run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.serving.plan import CLIENTS, RATES
from bench.serving.published import BARS, CLOSED, GRAPHS, OPEN, Point, newest

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- bench.serve: begin -->", "<!-- bench.serve: end -->"
PLOT = "images/serve.svg"

Lines = Mapping[str, Mapping[str, Any]]


def write(results: Path, keep: Callable[[Mapping[str, Any]], bool], docs: Path = DOCS) -> None:
    """Rewrite the part of `docs`/benchmarks.md between the marks, and the plot. Raises ValueError without lines or
    marks."""
    lines = (json.loads(line) for line in results.read_text().splitlines() if line.strip())
    told = [line for line in lines if keep(line)]
    if not told:
        raise ValueError(f"{results} has no line of this model, device and precision")
    page = docs / "benchmarks.md"
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} lacks {BEGIN} or {END}")
    plot(newest(told), docs / PLOT)
    page.write_text(f"{before}{BEGIN}\n{markdown(told)}\n{END}{after}")


def markdown(told: Sequence[Mapping[str, Any]]) -> str:
    """Everything between the marks."""
    lines = newest(told)
    parts = [about(lines), bars(told), f"![first packet and throughput]({PLOT})"]
    parts += [table for table in (closed(lines), opened(lines), others(lines), where(lines)) if table]
    return "\n\n".join(["", *parts, runs(lines), ""]).strip("\n")


def about(lines: Lines) -> str:
    line = next(iter(lines.values()))
    server, host = line["server"], line["host"]
    where = host["gpu"] or f"{host['cores']} cores"
    tokens = next((each["server"]["tokens"] for name, each in lines.items() if not name.startswith("tokens ")), None)
    draft = (
        "no draft" if tokens is None else f"a draft of the published shape, {tokens:g} ids a step by all its guesses"
    )
    return (
        f"{where} ({host['cpu']}, {host['cores']} cores), torch {host['torch']}; random weights of the "
        f"{'released' if server['model'] == 'full' else 'smallest'} sizes, {server['precision']}, {draft}. The "
        "published figures are of one H100, whose memory is slower than an H200's, and its host likely faster."
    )


def bars(told: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for bar in BARS:
        value = bar.value(told)
        verdict = "not measured" if value is None else "met" if bar.met(value) else "missed"
        limit = f"{'at most' if bar.at_most else 'at least'} {bar.bar:g}"
        rows.append([bar.what, bar.best, limit, _number(value), verdict])
    return _table(["", "published best (H100)", "to reach", "measured", ""], rows)


def closed(lines: Lines) -> str:
    names = list(CLOSED)
    header = ["Clients", "k = 21, ms p50 / p95 / p99", "RTFx", "ran dry", "k = 10, ms", "RTFx", "ran dry"]
    rows = []
    for clients in CLIENTS:
        ours = [cell for label in ("k21", "k10") for cell in _ours(lines.get(f"{label} c{clients}"))]
        if set(ours) == {"-"}:
            continue
        rows.append([str(clients), *ours, *(_theirs(CLOSED[name].get(clients)) for name in names)])
    alone, eight = GRAPHS[1], GRAPHS[8]
    note = (
        "Calls a client makes one after the other; published: ms p50 / p95, RTFx, share of calls that ran dry if any. "
        f"faster-cosyvoice with its CUDA graphs, which serve one call at a time: {alone.p50:g} / {alone.p95:g} alone, "
        f"{eight.p50:g} / {eight.p95:g} with 8."
    )
    return f"**Closed loop.** {note}\n\n{_table([*header, *names], rows)}" if rows else ""


def opened(lines: Lines) -> str:
    names = list(OPEN)
    header = ["Requests/s", "k = 21, ms p50 / p95 / p99", "RTFx", "ran dry", "k = 10, ms", "RTFx", "ran dry", "refused"]
    rows = []
    for rate in RATES:
        found = [lines.get(f"{label} open {rate}") for label in ("k21", "k10")]
        ours = [cell for line in found for cell in _ours(line)]
        if set(ours) == {"-"}:
            continue
        refused = " / ".join("-" if line is None else str(line["refused"]) for line in found)
        rows.append([str(rate), *ours, refused, *(_theirs(OPEN[name].get(rate)) for name in names)])
    note = "Calls come by chance, so many a second on average."
    return f"**Open loop.** {note}\n\n{_table([*header, *names], rows)}" if rows else ""


def others(lines: Lines) -> str:
    known = {f"{label} c{clients}" for label in ("k21", "k10") for clients in CLIENTS}
    known |= {f"{label} open {rate}" for label in ("k21", "k10") for rate in RATES}
    rows = [
        [name, *_ours(line), _number(line.get("segment_ratio"))] for name, line in lines.items() if name not in known
    ]
    header = ["Row", "ms p50 / p95 / p99", "RTFx", "ran dry", "tenth segment over first"]
    return (
        f"**Variations** (`python -m bench.serve --help` says what they are).\n\n{_table(header, rows)}" if rows else ""
    )


WHERE = {
    "to_first_tick": "to the first tick",
    "lm": "LM",
    "flow": "flow",
    "vocoder": "vocoder",
    "between": "between ticks",
    "to_client": "to the client",
    "lm_ticks": "ticks of the LM",
    "flow_ticks": "of the flow",
}


def where(lines: Lines) -> str:
    rows = [
        [name, *(_number(line["where_ms"][key]) for key in WHERE)]
        for name, line in lines.items()
        if line.get("where_ms")
    ]
    note = "Of the rows with one client, the medians of its parts in ms, and how many ticks there were."
    return f"**Where the first packet's time goes.** {note}\n\n{_table(['Row', *WHERE.values()], rows)}" if rows else ""


def runs(lines: Lines) -> str:
    """Which row comes from which run, what the processes and the card were busy with."""
    rows = []
    for name, line in lines.items():
        cpu, stages = line["cpu"], line["stages"]
        memory = line["gpu_mib"]
        rows.append(
            [
                name,
                f"{line['run']}, {line['host']['commit']}",
                f"{line['warm_up']:g} + {line['seconds']:g} s",
                str(line["calls"]),
                _number(line["server"]["tokens"] or 1.0),
                " / ".join(f"{cpu[each]:.2f}" for each in ("service", "engine", "drivers")),
                " / ".join(f"{100 * stage['busy']:.0f}" for stage in stages.values()),
                "-" if memory is None else f"{memory['peak'] / 1024:.1f}",
            ]
        )
    header = ["Row", "run", "time", "calls", "ids a step", "cores: service / engine / drivers"]
    header += ["% of the time in ticks of LM / flow / vocoder", "GPU memory, GiB"]
    summary = "<details><summary>Runs, and what they took</summary>"
    return f"{summary}\n\n{_table(header, rows)}\n\n</details>"


def _ours(line: Mapping[str, Any] | None) -> list[str]:
    if line is None:
        return ["-"] * 3
    dry = f"{100 * line['underruns']['calls'] / line['calls']:.1f} %" if line["underruns"]["calls"] else "0"
    ttfp = " / ".join(_number(line["ttfp_ms"][name]) for name in ("p50", "p95", "p99"))
    return [ttfp, _number(line["rtfx"]), dry]


def _theirs(point: Point | None) -> str:
    if point is None:
        return "-"
    rtfx = "" if point.rtfx is None else f", {point.rtfx:g}x"
    return f"{point.p50:g} / {point.p95:g}{rtfx}" + (f", {100 * point.dry:.0f} %" if point.dry else "")


def _number(value: float | None) -> str:
    if value is None or value == int(value) or value >= 100:
        return "-" if value is None else f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plot(lines: Lines, path: Path) -> None:
    """First packet by load, closed and open, and throughput: ours in colour, the published ones in grey."""
    import matplotlib

    matplotlib.use("svg")
    # The same numbers give the same file, and text stays text.
    matplotlib.rcParams.update({"svg.hashsalt": "oscine", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, (first, throughput, chance) = pyplot.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    ours = {"k21": ("#c2410c", "o", "this, k = 21"), "k10": ("#0369a1", "s", "this, k = 10")}
    greys = {
        name: (f"{0.25 + 0.22 * place:.2f}", mark) for place, (name, mark) in enumerate(zip(CLOSED, "^vD", strict=True))
    }
    for axes, value in ((first, lambda line: line["ttfp_ms"]["p95"]), (throughput, lambda line: line["rtfx"])):
        for label, (colour, mark, name) in ours.items():
            _draw(
                axes,
                {c: value(lines[f"{label} c{c}"]) for c in CLIENTS if f"{label} c{c}" in lines},
                colour,
                mark,
                name,
            )
    for label, (colour, mark, name) in ours.items():
        points = {r: lines[f"{label} open {r}"]["ttfp_ms"]["p95"] for r in RATES if f"{label} open {r}" in lines}
        _draw(chance, points, colour, mark, name)
    for name, (grey, mark) in greys.items():
        _draw(first, {c: point.p95 for c, point in CLOSED[name].items()}, grey, mark, name)
        _draw(throughput, {c: point.rtfx for c, point in CLOSED[name].items()}, grey, mark, name)
        _draw(chance, {r: point.p95 for r, point in OPEN[name].items()}, grey, mark, name)
    for axes, title, x in (
        (first, "first packet, p95, ms", "clients"),
        (throughput, "seconds of audio a second", "clients"),
        (chance, "first packet, p95, ms", "requests a second"),
    ):
        axes.set(title=title, xlabel=x, xscale="log", yscale="log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.25)
    figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _draw(axes: Any, points: Mapping[float, float | None], colour: str, mark: str, label: str) -> None:
    known = {x: y for x, y in points.items() if y}
    if known:
        axes.plot(
            list(known), list(known.values()), color=colour, marker=mark, markersize=4, linewidth=1.4, label=label
        )
