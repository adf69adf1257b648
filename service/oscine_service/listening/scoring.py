"""Error rates of a transcript against what should have been said.

English, words: OpenAI's Whisper normaliser on both sides (case, punctuation, contractions, numbers to digits, British
to American spelling), then neighbouring numbers and the two letters of "a m" and "p m" are joined ("10:30 a.m." and
"ten thirty a m" agree).

Mandarin, characters: traditional to simplified, numbers to characters, the three characters for he, she and it (which
sound alike) to one, then everything but Chinese characters and Latin letters is dropped. Other homophones count as
errors; `syllables` looks through them.
"""

import re
from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any

from oscine_service.listening.recogniser import INSTALL, Language, MissingPackage

METRIC: dict[Language, str] = {"en": "wer", "zh": "cer"}


@cache
def _english() -> Any:
    try:
        from whisper_normalizer.english import EnglishTextNormalizer
    except ImportError as error:
        raise MissingPackage(f"whisper-normalizer is needed to compare transcripts: run {INSTALL}") from error
    return EnglishTextNormalizer()


@cache
def _simplifier() -> Any:
    try:
        from opencc import OpenCC
    except ImportError as error:
        raise MissingPackage(f"opencc-python-reimplemented is needed to compare transcripts: run {INSTALL}") from error
    return OpenCC("t2s")


def words(text: str) -> list[str]:
    """Comparable English words."""
    plain: str = _english()(text)
    plain = re.sub(r"\b([ap]) m\b", r"\1m", plain)
    # A mark alone is no word.
    return [word for word in re.sub(r"(?<=\d) (?=\d)", "", plain).split() if any(map(str.isalnum, word))]


def _number(match: re.Match[str]) -> str:
    from oscine_engine.text.numbers_zh import by_digit, decimal

    digits = match.group().replace(",", "")
    following = match.string[match.end() : match.end() + 1]
    if following == "年" and len(digits) == 4 or len(digits) > 8:
        return by_digit(digits)
    return decimal(digits)


def characters(text: str) -> list[str]:
    """Comparable Mandarin characters; a Latin word counts as its letters."""
    simple: str = _simplifier().convert(text)
    simple = re.sub(r"(\d+(?:\.\d+)?)\s*[%％]", r"百分之\1", simple)
    simple = re.sub(r"(\d{1,2})[:：](\d{2})", r"\1点\2", simple)
    spelled = re.sub(r"\d[\d,]*(?:\.\d+)?", _number, simple)
    alike = spelled.lower().translate(str.maketrans("她它", "他他"))
    return [c for c in alike if "\u4e00" <= c <= "\u9fff" or c.isascii() and c.isalpha()]


def units(lang: Language, text: str) -> list[str]:
    """What one error counts: words or characters."""
    return words(text) if lang == "en" else characters(text)


def syllables(text: str, *, tones: bool = False) -> list[str]:
    """Pinyin of the comparable characters, with the number of each one's tone (5: none) behind it where asked for.

    Tones are those that are spoken: two third tones in a row become a second and a third.
    """
    from pypinyin import Style, lazy_pinyin

    plain = "".join(characters(text))
    if not tones:
        return list(lazy_pinyin(plain))
    return list(lazy_pinyin(plain, style=Style.TONE3, tone_sandhi=True, neutral_tone_with_five=True))


def edits(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Least number of substitutions, insertions and deletions that make one sequence of the other."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]
