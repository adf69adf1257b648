"""Text as it arrives -> segments to speak, as plain steps. No I/O, no clock.

A segment is one sentence, or a piece of a very long one (`text/pieces.py`). The planner decides where segments begin
and end and which ids they read; what it decides depends on the text and the flushes, never on how the text was cut into
messages. Sentences without anything to say are skipped.

Per sentence, by mode and place:

    mode          first sentence   later sentences
    SENTENCE      whole            whole
    INTERLEAVED   as it arrives    as it arrives
    AUTO          as it arrives    whole

Whole: begin, all ids and end come in one go, once the sentence is complete. As it arrives: begin comes with the first
ids that can no longer change, end with the sentence's last. The pieces of a long sentence follow each other likewise.

Japanese is whole in every mode: how its kanji are read hangs on what follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from oscine_engine.events import Mode
from oscine_engine.text import japanese
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.text.incremental import PieceStream
from oscine_engine.text.joining import Joiner
from oscine_engine.text.origins import Origin, edited, within
from oscine_engine.text.pronunciations import Pronunciations
from oscine_engine.text.segments import SentenceStream
from oscine_engine.text.silence import LONGEST_S
from oscine_engine.text.word_sounds import Word

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Begin:
    """A new segment starts; `whole` tells that its text arrives complete. rate: that its text asks for, times the
    session's own. silence_s: that its text asks for between the segment before and this one, or at the start."""

    whole: bool
    rate: float = 1.0
    silence_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ids:
    """More text ids of the open segment."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The open segment's text is complete."""


Step: TypeAlias = Begin | Ids | End


@dataclass(frozen=True, slots=True)
class SegmentWord:
    """A word of the segment that began as number `segment`, from 0."""

    segment: int
    word: Word


class Planner:
    """One session's text. Sentences without a speakable character begin no segment.

    segments: how many have begun. first_end: how many had when the first sentence was complete that the last `push` or
    `flush` completed; None where it completed none. unread: letters left out so far, as the model has
    no way to read them.
    """

    def __init__(
        self,
        front_end: FrontEnd,
        mode: Mode,
        *,
        words: bool = False,
        language: str | None = None,
        pronunciations: Pronunciations | None = None,
    ) -> None:
        """words: to tell the words of each segment. language: of the text, where somebody says so. pronunciations: what
        is read in place of words."""
        self._front_end = front_end
        self._mode = mode
        self._joiner = Joiner()
        self._sentences = SentenceStream(pronunciations=pronunciations)
        self._language = language
        self._japanese = language == "ja"
        self._words: PieceStream | None = None
        self._read = 0
        self._searched = 0
        self._open = False
        self._silence_s = 0.0
        """Asked for in front of sentences that had nothing to say, to stand in front of the next that has."""
        self._tells_words = words
        self._early: list[Word] = []
        """Words of a segment that has not begun, since none of its ids is certain."""
        self._told: list[SegmentWord] = []
        self.segments = 0
        self.first_end: int | None = None
        self.unread = 0

    def push(self, text: str) -> list[Step]:
        """Append text; returns what can be decided now."""
        steps: list[Step] = []
        self._close_all(self._sentences.push(self._joiner.push(text)), steps)
        if self._arriving:
            self._wait(self._sentences.take_silence())
            self._advance(self._sentences.pending, self._sentences.pending_origins, self._sentences.rate, steps)
        return steps

    def flush(self) -> list[Step]:
        """Everything so far is complete: ends the open sentence."""
        steps: list[Step] = []
        self._close_all(self._sentences.flush(), steps)
        return steps

    def take_words(self) -> list[SegmentWord]:
        """Words settled since the last time, in order."""
        told, self._told = self._told, []
        return told

    @property
    def finished(self) -> bool:
        """Text waits that a reader would call finished, so that only what comes next could tell otherwise."""
        return self._sentences.finished and not self._joiner.waiting

    @property
    def waiting(self) -> bool:
        """There is text whose sentence is not complete."""
        return self._sentences.waiting or self._joiner.waiting

    @property
    def certain(self) -> bool:
        """There is text whose sentence will be said, whatever follows; what else waits may yet be left out."""
        return self._sentences.certain

    @property
    def speaking(self) -> bool:
        """A segment has begun whose text is not complete."""
        return self._open

    @property
    def _arriving(self) -> bool:
        if self._japanese:
            return False
        match self._mode:
            case Mode.SENTENCE:
                return False
            case Mode.INTERLEAVED:
                return True
            case Mode.AUTO:
                return self.segments == 0 or self._words is not None

    def _advance(
        self, pending: str, origins: Sequence[Origin], rate: int, steps: list[Step], *, whole: bool = False
    ) -> None:
        """Read on in the open sentence; nothing is read before it has something to say. `whole`: all of it is here."""
        if self._words is None:
            fresh, self._searched = pending[self._searched :], len(pending)
            # Hardly anything is speakable without a letter or digit: a run of signs is not searched at each message.
            if not whole and not any(c.isalnum() for c in fresh):
                return
            if not self._front_end.speakable(pending):
                return
            self._words = self._pieces()
        pieces = self._words.push(pending[self._read :], within(origins, self._read, len(pending)))
        self._emit(pieces, self._words.words, rate, steps)
        self._read = len(pending)

    def _close_all(self, sentences: list[str], steps: list[Step]) -> None:
        self.first_end = None
        told = self._sentences
        for sentence, rate, origins, silence_s in zip(sentences, told.rates, told.origins, told.silences, strict=True):
            self._wait(silence_s)
            self._close(sentence, origins, rate, steps)
            if self.first_end is None:
                self.first_end = self.segments

    def _wait(self, silence_s: float) -> None:
        self._silence_s = min(self._silence_s + silence_s, LONGEST_S)

    def _begin(self, whole: bool, rate: int) -> Begin:
        self.segments += 1
        silence_s, self._silence_s = self._silence_s, 0.0
        return Begin(whole, rate / 100, silence_s)

    def _close(self, sentence: str, origins: tuple[Origin, ...], rate: int, steps: list[Step]) -> None:
        if self._japanese:
            sentence, origins = edited(sentence, japanese.readings(sentence), origins)
        if not sentence.isascii():
            self.unread += len(self._front_end.unread(sentence))
        if self._arriving:
            self._advance(sentence, origins, rate, steps, whole=True)
            if self._words is not None:
                self._emit(self._words.finish(), self._words.words, rate, steps)
            self._end(steps)
            self._words, self._read, self._searched = None, 0, 0
        elif self._front_end.speakable(sentence):
            reader = self._pieces()
            first, early = reader.push(sentence, origins), reader.words
            pieces = _pieces(first, reader.finish())
            for ids, words in zip(pieces, _pieces(early, reader.words), strict=True):
                if ids:
                    steps += (self._begin(whole=True, rate=rate), Ids(tuple(ids)), End())
                    self._tell(words)

    def _pieces(self) -> PieceStream:
        return self._front_end.pieces(words=self._tells_words, language=self._language)

    def _emit(self, pieces: list[list[int]], words: list[list[Word]], rate: int, steps: list[Step]) -> None:
        for number, ids in enumerate(pieces):
            if number:
                self._end(steps)
            self._early += words[number]
            if ids:
                if not self._open:
                    self._open = True
                    steps.append(self._begin(whole=False, rate=rate))
                steps.append(Ids(tuple(ids)))
            if self._open:
                self._tell(self._early)
                self._early = []

    def _tell(self, words: list[Word]) -> None:
        self._told += [SegmentWord(self.segments - 1, word) for word in words]

    def _end(self, steps: list[Step]) -> None:
        if self._open:
            steps.append(End())
        self._open = False
        self._early = []


def _pieces(first: list[list[T]], last: list[list[T]]) -> list[list[T]]:
    """Both in order; the first of `last` goes on with the last of `first`."""
    return [*first[:-1], first[-1] + last[0], *last[1:]]
