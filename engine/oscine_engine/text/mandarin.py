"""Chinese characters to [initial][final with tone] marks: pypinyin's data, longest phrases first, tone sandhi.

A syllable is written as CosyVoice3's inline notation has it: initial (y and w count as initials), then the rest of the
spelling with its tone mark; ü after j, q, x and y is written u; a neutral tone has no mark. A few syllables have no own
final among the 280 tokens; `_COMPOSED` and `_ALIASES` say what stands for them.
"""

import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from oscine_engine.text.mandarin_words import NEUTRAL_ENDINGS, OWN_PHRASES, USUAL
from oscine_engine.text.marks import added_tokens

_INITIALS = ("zh", "ch", "sh", *"bpmfdtnlgkhjqxrzcsyw")
_LONGEST_PHRASE = 8

# Neutral tones of finals that exist only with a tone mark: the same vowels as two neutral tokens.
_COMPOSED = {
    "ia": ("i", "a"),
    "iao": ("i", "ao"),
    "ie": ("i", "e"),
    "iang": ("i", "ang"),
    "iong": ("i", "ong"),
    "ua": ("u", "a"),
    "uai": ("u", "ai"),
    "uan": ("u", "an"),
    "ui": ("u", "ei"),
    "er": ("e", "r"),
    "ü": ("u",),
    "üe": ("ue",),
    "ǖ": ("ū",),
}
# Interjections outside the syllable table, and the one rare ü spelling without a token.
_ALIASES = {
    "ê̄": "ē",
    "ế": "é",
    "ê̌": "ě",
    "ề": "è",
    "ê": "e",
    "n": "en",
    "ń": "én",
    "ň": "ěn",
    "ǹ": "èn",
    "ng": "eng",
    "ńg": "éng",
    "ňg": "ěng",
    "ǹg": "èng",
    "m": "mu",
    "m̄": "mū",
    "ḿ": "mú",
    "m̀": "mù",
    "hm": "heng",
    "hng": "heng",
    "r": "er",
    "ō": "ō",
    "lüě": "lüè",
}
_TONE_MARKS = {"\u0304": 1, "\u0301": 2, "\u030c": 3, "\u0300": 4}
_MARKS_BY_TONE = {tone: mark for mark, tone in _TONE_MARKS.items()}
_ORDINAL_BEFORE = frozenset("第初零〇一二三四五六七八九十百千万亿点")
_ORDINAL_AFTER = frozenset("零〇一二三四五六七八九十月号")


@dataclass(frozen=True, slots=True)
class Syllable:
    """One character and its reading, spelled with a tone mark."""

    character: str
    reading: str


def marks_of(reading: str) -> tuple[str, ...]:
    """ "xiè" -> ("[x]", "[iè]"). Raises KeyError for what is no syllable."""
    parts = _split(_ALIASES.get(reading, reading))
    marks = tuple(f"[{part}]" for part in parts)
    if unknown := [mark for mark in marks if mark not in _inventory()]:
        raise KeyError(f"{reading}: no token {unknown[0]}")
    return marks


def _split(reading: str) -> tuple[str, ...]:
    initial = next((i for i in _INITIALS if reading.startswith(i) and reading != i), "")
    final = reading[len(initial) :]
    if final == "üè":
        final = "vè"
    head = (initial,) if initial else ()
    if f"[{final}]" in _inventory():
        return (*head, final)
    return (*head, *_COMPOSED.get(final, (final,)))


@cache
def _inventory() -> frozenset[str]:
    return frozenset(added_tokens())


@cache
def _phrases() -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    """Phrase -> readings, and every proper prefix of a phrase (so that a match is known to be the longest)."""
    from pypinyin.constants import PHRASES_DICT

    phrases = {
        phrase: _citation(phrase, tuple(options[0] for options in readings))
        for phrase, readings in PHRASES_DICT.items()
        if 2 <= len(phrase) <= _LONGEST_PHRASE and len(readings) == len(phrase)
    }
    ordinary = files(__package__).joinpath("data/common_words.txt").read_text(encoding="utf-8").split()
    phrases.update({word: tuple(map(_first_reading, word)) for word in ordinary})
    for word in NEUTRAL_ENDINGS.split():
        readings = phrases.get(word) or tuple(map(_first_reading, word))
        phrases[word] = (*readings[:-1], neutral(readings[-1]))
    phrases.update(OWN_PHRASES)
    return phrases, frozenset(phrase[:length] for phrase in phrases for length in range(1, len(phrase)))


def _citation(phrase: str, readings: tuple[str, ...]) -> tuple[str, ...]:
    """The data writes some 一 and 不 with sandhi applied; undo it, since the neighbours decide here."""
    if "一" not in phrase and "不" not in phrase:
        return readings
    plain = {("一", "yí"): "yī", ("一", "yì"): "yī", ("不", "bú"): "bù"}
    return tuple(plain.get(pair, pair[1]) for pair in zip(phrase, readings, strict=True))


def neutral(reading: str) -> str:
    """The syllable without its tone."""
    bare = "".join(c for c in unicodedata.normalize("NFD", reading) if c not in _TONE_MARKS)
    return unicodedata.normalize("NFC", bare)


_NO_ERHUA = frozenset("女婴幼孤男健宠少胎混")
_PRONOUNS = frozenset("我你您他她它们就也都还总非")
_ADVERB_ENDINGS = frozenset("然快慢悄静轻渐默速兴心真续断停直好")


@cache
def base_reading(character: str) -> str | None:
    """The most common reading of a lone character, or None when the data has none."""
    return USUAL.get(character) or _first_reading(character) or None


def _first_reading(character: str) -> str:
    """The reading that the data lists first, "" for none."""
    from pypinyin.constants import PINYIN_DICT

    readings: str = PINYIN_DICT.get(ord(character), "")
    return readings.split(",")[0]


def next_word(characters: str, final: bool) -> list[Syllable] | None:
    """The longest known phrase (or else one character) at the start of `characters`, or None when more characters
    could make it longer and `final` is false. Characters without a reading give an empty list of their own."""
    phrases, prefixes = _phrases()
    best = 1
    for length in range(2, _LONGEST_PHRASE + 1):
        if characters[: length - 1] not in prefixes:
            break
        if length > len(characters):
            if not final:
                return None
            break
        if characters[:length] in phrases:
            best = length
    word = characters[:best]
    if best > 1:
        return [Syllable(character, reading) for character, reading in zip(word, phrases[word], strict=True)]
    reading = base_reading(word)
    return [Syllable(word, reading)] if reading else []


def tone(reading: str) -> int:
    """1 to 4, or 5 for the neutral tone."""
    return next((_TONE_MARKS[c] for c in unicodedata.normalize("NFD", reading) if c in _TONE_MARKS), 5)


def with_tone(reading: str, new: int) -> str:
    """The same syllable in another tone (1 to 4); a neutral one stays."""
    changed = "".join(_MARKS_BY_TONE[new] if c in _TONE_MARKS else c for c in unicodedata.normalize("NFD", reading))
    return unicodedata.normalize("NFC", changed)


def within_word(word: list[Syllable], previous: str) -> list[Syllable]:
    """Sandhi that one word settles alone: third tones in a row, 不 and 一 before their neighbours.

    previous: the character in front of the word, which makes 一 an ordinal or a digit.
    """
    alone = len(word) == 1
    word = [
        _particle(s, word[i - 1].character if i else previous, i == len(word) - 1, alone) for i, s in enumerate(word)
    ]
    changed: list[Syllable] = []
    for index in range(len(word) - 1, -1, -1):
        after = changed[0] if changed else None
        front = word[index - 1].character if index else previous
        changed.insert(0, _before(word[index], front, after))
    return changed


def _particle(syllable: Syllable, front: str, last: bool, alone: bool) -> Syllable:
    """得, 地 and 儿 after another character are mostly particles and lose their tone."""
    if not front:
        return syllable
    match syllable.character, syllable.reading:
        case "得", "dé" if alone:
            return Syllable("得", "děi" if front in _PRONOUNS else "de")
        case "地", "dì" if front in _ADVERB_ENDINGS:
            return Syllable("地", "de")
        case "儿", "ér" if last and front not in _NO_ERHUA:
            return Syllable("儿", "er")
    return syllable


def across(word: list[Syllable], following: list[Syllable], previous: str) -> list[Syllable]:
    """`word` with its last syllable fitted to the next word: 不 and 一 always, third tones when both are short."""
    if not word or not following:
        return word
    last = word[-1]
    front = word[-2].character if len(word) > 1 else previous
    if last.character in "不一" or len(word) + len(following) <= 3:
        return [*word[:-1], _before(last, front, following[0])]
    return word


def _before(syllable: Syllable, front: str, after: Syllable | None) -> Syllable:
    if after is None:
        return syllable
    current, following = tone(syllable.reading), tone(after.reading)
    new = current
    if syllable.character == "不" and current == 4 and following == 4:
        new = 2
    elif syllable.character == "一" and current == 1:
        counted = front in _ORDINAL_BEFORE or after.character in _ORDINAL_AFTER
        if not counted:
            new = {1: 4, 2: 4, 3: 4, 4: 2}.get(following, 2 if after.character == "个" else 1)
    elif current == 3 and following == 3:
        new = 2
    return syllable if new == current else Syllable(syllable.character, with_tone(syllable.reading, new))
