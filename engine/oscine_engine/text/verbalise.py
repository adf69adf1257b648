"""Written tokens to spoken items: numbers, abbreviations, addresses and signs become words.

An item depends on the items before it and on the few tokens after it that `_read` asks for; while those are not here,
tokens wait in the queue. So the items of a text do not depend on how it was cut.
"""

import re
from dataclasses import dataclass

from oscine_engine.text import numbers_en, numbers_zh
from oscine_engine.text.chunks import ALWAYS_TITLES, TITLES, WHOLE, of_letters, with_digits
from oscine_engine.text.items import Item, Spoken, letters, words
from oscine_engine.text.scan import Kind, Token

_PAUSES = {
    ",": ",",
    ".": ".",
    "?": "?",
    "!": "!",
    ";": ";",
    ":": ":",
    "\n": "\n",
    "(": ",",
    ")": ",",
    "—": ",",
    "~": ",",
}
_UNITS_APART = frozenset(unit for unit in numbers_en.UNITS if len(unit) > 1 and unit not in ("min", "ms"))
_NUMBER_WORDS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty o'clock".split()
)
_DOTTED = re.compile(r"[A-Za-z](?:\.[A-Za-z])+")


@dataclass(frozen=True, slots=True)
class _Context:
    """What the tokens read so far leave behind."""

    before: str
    """The chunk in front, "" at the start of a sentence."""
    han: str
    """Up to two Chinese characters directly in front."""
    after_blank: bool
    """A blank stands directly in front."""
    chinese: bool
    """The last word said was Chinese."""

    def after(self, first: Token, last: Token, read: list[Item]) -> "_Context":
        """The context behind tokens `first` to `last`, which were read as `read`."""
        before, chinese = self.before, self.chinese
        if first.kind is Kind.CHUNK:
            before = first.text
        elif first.kind is Kind.HAN or _PAUSES.get(first.text) in (".", "?", "!", "\n"):
            before = ""
        for item in read:
            if item.kind is Spoken.HAN:
                chinese = True
            elif item.kind in (Spoken.WORD, Spoken.LETTERS):
                chinese = False
        han = (self.han + last.text)[-2:] if last.kind is Kind.HAN else ""
        return _Context(before, han, _is_blank(last), chinese)


_START = _Context("", "", False, False)


class Verbaliser:
    """Turns tokens into items; keeps tokens whose reading hangs on what follows."""

    def __init__(self) -> None:
        self._queue: list[Token] = []
        self._context = _START

    def push(self, tokens: list[Token]) -> list[Item]:
        """Items that `tokens` complete."""
        self._queue.extend(tokens)
        return self._take(final=False)

    def finish(self) -> list[Item]:
        """All that is left; as new afterwards."""
        items = self._take(final=True)
        self._context = _START
        return items

    def _take(self, final: bool) -> list[Item]:
        items: list[Item] = []
        done = 0
        while done < len(self._queue):
            used, read = _read(self._queue, done, final, self._context)
            if not used:
                break
            self._context = self._context.after(self._queue[done], self._queue[done + used - 1], read)
            items.extend(read)
            done += used
        del self._queue[:done]
        return items


def _read(queue: list[Token], at: int, final: bool, context: _Context) -> tuple[int, list[Item]]:
    """How many tokens from `at` on are settled (0: more are needed) and what they say."""
    token = queue[at]
    if token.kind is Kind.HAN:
        return 1, [Item(Spoken.HAN, token.text)]
    if token.kind is Kind.MARK:
        return 1, [Item(Spoken.MARK, token.text)]
    if token.kind is Kind.GAP:
        return _read_gap(queue, at, final, context)
    return _read_chunk(queue, at, final, context)


def _read_gap(queue: list[Token], at: int, final: bool, context: _Context) -> tuple[int, list[Item]]:
    sign = queue[at].text
    if sign == "-":
        # A dash is a pause only with blanks on both sides; elsewhere it merely parts words.
        if at + 1 == len(queue) and not final:
            return 0, []
        blanks = context.after_blank and at + 1 < len(queue) and _is_blank(queue[at + 1])
        return 1, [Item(Spoken.PAUSE, ",") if blanks else Item(Spoken.BLANK, " ")]
    if sign in _PAUSES:
        return 1, [Item(Spoken.PAUSE, _PAUSES[sign])]
    if sign.isalpha():
        return 1, [Item(Spoken.OTHER, sign)]
    return 1, [Item(Spoken.BLANK, " ")]


def _is_blank(token: Token) -> bool:
    return token.kind is Kind.GAP and token.text == " "


def _read_chunk(queue: list[Token], at: int, final: bool, context: _Context) -> tuple[int, list[Item]]:
    chunk = queue[at].text
    lower = chunk.lower()
    if lower in WHOLE and lower not in ("e.g", "i.e", "etc"):
        return 1, words(WHOLE[lower])
    if any(c.isdigit() for c in chunk):
        after = _significant(queue, at + 1)
        if after is None and not final:
            return 0, []
        read = _number(chunk, context, queue[at + 1] if at + 1 < len(queue) else None, after)
        if chunk[0] in "$£€¥" and after is not None and after.text.lower() in numbers_en.MAGNITUDES:
            return queue.index(after, at) + 1 - at, read
        return 1, read
    if lower in TITLES or lower in ("no", "etc", "ph.d") or _DOTTED.fullmatch(chunk):
        return _abbreviation(queue, at, final)
    if chunk == "A" or (chunk == "a" and (context.before.lower() in _NUMBER_WORDS or context.before.isdigit())):
        after = _significant(queue, at + 1)
        if after is None and not final:
            return 0, []
        return 1, [Item(Spoken.LETTERS, "A") if _is_letter_a(chunk, after) else Item(Spoken.WORD, chunk)]
    if chunk in _UNITS_APART and context.before[-1:].isdigit():
        return 1, words(numbers_en.UNITS[chunk])
    return 1, words(of_letters(chunk))


def _is_letter_a(chunk: str, after: Token | None) -> bool:
    """A stands for its name in a list of letters, at a sentence's end and in "a m"; else it is the article."""
    if after is None:
        return chunk == "A"
    if after.kind is Kind.CHUNK:
        return _letter(after) or after.text.lower() == "m"
    return chunk == "A" and after.text in ",.;:?!-\n"


def _letter(token: Token) -> bool:
    return len(token.text) == 1 and token.text.isupper() and token.text != "I"


def _significant(queue: list[Token], at: int) -> Token | None:
    """The first token from `at` on that is no blank."""
    return next((token for token in queue[at:] if not _is_blank(token)), None)


def _abbreviation(queue: list[Token], at: int, final: bool) -> tuple[int, list[Item]]:
    """A shortened word and its full stop, which is spoken as a pause only where a sentence ends."""
    chunk, lower = queue[at].text, queue[at].text.lower()
    rest = queue[at + 1 :]
    dot = bool(rest) and rest[0].kind is Kind.GAP and rest[0].text == "."
    if not final and (not rest or (dot and _significant(rest, 1) is None)):
        return 0, []
    after = _significant(rest, 1 if dot else 0)
    if lower == "no":
        numbered = dot and after is not None and after.kind is Kind.CHUNK and after.text[:1].isdigit()
        return (2, words("number")) if numbered else (1, words(chunk))
    if lower in TITLES:
        if not dot and lower not in ALWAYS_TITLES:
            return 1, words(chunk)
        ends = after is None or after.text == "\n"
        street = lower == "st" and (after is None or not after.text[:1].isupper())
        word = "street" if street else TITLES[lower]
        return (2 if dot and not ends else 1), words(word)
    if lower in ("e.g", "i.e"):
        return (2 if dot else 1), words(WHOLE[lower])
    # Followed by a capital, or by nothing, the full stop ends a sentence; before another pause that one counts.
    ends = after is None or after.text == "\n" or (after.kind is Kind.CHUNK and after.text[:1].isupper())
    said = words(WHOLE[lower]) if lower in WHOLE else letters(chunk.upper().split("."))
    return (2 if dot and not ends else 1), said


def _number(chunk: str, context: _Context, following: Token | None, after: Token | None) -> list[Item]:
    """A chunk with digits, in the language of what stands beside it."""
    han_next = after is not None and after.kind is Kind.HAN
    beside = bool(context.han) or (following is not None and following.kind is Kind.HAN)
    english_next = after is not None and after.kind is Kind.CHUNK and not after.text[:1].isdigit()
    if beside or han_next or (context.chinese and not english_next):
        characters = numbers_zh.read_number(chunk, after.text if after is not None and han_next else "", context.han)
        if characters is not None:
            return [_han(c) for c in characters]
    said = numbers_en.read_number(chunk, context.before.lower(), after.text.lower() if after is not None else "")
    if said is None and chunk[0] == "#":
        said = numbers_en.read_number(chunk[1:])
        said = None if said is None else f"number {said}"
    return words(said) if said is not None else with_digits(chunk)


def _han(character: str) -> Item:
    if character == ",":
        return Item(Spoken.PAUSE, ",")
    if character.isascii():
        return Item(Spoken.LETTERS if character.isalpha() else Spoken.BLANK, character)
    return Item(Spoken.HAN, character)
