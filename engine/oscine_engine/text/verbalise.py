"""Written tokens to spoken items: numbers, abbreviations, addresses and signs become words.

An item depends on the items before it and on the few tokens after it that `_read` asks for; while those are not here,
tokens wait in the queue. So the items of a text do not depend on how it was cut.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

from oscine_engine.text import numbers_en, numbers_zh
from oscine_engine.text.scan import Kind, Token


class Spoken(Enum):
    WORD = auto()
    """A word of Latin letters, as written."""
    LETTERS = auto()
    """Latin letters said by their names."""
    HAN = auto()
    """One Chinese character."""
    MARK = auto()
    """A typed mark."""
    PAUSE = auto()
    """One of , . ? ! ; : or a newline."""
    BLANK = auto()
    """A place where words part without a pause."""
    OTHER = auto()
    """A letter of another script."""


@dataclass(frozen=True, slots=True)
class Item:
    kind: Spoken
    text: str


_TITLES = {
    "mr": "mister",
    "mrs": "missus",
    "ms": "miz",
    "dr": "doctor",
    "prof": "professor",
    "st": "saint",
    "mt": "mount",
    "jr": "junior",
    "sr": "senior",
    "vs": "versus",
    "approx": "approximately",
    "dept": "department",
    "gen": "general",
    "capt": "captain",
    "sgt": "sergeant",
    "rev": "reverend",
    "fig": "figure",
    "ext": "extension",
    "rm": "room",
    "apt": "apartment",
    "ave": "avenue",
    "jan": "January",
    "feb": "February",
    "apr": "April",
    "aug": "August",
    "sep": "September",
    "sept": "September",
    "oct": "October",
    "nov": "November",
    "dec": "December",
    "tues": "Tuesday",
    "wed": "Wednesday",
    "thurs": "Thursday",
}
_ALWAYS = {"mr", "mrs", "dr", "vs", "prof"}
_WHOLE = {
    "e.g": "for example",
    "i.e": "that is",
    "w/o": "without",
    "24/7": "twenty four seven",
    "etc": "et cetera",
    "'n": "and",
    "wi-fi": "wifi",
    "e-mail": "email",
    "&": "and",
    "@": "at",
    "%": "percent",
    "+": "plus",
    "$": "dollars",
    "£": "pounds",
    "€": "euros",
    "°c": "degrees Celsius",
    "°f": "degrees Fahrenheit",
    "°": "degrees",
    "¥": "yuan",
}
_IN_ADDRESS = {
    ".": "dot",
    "/": "slash",
    "_": "underscore",
    "-": "dash",
    "@": "at",
    ":": "colon",
    "+": "plus",
    "&": "and",
    "%": "percent",
    "#": "hash",
    "'": "",
}
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
_SENTENCE_EDGE = re.compile(r"[A-Za-z0-9]*[a-z0-9][.:][A-Z][A-Za-z']*")


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
    if lower in _WHOLE and lower not in ("e.g", "i.e", "etc"):
        return 1, _words(_WHOLE[lower])
    if any(c.isdigit() for c in chunk):
        after = _significant(queue, at + 1)
        if after is None and not final:
            return 0, []
        read = _number(chunk, context, queue[at + 1] if at + 1 < len(queue) else None, after)
        if chunk[0] in "$£€¥" and after is not None and after.text.lower() in numbers_en.MAGNITUDES:
            return queue.index(after, at) + 1 - at, read
        return 1, read
    if lower in _TITLES or lower in ("no", "etc", "ph.d") or _DOTTED.fullmatch(chunk):
        return _abbreviation(queue, at, final)
    if chunk == "A" or (chunk == "a" and (context.before.lower() in _NUMBER_WORDS or context.before.isdigit())):
        after = _significant(queue, at + 1)
        if after is None and not final:
            return 0, []
        return 1, [Item(Spoken.LETTERS, "A") if _is_letter_a(chunk, after) else Item(Spoken.WORD, chunk)]
    if chunk in _UNITS_APART and context.before[-1:].isdigit():
        return 1, _words(numbers_en.UNITS[chunk])
    return 1, _words(_plain(chunk))


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
        return (2, _words("number")) if numbered else (1, _words(chunk))
    if lower in _TITLES:
        if not dot and lower not in _ALWAYS:
            return 1, _words(chunk)
        ends = after is None or after.text == "\n"
        street = lower == "st" and (after is None or not after.text[:1].isupper())
        word = "street" if street else _TITLES[lower]
        return (2 if dot and not ends else 1), _words(word)
    if lower in ("e.g", "i.e"):
        return (2 if dot else 1), _words(_WHOLE[lower])
    # Followed by a capital, or by nothing, the full stop ends a sentence; before another pause that one counts.
    ends = after is None or after.text == "\n" or (after.kind is Kind.CHUNK and after.text[:1].isupper())
    letters = [Item(Spoken.LETTERS, part.upper()) for part in chunk.split(".")]
    return (2 if dot and not ends else 1), _words(_WHOLE[lower]) if lower in _WHOLE else _parted(letters)


def _parted(items: list[Item]) -> list[Item]:
    return [part for item in items for part in (item, Item(Spoken.BLANK, " "))]


def _number(chunk: str, context: _Context, following: Token | None, after: Token | None) -> list[Item]:
    """A chunk with digits, in the language of what stands beside it."""
    han_next = after is not None and after.kind is Kind.HAN
    beside = bool(context.han) or (following is not None and following.kind is Kind.HAN)
    english_next = after is not None and after.kind is Kind.CHUNK and not after.text[:1].isdigit()
    if beside or han_next or (context.chinese and not english_next):
        characters = numbers_zh.read_number(chunk, after.text if after is not None and han_next else "", context.han)
        if characters is not None:
            return [_han(c) for c in characters]
    words = numbers_en.read_number(chunk, context.before.lower(), after.text.lower() if after is not None else "")
    if words is None and chunk[0] == "#":
        words = numbers_en.read_number(chunk[1:])
        words = None if words is None else f"number {words}"
    return _words(words) if words is not None else _mixed(chunk)


def _han(character: str) -> Item:
    if character == ",":
        return Item(Spoken.PAUSE, ",")
    if character.isascii():
        return Item(Spoken.LETTERS if character.isalpha() else Spoken.BLANK, character)
    return Item(Spoken.HAN, character)


def _words(text: str) -> list[Item]:
    """Words and commas of a reading, each word parted from the next by a blank."""
    items: list[Item] = []
    for part in text.split():
        if items:
            items.append(Item(Spoken.BLANK, " "))
        items.append(Item(Spoken.WORD, part.rstrip(",.")))
        if part[-1] in ",.":
            items.append(Item(Spoken.PAUSE, part[-1]))
    return [item for item in items if item.text]


def _plain(chunk: str) -> str:
    """A chunk of letters and joiners: an address is read out, anything else falls into its words."""
    if "@" in chunk or "://" in chunk or re.search(r"\w\.\w", chunk):
        if _SENTENCE_EDGE.fullmatch(chunk):
            return re.sub(r"[.:]", ". ", chunk)
        address = re.sub(r"^https?://", "", chunk, flags=re.IGNORECASE)
        return re.sub(r"[^A-Za-z0-9\u00c0-\u024f]", lambda sign: f" {_IN_ADDRESS.get(sign.group(), '')} ", address)
    spaced = chunk.replace("&", " and ").replace("+", " plus ").replace(":", ", ").replace(",", ", ")
    return re.sub(r"[^A-Za-z\u00aa-\u024f\u0300-\u036f\u1e00-\u1eff', ]", " ", spaced)


def _mixed(chunk: str) -> list[Item]:
    """Letters with digits, or a number shape nobody knows: each run on its own, short capitals by their names."""
    if re.search(r"[A-Za-z]\.[A-Za-z]|@|://", chunk):
        return _words(re.sub(r"\d+", lambda run: f" {numbers_en.cardinal(run.group())} ", _plain_address(chunk)))
    parts = re.findall(r"[A-Za-z\u00c0-\u024f']+|\d[\d,]*(?:\.\d+)?|[%°&@+:,/]", chunk)
    coded = any(part[0].isalpha() for part in parts)
    spoken: list[Item] = []
    for part in parts:
        if part[0].isdigit():
            digits = part.rstrip(",")
            by_digit = digits.isdigit() and len(digits) > (2 if coded else 4)
            spoken += _words(numbers_en.by_digit(digits) if by_digit else numbers_en.decimal(digits))
        elif part.isupper() and len(part) <= 3 or len(part) == 1 and part.isalpha():
            spoken.append(Item(Spoken.LETTERS, part))
        elif part not in (":", ",", "/"):
            spoken += _words(_WHOLE.get(part.lower(), part))
        spoken.append(Item(Spoken.BLANK, " "))
    return spoken[:-1]


def _plain_address(chunk: str) -> str:
    address = re.sub(r"^https?://", "", chunk, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9]", lambda sign: f" {_IN_ADDRESS.get(sign.group(), '')} ", address)
