"""Speaking rates that a text asks for itself, `<prosody rate="…">`, on their way through it.

A change is written into the text as one character (`controls.py`), which stands for the rate from there on, in percent
of the voice's own, and tells whether a part of the text begins with it or ends. In front of a part that begins in the
midst of a sentence it is as if there were a comma.

    x-slow 50 %, slow 75 %, medium 100 %, fast 125 %, x-fast 150 %
    80%           of the voice's own rate, wherever it stands
    +10%, -20%    of the rate around it
    1.2           as 120%

Rates are kept within 50 % and 200 %. What is no rate changes nothing.
"""

import re

from oscine_engine.text import controls

SLOWEST, FASTEST = 50, 200
_BEGINS = controls.RATES // 2
_NAMED = {"x-slow": 50, "slow": 75, "medium": 100, "default": 100, "fast": 125, "x-fast": 150}
_NUMBER = re.compile(r"\s*([+-]?)(\d{1,4}(?:\.\d{1,4})?)(%?)\s*")


def mark(percent: int, *, begins: bool) -> str:
    """What stands in the text for a change to this rate."""
    return controls.mark(percent + begins * _BEGINS)


def of_mark(character: str) -> tuple[int, bool]:
    """The rate in percent, and whether a part begins with it."""
    code = controls.number(character)
    return code % _BEGINS, code >= _BEGINS


def read_rate(written: str, around: int) -> int:
    """The rate in percent that an attribute asks for, inside a part that is said at `around`."""
    name = written.strip().lower()
    if name in _NAMED:
        return _NAMED[name]
    match = _NUMBER.fullmatch(written)
    if match is None:
        return around
    number = float(match[2]) * (1 if match[3] else 100)
    if match[1]:
        number = around * (1 + (number if match[1] == "+" else -number) / 100)
    return min(max(round(number), SLOWEST), FASTEST)
