"""Curves of a run: python -m training.plots WORK OUT_DIR [--prefix run1-] draws one PNG for each stage's tables.

A panel a column over seconds of training. Where train.csv and valid.csv have a column of the same name, dots are those
of validation.
"""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path

import matplotlib
from PIL import Image

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HIDDEN = {"step", "steps", "seconds", "lr"}
LONG = 50
"""Longer curves are drawn smoothed, too."""

Curve = tuple[list[float], list[float]]


def curves(path: Path) -> dict[str, Curve]:
    """Seconds and values of each column of a csv, without its empty cells; no column that is empty throughout."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as source:
        rows = list(csv.DictReader(source))
    found: dict[str, Curve] = {}
    for name in rows[0].keys() - HIDDEN if rows else ():
        points = [(float(row["seconds"]), float(row[name])) for row in rows if row[name]]
        if points:
            found[name] = ([x for x, _ in points], [y for _, y in points])
    order = list(rows[0]) if rows else []
    return dict(sorted(found.items(), key=lambda item: order.index(item[0])))


def smooth(values: list[float], weight: float = 0.9) -> list[float]:
    """Running average that starts at the first value."""
    out: list[float] = []
    for value in values:
        out.append(weight * out[-1] + (1 - weight) * value if out else value)
    return out


def plot(folder: Path, out: Path) -> bool:
    """Draw the tables of one stage's folder into the file `out`; false where there are none."""
    lines = curves(folder / "train.csv") | curves(folder / "log.csv")
    dots = curves(folder / "valid.csv")
    names = list(dict.fromkeys([*lines, *dots]))
    if not names:
        return False
    wide = min(4, len(names))
    high = -(-len(names) // wide)
    figure, axes = plt.subplots(high, wide, figsize=(2.8 * wide, 1.9 * high), squeeze=False, layout="constrained")
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for axis, name in zip(axes.flat, names, strict=False):
        if name in lines:
            x, y = lines[name]
            axis.plot(x, y, linewidth=0.5, alpha=0.4, color="C0")
            axis.plot(x, smooth(y) if len(x) > LONG else y, linewidth=1.1, color="C0")
        if name in dots:
            axis.plot(*dots[name], "o-", markersize=2, linewidth=0.8, color="C1")
        axis.set_title(name, fontsize=8)
        axis.tick_params(labelsize=6)
        axis.grid(alpha=0.3)
    figure.suptitle(f"{folder.name}, over seconds of training", fontsize=9)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=80)
    plt.close(figure)
    # Sixteen colours are enough and take a quarter of the room.
    Image.open(drawn).convert("RGB").quantize(16).save(out, optimize=True)
    return True


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--prefix", default="", help="begins the names of the files")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    drawn = [f.name for f in sorted(a.work.iterdir()) if f.is_dir() and plot(f, a.out / f"{a.prefix}{f.name}.png")]
    if not drawn:
        raise SystemExit(f"no tables of losses in {a.work}: is it the folder that training.run was given as --work?")
    print(*drawn)


if __name__ == "__main__":
    main()
