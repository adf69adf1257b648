"""Raw characters to written tokens, however the text was cut on its way here.

A token is handed out only when no later character can change it, so the tokens of a text are the same for every way
of splitting it into pushes.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from oscine_engine.text.characters import canonical, is_drawn, is_of_other_script
from oscine_engine.text.items import Source
from oscine_engine.text.marks import typed_marks
from oscine_engine.text.origins import Origin, within, written


class Kind(Enum):
    CHUNK = auto()
    """Letters, digits and what joins them: a word, a number, a price, an address."""
    HAN = auto()
    """One Chinese character."""
    MARK = auto()
    """A typed pronunciation or event mark, one of the added tokens."""
    OTHER = auto()
    """One letter, mark or digit of another script."""
    GAP = auto()
    """One blank, punctuation mark or symbol."""


@dataclass(frozen=True, slots=True)
class Token:
    """source: what was written where this and its neighbours with the same source are read; None where that is
    `text`."""

    kind: Kind
    text: str
    source: Source | None = field(default=None, compare=False, repr=False)


_LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\u0300-\u036f"
RAISED = "²³¹⁰⁴-⁹⁺⁻ⁿ"
LOWERED = "₀-₉₊₋"
_CORE = f"[{_LATIN}0-9%‰\u00b0$£€¥₹₩₽₿¢&@+µΩ{RAISED}{LOWERED}]"
_JOINER = r"(?:://|['./_\-#]|(?<![A-Z][A-Z]):|:(?![0-9])|(?<=[0-9]),(?=[0-9]{3}(?![0-9])))"
"""A colon joins 8:05 and localhost:80, and not ID:856."""
_CHUNK = re.compile(rf"(?:'(?=[A-Za-z0-9])|[-#](?=[$£€¥₹₩₽₿]?[0-9])|\.(?=[0-9]))?{_CORE}+(?:{_JOINER}{_CORE}+)*")
_FLAT = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-")
"""Lowered digits are said like others: H₂O."""
_IN_URL = r"[A-Za-z0-9\u00c0-\u024f%$&@+~_/=#-]"
_URL = re.compile(rf"(?:https?|ftp)://{_IN_URL}+(?:[.,:;?!'*]+{_IN_URL}+)*", re.IGNORECASE)
_URL_GOES_ON = re.compile(r"[.,:;?!'*]*")
_URL_STARTS = re.compile(r"(?:https?|ftp)://", re.IGNORECASE)
_QUERY = re.compile(r"\?[A-Za-z0-9_.%-]+=[A-Za-z0-9_.%-]+(?:&[A-Za-z0-9_.%=-]+)*")
_PART_OF_QUERY = re.compile(r"\?[A-Za-z0-9_.%-]*(?:=[A-Za-z0-9_.%&=-]*)?")
_HAN = re.compile("[\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]")
_JOINER_CHARACTER = re.compile(r"['.,:/_\-#]")
_MORE_JOINED = re.compile(r"['.:/_\-#]|,[0-9]{0,3}")
_CONTROL = re.compile(r"<\|[^<>|]*\|>")
_ATTRIBUTES = r"""(?:\s+[A-Za-z_][\w:.-]*\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>=]+))*"""
_TAG = re.compile(rf"</?[A-Za-z][\w:-]*{_ATTRIBUTES}\s*/?>")
_PART_OF_TAG = re.compile(
    rf"""</?(?:[A-Za-z][\w:-]*(?:{_ATTRIBUTES}(?:\s+(?:[A-Za-z_][\w:.-]*\s*(?:=\s*(?:"[^"<>]*|'[^'<>]*|[^\s"'<>=]*)?)?)?)?\s*/?)?)?"""
)
_PART_OF_CONTROL = re.compile(r"<\|[^<>|]*\|?")
_MARK = re.compile(r"\[[^\[\]\s]+\]")
_TAG_LIMIT = 200
_MARK_LIMIT = 20


class Scanner:
    """Cuts text into tokens; keeps what later characters may still change."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""
        """The last character taken in, which tells whether an invisible joiner belongs to a script that needs it."""
        self._origins: tuple[Origin, ...] = ()
        """Of what is held."""

    def push(self, text: str, origins: Sequence[Origin] = ()) -> list[Token]:
        """Tokens that `text` completes. origins: of it; tokens that stand in one's place come together."""
        at = 0
        for one in origins:
            self._take_in(text[at : one.start])
            start = len(self._held)
            self._take_in(text[one.start : one.end])
            self._origins += (Origin(start, len(self._held), one.written),)
            at = one.end
        self._take_in(text[at:])
        return self._take(final=False)

    def finish(self) -> list[Token]:
        """All that is left; the scanner is as new afterwards."""
        self._last = ""
        return self._take(final=True)

    def _take_in(self, text: str) -> None:
        self._held += canonical(text, self._last)
        self._last = self._held[-1:] or self._last

    def _take(self, final: bool) -> list[Token]:
        tokens: list[Token] = []
        together: list[Token] = []
        """Those from `done` on, which wait for the last of those with the same source, which ends at `until`."""
        done = position = until = 0
        while position < len(self._held):
            end, token = _next(self._held, position, final)
            if end == position:
                break
            if token is not None:
                together.append(token)
            if self._origins:
                until = max([until, *(one.end for one in self._origins if one.start < end and one.end > position)])
            if end >= until:
                tokens += self._sourced(together, done, end) if until > done else together
                together, done = [], end
            position = end
        if self._origins:
            self._origins = within(self._origins, done, len(self._held))
        self._held = self._held[done:]
        return tokens

    def _sourced(self, tokens: list[Token], start: int, end: int) -> list[Token]:
        """Tokens of what is held from `start` to `end`, which are read where something else was written."""
        source = Source(written(self._held[start:end], within(self._origins, start, end)), replaced=True)
        return [replace(token, source=source) for token in tokens]


def _next(text: str, at: int, final: bool) -> tuple[int, Token | None]:
    """End and token at `at`; the end is `at` itself when more characters are needed, the token None when dropped."""
    first = text[at]
    if first == "<":
        return _angle(text, at, final)
    if first == "[":
        return _bracket(text, at, final)
    if _HAN.match(first):
        return at + 1, Token(Kind.HAN, first)
    if first == "!" or first == "~":
        # An image's mark, and what strikes a word out.
        if at + 1 == len(text) and not final:
            return at, None
        following = text[at + 1 : at + 2]
        if following == {"!": "[", "~": "~"}[first]:
            return at + (2 if first == "~" else 1), Token(Kind.GAP, " ")
        return at + 1, Token(Kind.GAP, first)
    if not final and at + 2 >= len(text) and (_JOINER_CHARACTER.match(first)):
        return at, None
    if _URL_STARTS.match(text, at):
        return _url(text, at, final)
    chunk = _CHUNK.match(text, at)
    if chunk is None:
        kind = Kind.OTHER if is_of_other_script(first) else Kind.GAP
        return at + 1, Token(kind, first)
    end = chunk.end()
    if not final and _may_go_on(text[end : end + 4], end + 4 >= len(text)):
        return at, None
    if chunk.group() == "°" and is_drawn(text[end : end + 1]):
        return end, Token(Kind.GAP, " ")
    if text[end : end + 1] == "?" and re.search(r"[./]", chunk.group()):
        query = _QUERY.match(text, end)
        part = _PART_OF_QUERY.match(text, end)
        if not final and part is not None and part.end() == len(text):
            return at, None
        if query is not None:
            found = query.group().rstrip(".-")
            return end + len(found), Token(Kind.CHUNK, chunk.group() + found)
    return end, Token(Kind.CHUNK, unicodedata.normalize("NFC", chunk.group().translate(_FLAT)))


def _may_go_on(rest: str, text_ends: bool) -> bool:
    """True when more characters could join what follows a chunk to it."""
    if len(rest) < 4 or (rest[0] == "," and text_ends):
        return rest in ("", ":/", "://") or _MORE_JOINED.fullmatch(rest) is not None
    return False


def _url(text: str, at: int, final: bool) -> tuple[int, Token | None]:
    """An address with its scheme: all up to a blank or a character of no address, but for marks at its end."""
    found, scheme = _URL.match(text, at), _URL_STARTS.match(text, at)
    if found is None:
        end = scheme.end() if scheme is not None else at + 1
        return (at, None) if not final and end == len(text) else (end, Token(Kind.GAP, " "))
    behind = _URL_GOES_ON.match(text, found.end())
    if not final and behind is not None and behind.end() == len(text):
        return at, None
    return found.end(), Token(Kind.CHUNK, found.group())


def _angle(text: str, at: int, final: bool) -> tuple[int, Token | None]:
    """A control token (dropped), a tag (dropped unless it is a mark), or a sign."""
    found = _CONTROL.match(text, at) or _TAG.match(text, at)
    if found is not None and found.end() - at <= _TAG_LIMIT:
        mark = found.group() in typed_marks()
        return found.end(), Token(Kind.MARK, found.group()) if mark else Token(Kind.GAP, " ")
    rest = text[at : at + _TAG_LIMIT]
    part = _PART_OF_TAG.fullmatch(rest) or _PART_OF_CONTROL.fullmatch(rest)
    if part is not None and len(rest) < _TAG_LIMIT and not final:
        return at, None
    return at + 1, Token(Kind.GAP, "<")


def in_tag(text: str) -> bool:
    """Whether `text` ends inside what may become a tag or a control token, of which nothing is said."""
    rest = text[-_TAG_LIMIT:]
    rest = rest[rest.rfind("<") :] if "<" in rest else ""
    return 0 < len(rest) < _TAG_LIMIT and (_PART_OF_TAG.fullmatch(rest) or _PART_OF_CONTROL.fullmatch(rest)) is not None


def _bracket(text: str, at: int, final: bool) -> tuple[int, Token | None]:
    found = _MARK.match(text, at)
    if found is not None and found.group() in typed_marks():
        return found.end(), Token(Kind.MARK, found.group())
    rest = text[at + 1 : at + _MARK_LIMIT]
    open_ended = re.fullmatch(r"[^\[\]\s]*", rest) is not None and len(rest) < _MARK_LIMIT - 1
    if found is None and open_ended and not final:
        return at, None
    return at + 1, Token(Kind.GAP, "[")
