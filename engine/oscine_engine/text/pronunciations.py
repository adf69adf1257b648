"""A user's lexicon: words, and what is written in their place before a text is read.

What stands in place of a word is text like any other: a respelling ("Nguyen" -> "win"), pronunciation marks
("行" -> "[x][íng]"), or both. Words of letters and digits count as whole words only, capitals or not; Chinese words
count wherever they stand. Of several that begin at one place the longest counts. What is put in is not searched again.
"""

import re
from collections.abc import Mapping, Sequence

from oscine_engine.errors import InvalidInput
from oscine_engine.text.controls import without_marks
from oscine_engine.text.origins import Edit, Origin, edited, moved, within

MOST_WORDS = 2000
LONGEST_WORD = 60
LONGEST_READING = 300
_WORDLIKE = re.compile(r"[A-Za-z0-9\u00c0-\u024f]")


class Pronunciations:
    """Replaces words of a text that arrives in pieces; holds back what may become one of them."""

    def __init__(self, readings: Mapping[str, str]) -> None:
        """readings: word -> what to read in its place. Raises InvalidInput for entries out of range."""
        if len(readings) > MOST_WORDS:
            raise InvalidInput(f"pronunciations: {len(readings)} words; at most {MOST_WORDS} are taken")
        self._readings: dict[str, str] = {}
        for word, reading in readings.items():
            if not word.strip() or len(word) > LONGEST_WORD or "\n" in word:
                raise InvalidInput(
                    f"pronunciations: {word[:LONGEST_WORD]!r} is no word of 1 to {LONGEST_WORD} characters"
                )
            if len(reading) > LONGEST_READING or "\n" in reading:
                raise InvalidInput(
                    f"pronunciations: the reading of {word!r} is longer than {LONGEST_READING} characters or has a "
                    "newline"
                )
            self._readings[_small(word.strip())] = without_marks(reading)
        self._longest = max(map(len, self._readings), default=0)
        self._beginnings = {word[:length] for word in self._readings for length in range(1, len(word) + 1)}
        words = "|".join(map(_bounded, sorted(self._readings, key=len, reverse=True)))
        # Without a word there is nothing to find, where an empty pattern would be found everywhere.
        self._words = re.compile(words or "(?!)", re.IGNORECASE)

    def stream(self) -> "PronunciationStream":
        """A fresh reader of one text."""
        return PronunciationStream(self)

    def edits(self, text: str, before: str) -> list[Edit]:
        """What is read in place of the words of `text`, `before` being the character in front of it."""
        shift = len(before)
        return [
            Edit(match.start() - shift, match.end() - shift, self._readings[word])
            for match in self._words.finditer(before + text, shift)
            # A pattern takes "İ" for a capital of "i".
            if (word := _small(match[0])) in self._readings
        ]

    def settled(self, text: str, before: str) -> int:
        """How many characters of `text` no longer hang on what follows."""
        whole, shift = before + text, len(before)
        at = shift
        while True:
            held = self._may_begin(whole, at)
            match = self._words.search(whole, at)
            if match is None or match.start() >= held:
                return held - shift
            # It begins before all that may go on, so that nothing can become of it any more.
            at = match.end()

    def _may_begin(self, whole: str, at: int) -> int:
        """The first place from `at` on whose rest could go on to a word, or the end."""
        small = _small(whole)
        for start in range(max(at, len(whole) - self._longest), len(whole)):
            inside = start > 0 and _WORDLIKE.match(whole[start - 1]) and _WORDLIKE.match(whole[start])
            if not inside and small[start:] in self._beginnings:
                return start
        return len(whole)


class PronunciationStream:
    """One text on its way. origins: of what the last call gave."""

    def __init__(self, pronunciations: Pronunciations) -> None:
        self._pronunciations = pronunciations
        self._before = ""
        self.held = ""
        self._held_origins: tuple[Origin, ...] = ()
        self.origins: tuple[Origin, ...] = ()

    def push(self, text: str, origins: Sequence[Origin] = ()) -> str:
        """What `text`, which has `origins`, settles, replaced."""
        origins = (*self._held_origins, *moved(origins, len(self.held)))
        whole = self.held + text
        return self._take(whole, origins, self._pronunciations.settled(whole, self._before))

    def flush(self, text: str = "", origins: Sequence[Origin] = ()) -> str:
        """What is held back, and `text` behind it; as new afterwards."""
        origins = (*self._held_origins, *moved(origins, len(self.held)))
        whole = self.held + text
        rest = self._take(whole, origins, len(whole))
        self._before = ""
        return rest

    def _take(self, whole: str, origins: Sequence[Origin], end: int) -> str:
        edits = self._pronunciations.edits(whole[:end], self._before)
        together: list[Edit | Origin] = [*edits, *origins]
        # What was written in one go stays together, however the text was cut.
        while crossed := [one.start for one in together if one.start < end < one.end]:
            end = min(crossed)
        edits = [one for one in edits if one.end <= end]
        settled, self.held = whole[:end], whole[end:]
        self._held_origins = within(origins, end, len(whole))
        said, self.origins = edited(settled, edits, within(origins, 0, end))
        self._before = settled[-1:] or self._before
        return said


def _small(text: str) -> str:
    """In small letters, one for each character wherever it stands: "İ", which would be two, stays."""
    if text.isascii():
        return text.lower()
    folded = ((character, character.casefold(), character.lower()) for character in text)
    return "".join(next((small for small in (fold, low) if len(small) == 1), each) for each, fold, low in folded)


def _bounded(word: str) -> str:
    left = r"(?<![A-Za-z0-9\u00c0-\u024f])" if _WORDLIKE.match(word[0]) else ""
    right = r"(?![A-Za-z0-9\u00c0-\u024f])" if _WORDLIKE.match(word[-1]) else ""
    return left + re.escape(word) + right
