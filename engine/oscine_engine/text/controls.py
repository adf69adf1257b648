"""Characters by which a stage of the text tells later ones something about it.

They are of a plane for private use, of which nothing is ever said. No text can bring one along: `Markup`, which writes
them, leaves out those that come to it, and `Pronunciations` those in its readings. They go no further than
`SentenceStream`, where each ends the sentence before it.
"""

import re

_FIRST = 0xF0000
RATES = 0x200
"""Numbers from 0 up to here are changes of the speaking rate (`rate.py`)."""
SILENCES = 0x400
"""Numbers from here on are silences, in steps of 10 ms (`silence.py`)."""
LONGEST_SILENCE = 1000
MARKS = re.compile(f"[{chr(_FIRST)}-{chr(_FIRST + SILENCES + LONGEST_SILENCE)}]")


def mark(number: int) -> str:
    return chr(_FIRST + number)


def number(character: str) -> int:
    return ord(character) - _FIRST


def without_marks(text: str) -> str:
    """`text`, which somebody typed, without such characters."""
    return text if text.isascii() else MARKS.sub("", text)
