"""Japanese for a model that wants it in kana: the readings of kanji, as Sudachi's dictionary has them.

A word's reading hangs on those beside it (一日 is ツイタチ or イチニチ), so whole sentences are read. Only words with
kanji in them are replaced, by katakana; kana, digits and everything else stay as they are written.
"""

import importlib.util
import re
from functools import cache
from typing import Any

from oscine_engine.errors import InvalidInput

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


def in_kana(sentence: str) -> str:
    """`sentence` with its kanji read."""
    if _KANJI.search(sentence) is None:
        return sentence
    parts = (sentence[at : at + _MOST] for at in range(0, len(sentence), _MOST))
    return "".join(_read(word.surface(), word.reading_form()) for part in parts for word in load().tokenize(part))


def _read(word: str, reading: str) -> str:
    """A word that the dictionary lacks has no reading, and stays."""
    return reading if reading and _KANJI.search(word) is not None else word
