"""What a drill has to say, and what it is to be held to. Plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

BREAK_S = 0.5
"""A listener that stands still for longer has not kept playing."""


@dataclass(slots=True)
class Outcome:
    """happened: what was seen, in words with figures. lost: what was promised to be kept and was not. late: what came,
    but not in its time. recovered_s: until all was as before, without anybody's doing. figures: the same for machines.
    """

    happened: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    recovered_s: float | None = None
    figures: dict[str, Any] = field(default_factory=dict)

    def keep(self, true: bool, otherwise: str) -> None:
        """Note as lost what is not `true`."""
        if not true:
            self.lost.append(otherwise)

    def in_time(self, what: str, seconds: float, most: float) -> None:
        """Note as late what took more than `most` seconds."""
        if seconds > most:
            self.late.append(f"{what} took {seconds:.1f} s, {most:g} s is promised")

    def playing(self, who: str, breaks: Sequence[float]) -> None:
        """Note as late whoever stood still for too long."""
        if breaks and max(breaks) > BREAK_S:
            self.late.append(f"{who} stood still for {max(breaks):.2f} s, {BREAK_S:g} s at a time is promised")

    def recovered(self, seconds: float, most: float) -> None:
        self.recovered_s = round(seconds, 2)
        self.in_time("recovery", seconds, most)


class Skipped(Exception):
    """This machine cannot carry out the drill; says what it lacks."""
