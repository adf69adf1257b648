"""Raw characters to written tokens, however the text was cut on its way here.

A token is handed out only when no later character can change it, so the tokens of a text are the same for every way
of splitting it into pushes.
"""

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum, auto

from oscine_engine.text.marks import typed_marks


class Kind(Enum):
    CHUNK = auto()
    """Letters, digits and what joins them: a word, a number, a price, an address."""
    HAN = auto()
    """One Chinese character."""
    MARK = auto()
    """A typed pronunciation or event mark, one of the added tokens."""
    GAP = auto()
    """One blank, punctuation mark or symbol."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str


_LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\u0300-\u036f"
_CORE = f"[{_LATIN}0-9%\u00b0$£€¥&@+]"
_JOINER = r"(?:://|['.:/_\-#]|(?<=[0-9]),(?=[0-9]))"
_CHUNK = re.compile(rf"(?:'(?=[A-Za-z])|[-#](?=[$£€¥]?[0-9])|\.(?=[0-9]))?{_CORE}+(?:{_JOINER}{_CORE}+)*")
_HAN = re.compile("[\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]")
_JOINER_CHARACTER = re.compile(r"['.,:/_\-#]")
_CONTROL = re.compile(r"<\|[^<>|]*\|>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_MARK = re.compile(r"\[[^\[\]\s]+\]")
_TAG_LIMIT = 200
_MARK_LIMIT = 20

_PLAIN = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys((0x00A0, 0x3000, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x0009, 0x000B, 0x000C), " "),
    **dict.fromkeys((0x000D, 0x0085, 0x2028, 0x2029), "\n"),
    **dict.fromkeys("’‘ʼ‛´′", "'"),
    **dict.fromkeys("“”„‟«»《》〈〉「」『』〝〞", '"'),
    **dict.fromkeys("‐‑‒−", "-"),
    **dict.fromkeys("–—―─", "—"),
    **dict.fromkeys("、，﹐،", ","),
    **dict.fromkeys("。．｡", "."),
    "；": ";",
    "：": ":",
    "？": "?",
    "！": "!",
    "…": "...",
    "‥": "..",
    "％": "%",
    "￥": "¥",
    "￡": "£",
    "℃": "°C",
    "℉": "°F",
    "½": " 1/2",
    "¼": " 1/4",
    "¾": " 3/4",
    "‽": "?!",
    "¿": "",
    "¡": "",
    "×": " x ",
    "№": "No.",
    "【": "(",
    "〔": "(",
    "】": ")",
    "〕": ")",
    "～": "~",
    "〜": "~",
    "ﬁ": "fi",
    "ﬂ": "fl",
    "㎡": "平方米",
    "㎞": "公里",
    "㎏": "公斤",
}
_TABLE = {ord(key) if isinstance(key, str) else key: value for key, value in _PLAIN.items()}


class Scanner:
    """Cuts text into tokens; keeps what later characters may still change."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> list[Token]:
        """Tokens that `text` completes."""
        self._held += _canonical(text)
        return self._take(final=False)

    def finish(self) -> list[Token]:
        """All that is left; the scanner is as new afterwards."""
        return self._take(final=True)

    def _take(self, final: bool) -> list[Token]:
        tokens: list[Token] = []
        position = 0
        while position < len(self._held):
            end, token = _next(self._held, position, final)
            if end == position:
                break
            if token is not None:
                tokens.append(token)
            position = end
        self._held = self._held[position:]
        return tokens


def _canonical(text: str) -> str:
    """Width, quotes, dashes and blanks evened out; invisible characters gone. Acts on each character alone."""
    text = text.translate(_TABLE)
    if text.isascii():
        return text
    return "".join(
        unicodedata.normalize("NFKC", c) if "\uf900" <= c <= "\ufaff" else c
        for c in text
        if unicodedata.category(c) not in ("Cf", "Cs", "Co", "Cn") and not "\ufe00" <= c <= "\ufe0f"
    )


def _next(text: str, at: int, final: bool) -> tuple[int, Token | None]:
    """End and token at `at`; the end is `at` itself when more characters are needed, the token None when dropped."""
    first = text[at]
    if first == "<":
        return _angle(text, at, final)
    if first == "[":
        return _bracket(text, at, final)
    if _HAN.match(first):
        return at + 1, Token(Kind.HAN, first)
    if not final and at + 2 >= len(text) and (_JOINER_CHARACTER.match(first)):
        return at, None
    chunk = _CHUNK.match(text, at)
    if chunk is None:
        return at + 1, Token(Kind.GAP, first)
    end = chunk.end()
    if not final and _may_go_on(text[end : end + 4]):
        return at, None
    return end, Token(Kind.CHUNK, unicodedata.normalize("NFC", chunk.group()))


def _may_go_on(rest: str) -> bool:
    """True when more characters could join what follows a chunk to it."""
    return rest in ("", ":/", "://") or (len(rest) == 1 and _JOINER_CHARACTER.match(rest) is not None)


def _angle(text: str, at: int, final: bool) -> tuple[int, Token | None]:
    """A control token (dropped), a tag (dropped unless it is a mark), or a mere sign."""
    found = _CONTROL.match(text, at) or _TAG.match(text, at)
    if found is not None and found.end() - at <= _TAG_LIMIT:
        mark = found.group() in typed_marks()
        return found.end(), Token(Kind.MARK, found.group()) if mark else Token(Kind.GAP, " ")
    rest = text[at + 1 : at + _TAG_LIMIT]
    opens = not rest or re.match(r"/?$|\||/?[A-Za-z]", rest) is not None
    closed = re.search(r"[<>]", rest) is not None or len(rest) == _TAG_LIMIT - 1
    if opens and not closed and not final:
        return at, None
    return at + 1, Token(Kind.GAP, " ")


def _bracket(text: str, at: int, final: bool) -> tuple[int, Token | None]:
    found = _MARK.match(text, at)
    if found is not None and found.group() in typed_marks():
        return found.end(), Token(Kind.MARK, found.group())
    rest = text[at + 1 : at + _MARK_LIMIT]
    open_ended = re.fullmatch(r"[^\[\]\s]*", rest) is not None and len(rest) < _MARK_LIMIT - 1
    if found is None and open_ended and not final:
        return at, None
    return at + 1, Token(Kind.GAP, "(")
