"""Spoken items as the words they were written as, each with the sounds that it is heard by."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from oscine_engine.text import mandarin
from oscine_engine.text.english import pronounce, spell
from oscine_engine.text.foreign_sounds import foreign_sounds
from oscine_engine.text.items import Item, Source, Spoken
from oscine_engine.text.lexicon import Phones
from oscine_engine.text.numbers_en import by_digit
from oscine_engine.text.readings_en import read_number
from oscine_engine.text.render import without_blanks
from oscine_engine.text.sounds import any_sound, sound

_PARTS = re.compile(r"[0-9]+|[A-Za-z]+|.", re.DOTALL)
_WIDE = dict(zip(",.?!;:", "，。？！；：", strict=True))


@dataclass(slots=True, eq=False)
class Word:
    """What was written and is read in one go: a word, a number, one Chinese character or kana, a run of typed marks,
    anything in whose place something else is read.

    text: as written, "" for what goes on from a word that was cut. sounds: numbers of `sounds.py`, one at least.
    behind: punctuation and blanks between it and the next word, as far as they are known by now.
    """

    text: str
    sounds: list[int] = field(default_factory=list)
    behind: str = ""


class WordReader:
    """Items with sources in, words out, each as soon as no later item can be part of it.

    rules: "plain" for a model that reads letters of every script, "phones" for one that leaves out what it has no
    sounds for.
    """

    def __init__(self, rules: Literal["plain", "phones"]) -> None:
        self._unknown = [any_sound()] if rules == "plain" else []
        self._ready: list[Word] = []
        self._open: Word | None = None
        self._source: Source | None = None
        """Of the word that was begun last."""
        self._kind: Spoken | None = None
        """What that word consists of."""
        self._last: Word | None = None
        self._silent: Source | None = None
        """Of what came last, if no sound of it has come: if none does, it stands behind a word."""
        self._sign = ""
        """What it is written as there."""
        self._before = ""
        self._han: list[Item] = []
        """Chinese characters that are not yet known to make words, and what stands between them without being said."""
        self._front = ""
        """The Chinese character in front of them."""

    def push(self, items: Iterable[Item]) -> list[Word]:
        """Words that these items complete."""
        for item in items:
            self._one(item)
        ready, self._ready = self._ready, []
        return ready

    def finish(self) -> list[Word]:
        """All that is left. What follows belongs to other words."""
        self._close_han()
        self._close()
        self._put_behind()
        self._before = ""
        return self.push(())

    def _one(self, item: Item) -> None:
        numbers = self._numbers_of(item)
        if item.kind is Spoken.HAN:
            self._before = ""
            self._han.append(item)
            self._cut(final=False)
        elif not numbers and item.kind is not Spoken.PAUSE:
            # Chinese words are looked for across what is not said.
            if self._han:
                self._han.append(item)
            elif self._unknown and item.kind is Spoken.OTHER and (word := self._joined_by(item)) is not None:
                # A sign such as the Russian ь belongs to what stands in front of it.
                word.text += item.text
                self._source = item.source
            else:
                self._part(item)
        else:
            self._close_han()
            self._say(item, numbers)
            if item.kind in (Spoken.WORD, Spoken.LETTERS):
                self._before = item.text

    def _numbers_of(self, item: Item) -> list[int]:
        """The sounds of anything but Chinese characters; empty for what is not said."""
        match item.kind:
            case Spoken.WORD:
                return _phones(pronounce(item.text, self._before))
            case Spoken.LETTERS:
                return _phones(spell(item.text))
            case Spoken.MARK:
                return _numbers([item.text])
            case Spoken.OTHER if item.text[0] in "0123456789":
                read = (read_number(item.text) or by_digit(item.text)).replace(",", "").split()
                return [number for word in read for number in _phones(pronounce(word))]
            case Spoken.OTHER if self._unknown:
                return [number for part in _PARTS.findall(item.text) for number in self._foreign(part)]
        return []

    def _foreign(self, part: str) -> list[int]:
        """The sounds of a letter, or of Latin letters or digits that stand beside others in one word."""
        if part.isascii() and part.isalnum():
            read = by_digit(part).replace(",", "").split() if part.isdigit() else [part]
            return [number for word in read for number in _phones(pronounce(word))]
        known = foreign_sounds(part)
        return self._unknown if known is None else list(known)

    def _close_han(self) -> None:
        self._cut(final=True)
        for item in self._han:
            self._part(item)
        self._han, self._front = [], ""

    def _cut(self, *, final: bool) -> None:
        """Say the Chinese characters that are known to make words."""
        while characters := "".join(item.text for item in self._han if item.kind is Spoken.HAN):
            word = mandarin.next_word(characters, final)
            if word is None:
                return
            readings = [syllable.reading for syllable in mandarin.within_word(word, self._front)]
            self._front = word[-1].character if word else self._front
            said = [_numbers(mandarin.marks_of(reading)) for reading in readings] or [self._unknown]
            while said:
                item = self._han.pop(0)
                if item.kind is Spoken.HAN:
                    self._say(item, said.pop(0))
                else:
                    self._part(item)

    def _say(self, item: Item, numbers: Sequence[int]) -> None:
        if not numbers:
            self._part(item)
        elif self._open is not None and item.source is self._source:
            self._open.sounds += numbers
        elif (word := self._joined_by(item)) is not None and _runs_on(item, word.text):
            word.sounds += numbers
            word.text += item.text
            self._source = item.source
        else:
            self._close()
            if item.source is not self._silent:
                self._put_behind()
            written = "" if item.source is None or item.source is self._source else item.source.text
            self._open = Word(written, list(numbers))
            self._source, self._kind, self._silent = item.source, item.kind, None

    def _joined_by(self, item: Item) -> Word | None:
        """The open word, if `item` may be part of it: of its kind, and both read as they are written."""
        replaced = any(source is not None and source.replaced for source in (item.source, self._source))
        return None if replaced or self._kind is not item.kind else self._open

    def _part(self, item: Item) -> None:
        """Something without a sound: unless it is inside of a word, the word before it has ended."""
        if item.source is None or item.source is self._source or item.source is self._silent:
            return
        self._close()
        self._put_behind()
        sign = item.source.text
        wide = self._last is not None and "\u3040" <= self._last.text[-1:] <= "\u9fff" and item.kind is Spoken.PAUSE
        self._silent, self._sign = item.source, _WIDE.get(sign, sign) if wide else sign

    def _put_behind(self) -> None:
        """Nothing was heard of the last sign."""
        if self._silent is not None and self._last is not None:
            self._last.behind += self._sign
        self._silent = None

    def _close(self) -> None:
        if self._open is not None:
            self._ready.append(self._open)
            self._last, self._open = self._open, None


def _runs_on(item: Item, before: str) -> bool:
    """It makes one word with `before`, of its kind: typed marks do, and letters of scripts with blanks."""
    if item.kind is Spoken.OTHER:
        return not without_blanks(item.text) and not without_blanks(before[-1])
    return item.kind is Spoken.MARK


def _phones(words: Iterable[Phones]) -> list[int]:
    return _numbers(f"[{phone}]" for phones in words for phone in phones)


def _numbers(marks: Iterable[str]) -> list[int]:
    return [number for mark in marks if (number := sound(mark)) is not None]
