"""Text as the words that will be said, for people to read and for tests to compare.

Numbers and signs are spelled out, pauses stand as the punctuation that makes them, and marks as they are typed. What a
voice makes of the words, such as saying GPU by its letters, is its own renderer's.
"""

from oscine_engine.text.items import Item, Spoken
from oscine_engine.text.pronunciations import Pronunciations
from oscine_engine.text.scan import Scanner
from oscine_engine.text.segments import SentenceStream
from oscine_engine.text.verbalise import Verbaliser

_STRENGTH = {mark: rank for rank, mark in enumerate(("", ",", ":", ";", "\n", ".", "!", "?"))}
_WIDE = dict(zip(",.?!;:", "，。？！；：", strict=True))


def spoken(text: str, pronunciations: Pronunciations | None = None) -> str:
    """The words of a whole text in one line, sentence after sentence as a session says them."""
    stream = SpokenStream(pronunciations)
    return stream.push(text) + stream.finish()


class SpokenStream:
    """The words of a text that arrives in pieces, as soon as no later character can change them."""

    def __init__(self, pronunciations: Pronunciations | None = None) -> None:
        self._sentences = SentenceStream(pronunciations=pronunciations)
        self._begin()
        self._writer = _Writer()

    def _begin(self) -> None:
        self._scanner, self._verbaliser, self._read = Scanner(), Verbaliser(), 0

    def push(self, text: str) -> str:
        """Words that `text` settles."""
        said = "".join(map(self._finish, self._sentences.push(text)))
        return said + self._go_on(self._sentences.pending)

    def new_line(self) -> str:
        """Behind a newline: the pause that ends the words before it, as far as it is no mere newline; what follows
        stands on a line of its own."""
        return self._writer.finish()

    def finish(self) -> str:
        """All that is left; as new afterwards."""
        rest = "".join(map(self._finish, self._sentences.flush())) + self._writer.finish()
        return rest

    def _go_on(self, sentence: str) -> str:
        """Read on in the open sentence."""
        fresh, self._read = sentence[self._read :], len(sentence)
        return self._writer.write(self._verbaliser.push(self._scanner.push(fresh)))

    def _finish(self, sentence: str) -> str:
        said = self._go_on(sentence)
        said += self._writer.write(self._verbaliser.push(self._scanner.finish()) + self._verbaliser.finish())
        self._begin()
        return said


class _Writer:
    """Items to one line: one blank between words of an alphabet, the strongest of neighbouring pauses."""

    def __init__(self) -> None:
        self._last: Item | None = None
        self._pause = ""
        self._blank = False

    def write(self, items: list[Item]) -> str:
        return "".join(map(self._one, items))

    def finish(self) -> str:
        """The mark at the end of a line."""
        mark = self._mark() if self._last is not None and self._pause != "\n" else ""
        self._last, self._pause, self._blank = None, "", False
        return mark

    def _one(self, item: Item) -> str:
        if item.kind is Spoken.PAUSE:
            self._pause = max(self._pause, item.text, key=lambda pause: _STRENGTH[pause])
            return ""
        if item.kind is Spoken.BLANK:
            self._blank = True
            return ""
        lead = self._lead(item)
        self._last, self._pause, self._blank = item, "", False
        return lead + item.text

    def _lead(self, item: Item) -> str:
        last = self._last
        if last is None:
            return ""
        both_han = last.kind is Spoken.HAN and item.kind is Spoken.HAN
        if self._pause:
            return self._mark() + ("" if both_han else " ")
        if both_han or Spoken.MARK in (last.kind, item.kind):
            return " " if self._blank and not both_han else ""
        if last.kind is Spoken.OTHER and item.kind is Spoken.OTHER:
            return " " if self._blank else ""
        return " "

    def _mark(self) -> str:
        mark = "." if self._pause == "\n" else self._pause
        return _WIDE.get(mark, mark) if self._last is not None and self._last.kind is Spoken.HAN else mark
