"""Written tokens to spoken items: numbers, abbreviations, addresses and signs become words.

An item depends on the items before it and on the few tokens after it that its reading asks for; while those are not
here, tokens wait in the queue. So the items of a text do not depend on how it was cut.
"""

import re
from dataclasses import replace

from oscine_engine.text import numbers_en
from oscine_engine.text.abbreviations import (
    ALWAYS_TITLES,
    BEFORE_NUMBERS,
    DAYS,
    NAMES_FIRST,
    NUMBERED_BY_ROMANS,
    ROMANS,
    RULERS,
    TITLES,
    WHOLE,
    WHOLE_CHINESE,
    WORDS_TOO,
)
from oscine_engine.text.amounts import language_of, read_amount, spoken
from oscine_engine.text.characters import GREEK
from oscine_engine.text.chunks import of_letters, with_power
from oscine_engine.text.context import Context, Language
from oscine_engine.text.items import Item, Source, Spoken, letters, words
from oscine_engine.text.readings_en import MONTHS_SHORT
from oscine_engine.text.readings_zh import counted
from oscine_engine.text.scan import Kind, Token
from oscine_engine.text.signs import read_sign
from oscine_engine.text.tokens import has_digits, position, significant
from oscine_engine.text.units import APART, CODES, UNITS

_NUMBER_WORDS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty o'clock".split()
)
_DOTTED = re.compile(r"[A-Za-z](?:\.[A-Za-z])+")
_DIFFERENCE = re.compile(r"[a-zA-Z][²³]?(?:[-+][a-zA-Z][²³]?)+")
_RAISED = re.compile(r"[⁰¹²³⁴-⁹⁺⁻ⁿ]$")
_DAYS_ONLY = frozenset("Mon Tue Tues Thu Thurs Fri".split())
"""Those that are no words of their own."""
_PLAIN_ROMANS = frozenset("II III IV VI VII VIII IX XII XIII XIV XVI".split())
"""Behind a name these are hardly anything else: Artemis II."""
_NOT_BEFORE_I = frozenset("article type book mark class world".split())
"""Behind these an I is rather the word."""
_DEGREES = ("ph.d", "b.sc", "m.sc", "ed.d", "b.ed", "m.ed", "ll.b", "ll.m")
_NOTHING: tuple[int, list[Item]] = (0, [])


class Verbaliser:
    """Turns tokens into items; keeps tokens whose reading hangs on what follows. sources: items say what they read.

    language: of the text, "" where it is to be seen from its script. In one that is neither English nor Chinese numbers
    and shortened words stay as they are written.
    """

    def __init__(self, *, sources: bool = False, language: Language = "") -> None:
        self._queue: list[Token] = []
        self._sources = sources
        self._replaced: Source | None = None
        """What was written where the last tokens that were read stand."""
        self._source = Source("")
        """Of the last items."""
        self._language = language
        self._context = Context(given=language)

    def push(self, tokens: list[Token]) -> list[Item]:
        """Items that `tokens` complete."""
        self._queue.extend(tokens)
        return self._take(final=False)

    def finish(self) -> list[Item]:
        """All that is left; as new afterwards."""
        items = self._take(final=True)
        self._context = Context(given=self._language)
        return items

    def _take(self, final: bool) -> list[Item]:
        items: list[Item] = []
        done = 0
        while done < len(self._queue):
            used, read = _read(self._queue, done, final, self._context)
            if not used:
                break
            self._context.advance(self._queue[done], self._queue[done + used - 1], read)
            if self._sources:
                source = self._source_of(self._queue[done : done + used])
                read = [replace(item, source=source) for item in read]
            items.extend(read)
            done += used
        del self._queue[:done]
        return items

    def _source_of(self, tokens: list[Token]) -> Source:
        """What was written where these are read in one go. It is told once: by the first that stand in its place."""
        fresh, replaced, text = False, False, ""
        for token in tokens:
            if token.source is None:
                fresh, text = True, text + token.text
            else:
                replaced = True
                if token.source is not self._replaced:
                    fresh, text = True, text + token.source.text
            self._replaced = token.source
        if fresh:
            self._source = Source(text, replaced)
        return self._source


def _read(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    """How many tokens from `at` on are settled (0: more are needed) and what they say."""
    token = queue[at]
    match token.kind:
        case Kind.HAN:
            return 1, [Item(Spoken.HAN, token.text)]
        case Kind.MARK:
            return 1, [Item(Spoken.MARK, token.text)]
        case Kind.GAP:
            return read_sign(queue, at, final, context)
        case Kind.OTHER:
            return _read_other(queue, at, final, context)
    return _read_chunk(queue, at, final, context)


def _read_other(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    """A letter of another script as it is; a Greek one that stands alone by its name."""
    letter = queue[at].text
    if letter not in GREEK or context.language == "other":
        return 1, [Item(Spoken.OTHER, letter)]
    if at + 1 == len(queue) and not final:
        return _NOTHING
    if at + 1 < len(queue) and queue[at + 1].kind is Kind.OTHER:
        return 1, [Item(Spoken.OTHER, letter)]
    following = significant(queue, at + 1)
    if following is None and not final:
        return _NOTHING
    chinese = bool(context.han) or context.in_chinese or (following is not None and following.kind is Kind.HAN)
    return 1, spoken(GREEK[letter][1], True) if chinese else [
        Item(Spoken.BLANK, " "),
        *words(GREEK[letter][0]),
        Item(Spoken.BLANK, " "),
    ]


def _read_chunk(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    chunk = queue[at].text
    lower = chunk.lower()
    if has_digits(chunk):
        return read_amount(queue, at, final, context)
    if context.given in ("ja", "other"):
        return 1, [Item(Spoken.WORD, chunk)]
    if chunk == "+":
        behind = [token.text for token in queue[at + 1 : at + 3]]
        if behind in ([], ["/"]) and not final:
            return _NOTHING
        if behind == ["/", "-"]:
            return 3, spoken("正负", True) if context.in_chinese else words("plus or minus")
    if chunk in ("µ", "Ω") and at + 1 < len(queue) and queue[at + 1].kind is Kind.OTHER:
        return 1, [Item(Spoken.OTHER, "μ" if chunk == "µ" else "Ω")]
    if (lower in WHOLE or (lower in WHOLE_CHINESE and context.han)) and lower not in ("e.g", "i.e", "etc"):
        return 1, _whole(lower, context)
    if _RAISED.search(chunk):
        if chunk in UNITS and context.before[-1:].isdecimal():
            return 1, words(UNITS[chunk].many)
        if at + 1 == len(queue) and not final:
            return _NOTHING
        han_next = at + 1 < len(queue) and queue[at + 1].kind is Kind.HAN
        return 1, with_power(chunk, context.in_chinese or han_next)
    if chunk in APART and context.before.lower() == "per":
        return 1, words(UNITS[chunk].one)
    if chunk == "St" and re.fullmatch(r"\d+(?:st|nd|rd|th)", context.before):
        return 1, words("street")
    if lower == "w":
        behind = [token.text for token in queue[at + 1 : at + 3]]
        if behind in ([], ["/"]) and not final:
            return _NOTHING
        if behind in (["/"], ["/", " "]):
            return 2, words("with")
    if chunk in CODES and (amount := _code_amount(queue, at, final, context)) is not None:
        return amount
    if lower in ("am", "pm") and re.fullmatch(r"\d{1,2}(?::\d\d)?", context.before):
        return 1, letters(chunk)[:-1]
    if chunk in ROMANS and (said := _roman(chunk, context)) is not None:
        return 1, words(said)
    if chunk in _DAYS_ONLY and not (at + 1 < len(queue) and queue[at + 1].text == "."):
        if at + 1 == len(queue) and not final:
            return _NOTHING
        return 1, words(DAYS[chunk])
    if lower in TITLES or lower in ("no", "nos", "etc", "p", "al", *_DEGREES) or _DOTTED.fullmatch(chunk):
        return _abbreviation(queue, at, final, context)
    if chunk == "A" or (chunk == "a" and (context.before.lower() in _NUMBER_WORDS or context.before.isdecimal())):
        after = significant(queue, at + 1)
        if after is None and not final:
            return _NOTHING
        return 1, [Item(Spoken.LETTERS, "A") if _is_letter_a(chunk, after) else Item(Spoken.WORD, chunk)]
    if chunk in APART and len(chunk) > 1 and context.before[-1:].isdecimal():
        return 1, words(UNITS[chunk].many)
    if context.equation and _DIFFERENCE.fullmatch(chunk):
        return 1, with_power(chunk, context.in_chinese)
    if "-" in chunk and (days := _days(chunk)) is not None:
        return 1, words(days)
    return 1, words(of_letters(chunk))


def _days(chunk: str) -> str | None:
    """ "Mon-Fri", "Jan-Mar": the days or months in full; None for other chunks."""
    names = [
        DAYS.get(part) or (MONTHS_SHORT.get(part.lower()) if part.istitle() else None) for part in chunk.split("-")
    ]
    full = [name for name in names if name]
    return " to ".join(full) if len(full) == len(names) == 2 else None


def _whole(lower: str, context: Context) -> list[Item]:
    """A chunk that is one sign or one set phrase, in the language around it."""
    if lower == "+" and not context.operand:
        return [Item(Spoken.BLANK, " ")]
    if lower in WHOLE_CHINESE and (context.han or context.in_chinese):
        return spoken(WHOLE_CHINESE[lower], True)
    return words(WHOLE[lower])


def _code_amount(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]] | None:
    """ "RMB 300", "USD 20": the amount first, as it is said. None when no amount follows."""
    start = position(queue, at + 1)
    if start == len(queue):
        return None if final else _NOTHING
    token = queue[start]
    if token.kind is not Kind.CHUNK or not re.fullmatch(r"\d[\d,]*(?:\.\d+)?", token.text):
        return None
    language = language_of(queue, start + 1, final, context)
    if language is None:
        return _NOTHING
    currency = CODES[queue[at].text]
    if language == "zh":
        return start + 1 - at, spoken(counted(token.text, "") + currency.zh, True)
    return start + 1 - at, words(numbers_en.money(currency, token.text))


def _roman(chunk: str, context: Context) -> str | None:
    """Roman numerals behind the words that want one: World War II, Henry VIII. None for any other letters."""
    before, number = context.before.lower(), str(ROMANS[chunk])
    if before in NUMBERED_BY_ROMANS and (chunk != "I" or before not in _NOT_BEFORE_I):
        return numbers_en.cardinal(number)
    if before in RULERS and context.before.istitle() and (len(chunk) > 1 or chunk == "V"):
        return f"the {numbers_en.ordinal(number)}"
    if chunk in _PLAIN_ROMANS and len(before) > 2 and context.before.istitle():
        return numbers_en.cardinal(number)
    return None


def _is_letter_a(chunk: str, after: Token | None) -> bool:
    """A stands for its name in a list of letters, at a sentence's end and in "a m"; else it is the article."""
    if after is None:
        return chunk == "A"
    if after.kind is Kind.CHUNK:
        return _letter(after) or after.text.lower() == "m"
    return chunk == "A" and (after.kind is Kind.HAN or after.text in ",，.;:?!-\n")


def _letter(token: Token) -> bool:
    return len(token.text) == 1 and token.text.isupper() and token.text != "I"


def _abbreviation(queue: list[Token], at: int, final: bool, context: Context) -> tuple[int, list[Item]]:
    """A shortened word and its full stop, which is spoken as a pause only where a sentence ends."""
    chunk, lower = queue[at].text, queue[at].text.lower()
    rest = queue[at + 1 :]
    dot = bool(rest) and rest[0].kind is Kind.GAP and rest[0].text == "."
    if not final and (not rest or (dot and significant(rest, 1) is None)):
        return _NOTHING
    after = significant(rest, 1 if dot else 0)
    numbered = after is not None and after.kind is Kind.CHUNK and after.text.lstrip("#")[:1].isdecimal()
    if not final and after is None and (lower in MONTHS_SHORT or lower in BEFORE_NUMBERS):
        return _NOTHING
    if lower in ("no", "nos"):
        word = "number" if lower == "no" else "numbers"
        return (2, words(word)) if dot and numbered else (1, words(chunk))
    if lower == "p":
        return (2, words("page")) if dot and numbered else (1, words(chunk))
    if lower == "al":
        return (2 if dot and context.before.lower() == "et" and not _ends(after) else 1), words(chunk)
    if lower in TITLES:
        return _title(chunk, dot, after, numbered, context)
    if lower in ("e.g", "i.e"):
        return (2 if dot else 1), words(WHOLE[lower])
    said = words(WHOLE[lower]) if lower in WHOLE else letters(chunk.upper().split("."))
    return (2 if dot and not _ends(after) else 1), said


def _ends(after: Token | None) -> bool:
    """Followed by a capital, or by nothing, the full stop ends a sentence; before another pause that one counts."""
    return after is None or after.text == "\n" or (after.kind is Kind.CHUNK and after.text[:1].isupper())


def _title(chunk: str, dot: bool, after: Token | None, numbered: bool, context: Context) -> tuple[int, list[Item]]:
    """One of TITLES, in full or as the word it also is."""
    lower = chunk.lower()
    dated = lower in MONTHS_SHORT and (numbered or context.before[-1:].isdecimal()) and chunk[:1].isupper()
    capital = after is not None and after.kind is Kind.CHUNK and after.text[:1].isupper()
    shortened = dot and (lower in ALWAYS_TITLES or lower in NAMES_FIRST)
    if chunk.isupper() and not (dated or numbered or capital or shortened):
        return 1, words(chunk)  # TL;DR: 6.5% APR.
    if not dot and lower not in ALWAYS_TITLES and not dated and not (lower in BEFORE_NUMBERS and numbered):
        return 1, words(chunk)
    nothing = after is None or after.text == "\n"
    if dot and lower in WORDS_TOO and not dated and lower not in NAMES_FIRST:
        goes_on = capital or numbered or (after is not None and after.text in ",，)")
        if nothing or not goes_on or (chunk.islower() and not numbered):
            return 1, words(chunk)
    ends = nothing or (lower in NAMES_FIRST and lower != "st" and _ends(after))
    word = TITLES[lower]
    if lower == "st":
        # "42 Elm St. in" and "123 Main St. Louis" are streets, "St. Louis" is a saint.
        addressed = context.before[:1].isupper() and has_digits(context.before2)
        word = "street" if addressed or after is None or not after.text[:1].isupper() else word
    return (2 if dot and not ends else 1), words(word)
