"""The sounds of speech that tell one word from another: pronunciation marks without stress and tone.

They are numbered for `word_times`, whose listener was trained with these numbers.
"""

import re
import unicodedata
from functools import cache

from oscine_engine.text.mandarin import neutral
from oscine_engine.text.marks import added_tokens

SILENCE = 0
_PHONE = re.compile(r"\[([A-Z]{1,2})[012]?\]")
_EVENTS = frozenset(
    "[breath] [noise] [laughter] [cough] [clucking] [accent] [quick_breath] [hissing] [sigh] [vocalized-noise] "
    "[lipsmack] [mn]".split()
)


@cache
def sounds() -> dict[str, int]:
    """Name -> number, from 1 on: English phones in capitals, then parts of Mandarin syllables in small letters."""
    marks = [mark for mark in added_tokens() if mark.startswith("[") and mark not in _EVENTS]
    names = dict.fromkeys(map(_name, marks))
    return {name: number for number, name in enumerate(names, SILENCE + 1)}


@cache
def any_sound() -> int:
    """What stands for a sound that nobody knows how to write."""
    return len(sounds()) + 1


@cache
def sound(mark: str) -> int | None:
    """The number of a pronunciation mark such as "[AH0]" or "[ǐ]"; None for one that is no sound of speech."""
    return None if mark in _EVENTS else sounds().get(_name(mark))


def _name(mark: str) -> str:
    if (phone := _PHONE.fullmatch(mark)) is not None:
        return phone.group(1)
    return unicodedata.normalize("NFC", neutral(mark[1:-1])).replace("v", "ü")
