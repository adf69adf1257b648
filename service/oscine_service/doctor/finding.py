"""What was found, and what to do about it: plain data."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """GOOD works. ADVICE works, and could be better. FAULT does not work."""

    GOOD = "good"
    ADVICE = "advice"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """about: a word. what: a sentence without its end. mend: what to type or to change; "" for what is good."""

    level: Level
    about: str
    what: str
    mend: str = ""


def good(about: str, what: str) -> Finding:
    return Finding(Level.GOOD, about, what)


def advice(about: str, what: str, mend: str) -> Finding:
    return Finding(Level.ADVICE, about, what, mend)


def fault(about: str, what: str, mend: str) -> Finding:
    return Finding(Level.FAULT, about, what, mend)
