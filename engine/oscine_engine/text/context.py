"""What the tokens read so far leave behind for the reading of the next ones."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from oscine_engine.text.abbreviations import CODE_LINKS, CODE_WORDS
from oscine_engine.text.items import Item, Spoken
from oscine_engine.text.scan import Kind, Token
from oscine_engine.text.tokens import has_digits, is_blank

Language: TypeAlias = Literal["", "en", "zh", "ja", "other"]
"""Of the last thing said; "" at the start of a sentence."""

_ENDS = frozenset(".?!\n")
_RECENT = 14


@dataclass(slots=True)
class Context:
    """The state between two readings; readers look at it, and `advance` alone changes it."""

    before: str = ""
    """The chunk in front, "" at the start of a sentence."""
    before2: str = ""
    """The chunk in front of that."""
    han: str = ""
    """Up to eight Chinese characters directly in front."""
    recent: str = ""
    """Up to fourteen characters in front without blanks, back to the last full stop."""
    after_blank: bool = False
    """A blank stands directly in front."""
    language: Language = ""
    first: Language = ""
    """Of the first thing said in the sentence."""
    code: bool = False
    """A word in front says that a code or a telephone number follows."""
    quoted: bool = False
    """Inside double quotes."""
    operand: bool = False
    """What stands in front, blanks aside, could be the left side of a sign."""
    starred: bool = False
    """The sentence begins with an emphasis that is still open."""
    attached: bool = False
    """At or behind a bracket that a word runs into: f(x), book(s)."""
    equation: bool = False
    """An equals sign was read since the last pause."""
    given: Language = ""
    """Of the text, as whoever sent it says; "" if nobody does."""

    @property
    def in_chinese(self) -> bool:
        """Chinese was said just now, or the sentence began with it: English words in it change nothing. A sentence of a
        text that is said to be Chinese counts as if it had begun so."""
        return self.language == "zh" or (self.language in ("", "en") and "zh" in (self.first, self.given))

    def advance(self, first: Token, last: Token, read: list[Item]) -> None:
        """Go on behind tokens `first` to `last`, which were read as `read`."""
        kind, text = first.kind, first.text
        if kind is Kind.GAP:
            self._pass_sign(text)
            self.operand = self.operand or last.kind is not Kind.GAP
        else:
            self.operand = True
            self.recent = (self.recent + text)[-_RECENT:]
            if kind is Kind.CHUNK:
                self.before2, self.before = self.before, text
                self.code = _code(text, self.code)
            elif kind is Kind.HAN:
                self.before = self.before2 = ""
        self.han = (self.han + last.text)[-8:] if last.kind is Kind.HAN else ""
        self.after_blank = is_blank(last)
        if read:
            self.language = _language(self.language, read)
            self.first = self.first or self.language

    def _pass_sign(self, sign: str) -> None:
        if sign == " ":
            return
        if sign in _ENDS:
            self.before = self.before2 = self.recent = ""
            self.code = False
        elif sign in ":,，(":
            self.recent = (self.recent + sign)[-_RECENT:]
        if sign == "(":
            self.attached = bool(self.before) and self.operand and not self.after_blank and not self.han
        elif sign == ")":
            self.attached = False
        # A star behind a blank begins an emphasis: what it stands in front of has no left side.
        self.operand = sign == ")" or (self.operand and (sign in "}\"'" or (sign == "*" and not self.after_blank)))
        if sign in ",，;:.?!\n":
            self.equation = self.starred = False
        elif sign == "=":
            self.equation = True
        elif sign == '"':
            self.quoted = not self.quoted
        elif sign == "*" and not self.language:
            self.starred = True


def _code(chunk: str, code: bool) -> bool:
    lower = chunk.lower().strip("#'")
    return lower in CODE_WORDS or (
        code and (lower in CODE_LINKS or has_digits(chunk) or (chunk.isupper() and len(chunk) < 4))
    )


def _language(language: Language, read: list[Item]) -> Language:
    for item in read:
        if item.kind is Spoken.HAN:
            language = "ja" if language == "ja" else "zh"
        elif item.kind in (Spoken.WORD, Spoken.LETTERS):
            language = "en"
        elif item.kind is Spoken.OTHER and item.text.isalpha():
            language = "ja" if "\u3040" <= item.text[0] <= "\u30ff" else "other"
    return language
