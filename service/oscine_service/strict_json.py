"""JSON as its standard has it. Python's own reader takes more: NaN, other encodings, names twice.

A parser in C lets no other thread run before it has ended. What takes it long is refused: many parts. One long string,
such as a recording, does not.
"""

import json
import math
import re
from typing import Any, NoReturn

import numpy as np

LONG = 1 << 16
"""Characters, or bytes, from which on reading takes milliseconds: not for an event loop."""
MOST_QUOTES = 20_000
MOST_SIGNS = 200_000
"""Of a longer document; a text of the size that is taken has less, whatever it says."""
_IS_SIGN = np.zeros(256, np.bool_)
_IS_SIGN[list(b",:[{\\ \n\r\t")] = True
_SLICE = 1 << 16
MOST_DEPTH = 64
"""Of brackets inside brackets. Python's reader goes down to its limit of recursion, and what is collected there as
garbage cannot be taken down: the memory of an encoder would never be freed."""
MOST_DIGITS = 1000
"""Of a whole number: nothing here takes one of more than 19."""
_STRING, _BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"'), re.compile(r"[\[\]{}]")


def loads(document: str | bytes) -> Any:
    """Raises ValueError that says what is wrong."""
    text = document.decode() if isinstance(document, bytes) else document
    if len(text) > LONG:
        _check_parts(text)
    if text.count("[") + text.count("{") > MOST_DEPTH:
        _check_depth(text)
    return json.loads(text, parse_int=_whole, parse_constant=_no_number, object_pairs_hook=_each_once)


def _check_parts(text: str) -> None:
    """In slices, so that other threads have their turn."""
    quotes = signs = 0
    for start in range(0, len(text), _SLICE):
        piece = np.frombuffer(text[start : start + _SLICE].encode("utf-8", "surrogatepass"), np.uint8)
        quotes += int(np.count_nonzero(piece == ord('"')))
        signs += int(np.count_nonzero(_IS_SIGN[piece]))
        if quotes > MOST_QUOTES or signs > MOST_SIGNS:
            raise ValueError(f"it has too many parts: at most {MOST_QUOTES // 2} strings, and no more than it needs")


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MOST_DEPTH:
            raise ValueError(f"it is nested too deeply: at most {MOST_DEPTH} brackets stand inside each other")


def as_float(number: float) -> float:
    """A number of any size: infinite where a float cannot tell it, so that a range refuses it."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; write none of more than {MOST_DIGITS}")
    return int(digits)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON's")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set[str]()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{ascii(twice)[:60]} is there twice")
    return found
