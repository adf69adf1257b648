"""Text to LM ids: the rules of one checkpoint in front of its tokenizer."""

from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from oscine_engine.text.characters import GREEK
from oscine_engine.text.context import Language
from oscine_engine.text.incremental import PieceStream, WordStream
from oscine_engine.text.render import EVENTS, PhoneRenderer, PlainRenderer, Renderer
from oscine_engine.text.scan import Kind, Scanner
from oscine_engine.text.tokenizer import Tokenizer
from oscine_engine.text.word_sounds import WordReader

Rules = Literal["plain", "phones"]

_GIVEN: dict[str, Language] = {"": "", "en": "en", "zh": "zh", "ja": "ja"}
"""What the front end knows of a language; of others, that it reads none of their numbers."""


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """Rules and tokenizer of one checkpoint.

    rules: "phones" writes English and Mandarin as pronunciation marks (the embedded voice); "plain" gives normalised
    text to a byte-level tokenizer (the released model).
    """

    rules: Rules
    tokenizer: Tokenizer

    def whole(self, text: str) -> list[int]:
        """Ids of one text in one piece; never a control id, whatever was typed."""
        stream = self.stream()
        return stream.push(text) + stream.finish()

    def stream(self) -> WordStream:
        """A fresh incremental reader of one text in one piece."""
        return WordStream(self._renderer())

    def pieces(self, *, words: bool = False, language: str | None = None) -> PieceStream:
        """A fresh incremental reader of one sentence, which cuts it where it is too long for one segment. words: it
        also tells the words of each piece. language: of the text, if somebody says so."""
        reader = WordReader(self.rules) if words else None
        return PieceStream(self._renderer(), reader=reader, language=_GIVEN.get(language or "", "other"))

    def warm(self) -> None:
        """Load what the first sentence would otherwise wait for (dictionaries, about 0.5 s once a process)."""
        self.whole("Zyzzogeton 你好")

    def _renderer(self) -> Renderer:
        return PhoneRenderer(self.tokenizer) if self.rules == "phones" else PlainRenderer(self.tokenizer)

    def speakable(self, text: str) -> bool:
        """False for text that this checkpoint has nothing to say for: blanks, punctuation, emoji, foreign scripts."""
        if self.rules == "phones":
            return speakable(text)
        return speakable(text) or any(c.isalnum() for c in text)

    def unread(self, text: str) -> str:
        """The letters of `text` that this checkpoint leaves out because it has no way to read them, "" for none."""
        return "".join(unread(self.rules, text))


def unread(rules: Rules, text: str) -> list[str]:
    """What a checkpoint with these rules leaves out of `text`, having no way to read it: letters, those that stand
    together as one, in their order."""
    if rules != "phones":
        return []
    scanner = Scanner()
    tokens = scanner.push(text) + scanner.finish()
    runs = groupby(tokens, lambda token: token.kind is Kind.OTHER and token.text not in GREEK)
    return ["".join(token.text for token in run) for left_out, run in runs if left_out]


def left_out(rules: Rules, text: str) -> list[str]:
    """What `unread` tells, and typed marks of events that such a checkpoint does not make, in no order."""
    if rules != "phones":
        return []
    scanner = Scanner()
    tokens = scanner.push(text) + scanner.finish()
    return [*unread(rules, text), *(each.text for each in tokens if each.kind is Kind.MARK and each.text in EVENTS)]


def speakable(text: str) -> bool:
    """True when `text` has a letter, a digit, a Chinese character or a typed mark."""
    scanner = Scanner()
    tokens = scanner.push(text) + scanner.finish()
    return any(
        token.kind in (Kind.HAN, Kind.MARK) or (token.kind is Kind.CHUNK and any(c.isalnum() for c in token.text))
        for token in tokens
    )


def language(text: str) -> Literal["en", "zh"]:
    """Language of a text by its script: "zh" when it holds more Chinese characters than Latin words."""
    scanner = Scanner()
    tokens = scanner.push(text) + scanner.finish()
    han = sum(token.kind is Kind.HAN for token in tokens)
    words = sum(token.kind is Kind.CHUNK for token in tokens)
    return "zh" if han > words else "en"
