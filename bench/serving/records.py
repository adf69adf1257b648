"""What the engine process noted of its ticks and chunks, and what that says of a stretch of time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.figures import ranks

FIELDS = 6
CHUNK = 3
"""Kind of a chunk's record; below it are the stages' ticks."""
STAGES = ("lm", "flow", "vocoder")
Records = NDArray[np.float64]
"""[n, FIELDS]: kind, when it began, seconds; of a tick then streams, CPU seconds and 0; of a chunk its segment, its
place in it and its frames."""


def ticks_of(stats: Path) -> Path:
    """The file of records beside `stats`."""
    return stats.with_suffix(".ticks")


def read(stats: Path) -> Records:
    whole = np.fromfile(ticks_of(stats))
    return whole[: whole.size // FIELDS * FIELDS].reshape(-1, FIELDS)


def state(stats: Path, moment: float) -> dict[str, Any]:
    """The line that was written nearest to `moment`."""
    lines = [json.loads(line) for line in stats.read_text().splitlines() if line.endswith("}")]
    nearest: dict[str, Any] = min(lines, key=lambda line: abs(line["at"] - moment))
    return nearest


def between(records: Records, start: float, end: float) -> Records:
    return records[(records[:, 1] >= start) & (records[:, 1] < end)]


def stages(records: Records, start: float, end: float, engines: int = 1) -> dict[str, Any]:
    """Of each stage how much of the time its ticks took, how many they were, for how many streams, how long each.

    With the records of several engines shares of the time are means over them.
    """
    seconds = engines * (end - start)
    found = {}
    for kind, name in enumerate(STAGES):
        ticks = between(records[records[:, 0] == kind], start, end)
        wall = ticks[:, 2]
        found[name] = {
            "busy": round(float(wall.sum()) / seconds, 3),
            "cpu": round(float(ticks[:, 4].sum()) / seconds, 3),
            "ticks": len(ticks),
            "rows": round(float(ticks[:, 3].mean()), 2) if len(ticks) else None,
            "ms": ranks(wall.tolist(), 50, 95, scale=1000, digits=3),
        }
    return found


def ids_a_row(stats: Sequence[Path], records: Sequence[Records], start: float, end: float) -> float | None:
    """Speech ids that were said, over rows in ticks of the language model. None if there were no such ticks.

    stats and records: of each engine.
    """
    ids = rows = 0.0
    for path, noted in zip(stats, records, strict=True):
        first, last = state(path, start), state(path, end)
        ids += last["ids"] - first["ids"]
        rows += float(between(noted[noted[:, 0] == 0], first["at"], last["at"])[:, 3].sum())
    return round(ids / rows, 2) if rows else None


def shares(stats: Sequence[Path], start: float, end: float) -> list[float] | None:
    """Of all speech ids that were said, what each engine said. None if there were none."""
    said = [state(path, end)["ids"] - state(path, start)["ids"] for path in stats]
    return [round(ids / sum(said), 3) for ids in said] if sum(said) else None


def where_time_goes(records: Records, calls: Sequence[tuple[float, float]]) -> dict[str, Any] | None:
    """Medians over calls (text sent, first packet there) that had the engine to themselves, in milliseconds.

    `to_first_tick`, then in ticks of `lm`, `flow` and `vocoder`, `between` those ticks, and `to_client` from the end of
    the vocoder's; `lm_ticks`, `flow_ticks`: how many. None without calls.
    """
    parts: list[dict[str, float]] = []
    for sent, heard in calls:
        ticks = between(records[records[:, 0] < CHUNK], sent, heard)
        sounded = np.flatnonzero(ticks[:, 0] == STAGES.index("vocoder"))
        if not len(sounded):
            continue
        ticks = ticks[: sounded[0] + 1]
        ends = ticks[:, 1] + ticks[:, 2]
        part = {name: 1000 * float(ticks[ticks[:, 0] == kind, 2].sum()) for kind, name in enumerate(STAGES)}
        part["to_first_tick"] = 1000 * float(ticks[0, 1] - sent)
        part["between"] = 1000 * float((ticks[1:, 1] - ends[:-1]).sum())
        part["to_client"] = 1000 * float(heard - ends[-1])
        part |= {f"{name}_ticks": float((ticks[:, 0] == kind).sum()) for kind, name in enumerate(STAGES[:2])}
        parts.append(part)
    if not parts:
        return None
    return {name: round(float(np.median([part[name] for part in parts])), 2) for name in parts[0]}


def growth(records: Records, start: float, end: float, last: int) -> float | None:
    """What the flow took for chunks of segment `last`, over the same chunks of the first: median over places in it.

    Only whole chunks count. None where there are none to compare.
    """
    chunks = between(records[records[:, 0] == CHUNK], start, end)
    whole = chunks[chunks[:, 5] == chunks[:, 5].max(initial=0)]
    ratios = []
    for place in np.unique(whole[:, 4]):
        early, late = (whole[(whole[:, 3] == segment) & (whole[:, 4] == place), 2] for segment in (0, last))
        if early.size and late.size:
            ratios.append(float(np.median(late) / np.median(early)))
    return round(float(np.median(ratios)), 3) if ratios else None
