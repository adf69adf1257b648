"""What others published, and what this project set itself to reach: figures that were not measured here.

Source: the repository of faster-cosyvoice (results of 28 August 2026), one H100, CUDA MPS on, CosyVoice3, PCM, a first
chunk of 760 ms, one registered voice of 97 speech tokens, Seed-TTS English; first packet from the sending of the
request to the first PCM byte; nearest-rank percentiles; a player without pre-buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Point:
    """Milliseconds until the first packet, seconds of audio a second; `dry`: share of the calls that ran dry."""

    p50: float
    p95: float
    rtfx: float | None = None
    dry: float = 0.0


CLOSED: Mapping[str, Mapping[int, Point]] = {
    "faster-cosyvoice": {
        1: Point(85.9, 95.0, 18.6),
        2: Point(128.6, 161.5, 29.8),
        4: Point(186.4, 235.6, 39.9),
        8: Point(340.9, 400.0, 45.5),
        16: Point(446.9, 524.9, 47.8),
    },
    "Triton + TensorRT-LLM": {
        1: Point(130, 136, 11.4),
        2: Point(148, 193, 19.4),
        4: Point(238, 296, 27.2),
        8: Point(431, 497, 27.3),
        16: Point(792, 897, 27.6, 0.158),
    },
    "vLLM-Omni": {
        1: Point(168, 172, 8.8),
        2: Point(236, 287, 14.3),
        4: Point(353, 473, 20.0),
        8: Point(732, 884, 21.3),
    },
}
"""By clients. faster-cosyvoice without CUDA graphs; with them, which serve one call at a time, 72.8 / 82.0 alone and
324 / 392 with 8 clients."""

GRAPHS: Mapping[int, Point] = {1: Point(72.8, 82.0, 15.06), 8: Point(324, 392, 30.4)}

OPEN: Mapping[str, Mapping[float, Point]] = {
    "faster-cosyvoice": {
        1: Point(80.8, 201.5),
        2: Point(91.1, 224.0),
        4: Point(151.4, 298.9),
        6: Point(241.2, 416.3),
        8: Point(334.7, 452.1),
        10: Point(7739, 12735, dry=0.949),
    },
    "Triton + TensorRT-LLM": {
        1: Point(119, 232),
        2: Point(121, 243),
        4: Point(180, 472),
        6: Point(1945, 2407, dry=1.0),
    },
    "vLLM-Omni": {1: Point(169, 412), 2: Point(372, 1336)},
}
"""By requests a second."""


ANY = "*"


@dataclass(frozen=True, slots=True)
class Bar:
    """What is to be reached. path: of the figure in a line of `row`, or ANY for the highest of all that
    one GPU served; at_most: or else at least."""

    what: str
    row: str
    path: tuple[str, ...]
    bar: float
    best: str
    at_most: bool = True
    beyond: str | None = None
    """Another row, whose figure is taken off: that of the newest run that has both, for machines differ."""

    def value(self, told: Sequence[Mapping[str, Any]]) -> float | None:
        """Of the newest lines of `told`, which are in the order they were written in. None where the row was not
        measured, or had nothing to say."""
        if self.beyond is not None:
            return self._difference(told, self.beyond)
        lines = newest(told)
        if self.row != ANY:
            return _at(lines[self.row], self.path) if self.row in lines else None
        values = [_at(line, self.path) for line in lines.values() if line["server"].get("engines", 1) == 1]
        return max((value for value in values if value is not None), default=None)

    def _difference(self, told: Sequence[Mapping[str, Any]], beyond: str) -> float | None:
        by_run = {(line["run"], line["row"]): _at(line, self.path) for line in told}
        pairs = [(by_run.get((line["run"], self.row)), by_run.get((line["run"], beyond))) for line in told]
        whole = [(value, other) for value, other in pairs if value is not None and other is not None]
        return round(whole[-1][0] - whole[-1][1], 1) if whole else None

    def met(self, value: float) -> bool:
        return value <= self.bar if self.at_most else value >= self.bar


def newest(told: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """By row, the last line."""
    return {line["row"]: line for line in told}


def _at(line: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    found: Any = line
    for key in path:
        found = found[key]
    return found  # type: ignore[no-any-return]


P50, P95, DRY = ("ttfp_ms", "p50"), ("ttfp_ms", "p95"), ("underruns", "calls")
BARS = (
    Bar("C1, k = 21, p50, ms", "k21 c1", P50, 40, "72.8"),
    Bar("C1, k = 21, p95, ms", "k21 c1", P95, 48, "82.0"),
    Bar("C1, k = 10, p50, ms", "k10 c1", P50, 30, "-"),
    Bar("C1, k = 10, p95, ms", "k10 c1", P95, 38, "-"),
    Bar("C8, k = 21, p95, ms", "k21 c8", P95, 100, "392"),
    Bar("C32, k = 21, p95, ms", "k21 c32", P95, 250, "- (C16: 525)"),
    Bar("C32, k = 21, calls that ran dry", "k21 c32", DRY, 0, "-"),
    Bar("seconds of audio a second, highest", ANY, ("rtfx",), 200, "48", at_most=False),
    Bar("30 requests/s, p95, ms", "k21 open 30", P95, 250, "- (8/s: 452; 10/s: 12,735)"),
    Bar("30 requests/s, calls that ran dry", "k21 open 30", DRY, 0, "-"),
    Bar("Opus later than PCM, C1, p50, ms", "k21 opus c1", P50, 10, "-", beyond="k21 c1"),
    Bar("Opus later than PCM, C32, p50, ms", "k21 opus c32", P50, 10, "-", beyond="k21 c32"),
    Bar("two GPUs over one, seconds of audio", "2 engines c64", ("over", "rtfx"), 1.9, "-", at_most=False),
    Bar("tenth segment over first, C1", "k21 long c1", ("segment_ratio",), 1.05, "-"),
    Bar("tenth segment over first, C8", "k21 long c8", ("segment_ratio",), 1.05, "-"),
    Bar("memory of a second of context, MB", ANY, ("context_mb",), 95, "-"),
)
