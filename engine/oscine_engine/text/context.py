"""What the tokens read so far leave behind for the reading of the next ones."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from oscine_engine.text.abbreviations import CODE_LINKS, CODE_WORDS
from oscine_engine.text.items import Item, Spoken
from oscine_engine.text.scan import Kind, Token
from oscine_engine.text.tokens import has_digits, is_blank

Language: TypeAlias = Literal["", "en", "zh", "ja", "other"]
"""Of the last thing said; "" at the start of a sentence."""

_ENDS = frozenset(".?!\n")
_RECENT = 14


@dataclass(frozen=True, slots=True)
class Context:
    """The state between two readings."""

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
    equation: bool = False
    """An equals sign was read since the last pause."""

    @property
    def in_chinese(self) -> bool:
        """Chinese was said just now, or the sentence began with it: English words in it change nothing."""
        return self.language == "zh" or (self.language == "en" and self.first == "zh")

    def after(self, first: Token, last: Token, read: list[Item]) -> "Context":
        """The context behind tokens `first` to `last`, which were read as `read`."""
        if is_blank(first) and first is last:
            return self if self.after_blank else replace(self, after_blank=True, han="")
        before, before2, recent, code = self.before, self.before2, self.recent, self.code
        if first.kind is Kind.CHUNK:
            before, before2 = first.text, before
            code = _code(first.text, code)
            recent = (recent + first.text)[-_RECENT:]
        elif first.kind is Kind.HAN:
            before = before2 = ""
            recent = (recent + first.text)[-_RECENT:]
        elif first.text in _ENDS:
            before, before2, recent, code = "", "", "", False
        elif first.text in ":,，":
            recent = (recent + first.text)[-_RECENT:]
        ends = first.text in ",，;:.?!\n" and first.kind is Kind.GAP
        speaks = first.kind is not Kind.GAP
        language = _language(self.language, read)
        return Context(
            before=before,
            before2=before2,
            han=(self.han + last.text)[-8:] if last.kind is Kind.HAN else "",
            recent=recent,
            after_blank=is_blank(last),
            language=language,
            first=self.first or language,
            code=code,
            quoted=self.quoted != (first.text == '"'),
            operand=speaks or first.text in ")" or (self.operand and first.text in "}\"'*"),
            starred=(self.starred or (first.text == "*" and not self.language)) and not (self.starred and ends),
            equation=(self.equation or first.text == "=") and not ends,
        )


START = Context()


def _code(chunk: str, code: bool) -> bool:
    lower = chunk.lower().strip("#'")
    return lower in CODE_WORDS or (code and (lower in CODE_LINKS or has_digits(chunk)))


def _language(language: Language, read: list[Item]) -> Language:
    for item in read:
        if item.kind is Spoken.HAN:
            language = "ja" if language == "ja" else "zh"
        elif item.kind in (Spoken.WORD, Spoken.LETTERS):
            language = "en"
        elif item.kind is Spoken.OTHER and item.text.isalpha():
            language = "ja" if "\u3040" <= item.text[0] <= "\u30ff" else "other"
    return language
