"""Japanese for a model that wants it in kana: the readings of kanji, as Sudachi's dictionary has them.

A word's reading hangs on those beside it (一日 is ツイタチ or イチニチ), so whole sentences are read. Only words with
kanji in them are replaced, by katakana; kana, digits and everything else stay as they are written.
"""

import importlib.util
import re
from functools import cache
from typing import Any

from oscine_engine.errors import InvalidInput
from oscine_engine.text.origins import Edit

_KANJI = re.compile("[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]")
_DICTIONARY = "small"
_MOST = 10_000
"""Characters read at once, far beyond any sentence: the tokenizer takes 49,149 bytes."""


def require() -> None:
    """Raises InvalidInput where the dictionary is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("sudachipy", f"sudachidict_{_DICTIONARY}")):
        raise InvalidInput(
            "language: this service cannot read kanji; write kana and leave the language out, or install "
            "oscine[japanese] beside it"
        )


@cache
def load() -> Any:
    """The dictionary's tokenizer; 0.1 s once a process."""
    from sudachipy import Dictionary, SplitMode

    return Dictionary(dict=_DICTIONARY).tokenizer(mode=SplitMode.C)


def readings(sentence: str) -> list[Edit]:
    """What is read in place of words with kanji. A word that the dictionary lacks has no reading, and stays."""
    if _KANJI.search(sentence) is None:
        return []
    found, start = list[Edit](), 0
    for part in (sentence[at : at + _MOST] for at in range(0, len(sentence), _MOST)):
        for word in load().tokenize(part):
            surface, reading = word.surface(), word.reading_form()
            end = start + len(surface)
            if reading and _KANJI.search(surface) is not None:
                found.append(Edit(start, end, reading))
            start = end
    return found
