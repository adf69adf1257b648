"""Curves of a run: python -m training.plots WORK OUT_DIR writes one PNG for each loss table."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

X, HIDDEN = "seconds", {"step", "steps", "seconds", "lr"}


def table(path: Path) -> dict[str, list[float]]:
    """Columns of a csv."""
    with path.open(encoding="utf-8") as source:
        rows = list(csv.DictReader(source))
    return {name: [float(row[name]) for row in rows] for name in (rows[0] if rows else ())}


def smooth(values: list[float], weight: float = 0.9) -> list[float]:
    """Running average that starts at the first value."""
    out: list[float] = []
    for value in values:
        out.append(weight * out[-1] + (1 - weight) * value if out else value)
    return out


def plot(path: Path, out: Path) -> None:
    """One panel a column, over training seconds (or steps where there are none)."""
    columns = table(path)
    names = [n for n in columns if n not in HIDDEN]
    x = columns.get(X) or columns.get("step")
    if not names or x is None:
        return
    wide = min(3, len(names))
    high = -(-len(names) // wide)
    figure, axes = plt.subplots(high, wide, figsize=(4.2 * wide, 2.6 * high), squeeze=False, layout="constrained")
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for axis, name in zip(axes.flat, names, strict=False):
        axis.plot(x, columns[name], linewidth=0.5, alpha=0.4)
        axis.plot(x, smooth(columns[name]) if len(x) > 50 else columns[name], linewidth=1.2)
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
    figure.supxlabel("seconds of training", fontsize=8)
    figure.savefig(out, dpi=90)
    plt.close(figure)


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(a.work.glob("*/*.csv")):
        plot(path, a.out / f"{path.parent.name}-{path.stem}.png")


if __name__ == "__main__":
    main()
