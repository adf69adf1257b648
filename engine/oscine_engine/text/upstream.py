"""The text helpers of upstream CosyVoice's own front end, for those who need its exact segments and spellings.

Oscine's sessions do not use them: `segments` and `verbalise` decide on streams. They exist so that a checkpoint can be
compared with upstream text for text; every quirk listed in the docstrings is upstream's.
"""

import re
import unicodedata
from collections.abc import Callable

_WIDE_MARKS = "。？！；：、.?!;"
_NARROW_MARKS = ".?!;:"
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = (
    "",
    "thousand",
    "million",
    "billion",
    "trillion",
    "quadrillion",
    "quintillion",
    "sextillion",
    "septillion",
    "octillion",
    "nonillion",
    "decillion",
)


def contains_chinese(text: str) -> bool:
    """True for any character of U+4E00..U+9FFF; kana and hangul do not count."""
    return re.search(r"[\u4e00-\u9fff]", text) is not None


def replace_corner_mark(text: str) -> str:
    """Superscript two and three become the Chinese words for square and cube."""
    return text.replace("²", "平方").replace("³", "立方")


def remove_bracket(text: str) -> str:
    """Full-width brackets and backticks vanish; a double dash becomes a blank."""
    return re.sub(r"[（）【】`]", "", text).replace("——", " ")


def replace_blank(text: str) -> str:
    """Keep a blank only between two ASCII characters that are no blanks. A trailing blank raises IndexError, as
    upstream does."""
    kept = []
    for at, character in enumerate(text):
        if character != " " or all(side.isascii() and side != " " for side in (text[at + 1], text[at - 1])):
            kept.append(character)
    return "".join(kept)


def is_only_punctuation(text: str) -> bool:
    """True when every character is punctuation or a symbol; blanks are neither, and the empty text is True."""
    return all(unicodedata.category(character)[0] in "PS" for character in text)


def spell_out_number(text: str) -> str:
    """Every run of digits as English words with "and" and commas; decimals fall apart at the dot ("two.fifty")."""
    return re.sub(r"\d+", lambda run: number_words(run.group()), text)


def number_words(digits: str) -> str:
    """ "1204" -> "one thousand, two hundred and four". Groups past the largest scale are not named."""
    number = int(digits)
    if number == 0:
        return "zero"
    groups = []
    scale = 0
    while number:
        number, group = divmod(number, 1000)
        if group:
            name = _SCALES[scale] if scale < len(_SCALES) else ""
            groups.append((group, f"{_group_words(group)} {name}".strip()))
        scale += 1
    groups.reverse()
    words = ", ".join(text for _, text in groups)
    # A last group below one hundred is joined with "and" instead of a comma.
    if len(groups) > 1 and int(digits) % 1000 == groups[-1][0] < 100:
        words = ", ".join(text for _, text in groups[:-1]) + f" and {groups[-1][1]}"
    return words


def _group_words(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    small = _ONES[rest] if rest < 20 else _TENS[rest // 10 - 2] + (f"-{_ONES[rest % 10]}" if rest % 10 else "")
    if not hundreds:
        return small
    return f"{_ONES[hundreds]} hundred" + (f" and {small}" if rest else "")


def normalise(text: str) -> str:
    """Upstream's rule chain when no normaliser package is installed."""
    text = text.strip()
    if not contains_chinese(text):
        return spell_out_number(text)
    text = replace_corner_mark(replace_blank(text.replace("\n", "")))
    text = remove_bracket(text.replace(".", "。").replace(" - ", "，"))
    return re.sub(r"[，,、]+$", "。", text)


def split_paragraph(
    text: str,
    chinese: bool,
    length: Callable[[str], int] = len,
    token_max_n: int = 80,
    token_min_n: int = 60,
    merge_len: int = 20,
    comma_split: bool = False,
) -> list[str]:
    """Segments of a non-empty paragraph: cut after marks, then greedily joined.

    A segment is closed when the next piece would make it longer than `token_max_n` and it is itself longer than
    `token_min_n`; a last one shorter than `merge_len` joins its predecessor. `length` counts tokens for other scripts;
    Chinese counts characters.
    """
    size: Callable[[str], int] = len if chinese else length
    marks = _WIDE_MARKS if chinese else _NARROW_MARKS
    if text[-1] not in marks:
        text += "。" if chinese else "."
    if comma_split:
        marks += "，,"
    segments: list[str] = []
    current = ""
    for piece in _pieces(text, marks):
        if size(current + piece) > token_max_n and size(current) > token_min_n:
            segments.append(current)
            current = ""
        current += piece
    if current:
        if segments and size(current) < merge_len:
            segments[-1] += current
        else:
            segments.append(current)
    return segments


def _pieces(text: str, marks: str) -> list[str]:
    """Text cut after each mark; a closing double quote directly behind a mark stays with the piece before it."""
    pieces: list[str] = []
    start = 0
    for at, character in enumerate(text):
        if character not in marks:
            continue
        if at > start:
            pieces.append(text[start : at + 1])
        if text[at + 1 : at + 2] in ('"', "”") and pieces:
            pieces[-1] += text[at + 1]
            start = at + 2
        else:
            start = at + 1
    return pieces
