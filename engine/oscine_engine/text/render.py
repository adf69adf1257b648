"""Spoken items to ids: as pronunciation marks, or as plain text for a byte-level tokenizer."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Protocol

from oscine_engine.text import mandarin
from oscine_engine.text.english import pronounce, spell
from oscine_engine.text.items import Item, Spoken
from oscine_engine.text.lexicon import Phones
from oscine_engine.text.mandarin import Syllable
from oscine_engine.text.numbers_en import by_digit
from oscine_engine.text.readings_en import read_number
from oscine_engine.text.tokenizer import Tokenizer

_STRENGTH = {mark: rank for rank, mark in enumerate(("", ",", ":", ";", ".", "!", "?"))}
_WIDE = dict(zip(",.?!;:", "，。？！；：", strict=True))
_HAN_PIECE = 8
_WORD_PIECE = 40
"""Letters of a script that parts words by blanks: only what is no word is cut."""
_WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff]")
"""Thai, Lao, Burmese, Khmer and kana."""
_PHONE = re.compile(r"\[[A-Z]{1,2}[012]?\]")
EVENTS = frozenset(
    "[breath] <strong> </strong> [noise] [laughter] [cough] [clucking] [accent] [quick_breath] <laughter> </laughter> "
    "[hissing] [sigh] [vocalized-noise] [lipsmack] [mn]".split()
)
"""Marks of what is no speech, which `PhoneRenderer` leaves out."""
_BARE_VOWELS = frozenset("AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split())


class Renderer(Protocol):
    """Items in, ids out; what later items may change is held back until `finish`."""

    def push(self, items: Iterable[Item]) -> list[int]: ...

    def finish(self) -> list[int]: ...


class PhoneRenderer:
    """Marks for words and characters, one id for the blank between English words, pauses collapsed to the strongest.

    No blank stands beside a pause, and none inside Chinese. Text that ends without a final mark gets a full stop.
    Event marks are left out: the embedded voice was not trained on them. So are letters of other scripts: there are no
    marks for them.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._reset()

    def _reset(self) -> None:
        self._pause = ""
        self._blank = False
        self._last = ""  # "en" or "zh" after speech, "" at the start
        self._before = ""  # the English word in front
        self._characters = ""  # Chinese characters not yet cut into words
        self._word: list[Syllable] = []  # the last word cut off, waiting for its successor
        self._front = ""  # the character in front of `_word`

    def push(self, items: Iterable[Item]) -> list[int]:
        """Ids that these items settle."""
        return [number for item in items for number in self._one(item)]

    def finish(self) -> list[int]:
        """Everything held back, and the final mark."""
        ids = self._close_han()
        if self._last:
            ids.append(self._tokenizer.id(self._pause if self._pause in (",", "?", "!") else "."))
        self._reset()
        return ids

    def _one(self, item: Item) -> list[int]:
        match item.kind:
            case Spoken.HAN:
                self._before = ""
                self._characters += item.text
                return self._cut(final=False)
            case Spoken.PAUSE:
                ids = self._close_han()
                mark = "." if item.text == "\n" else item.text
                if item.text != "\n" or not self._pause:
                    self._pause = max(self._pause, mark, key=lambda pause: _STRENGTH[pause])
                return ids
            case Spoken.WORD:
                return self._english(item.text, pronounce(item.text, self._before))
            case Spoken.LETTERS:
                return self._english(item.text, spell(item.text))
            case Spoken.MARK:
                return self._mark(item.text)
            case Spoken.OTHER if item.text[0] in "0123456789":
                # Its digits at least can be said of a text in a script that has no marks.
                words = (read_number(item.text) or by_digit(item.text)).replace(",", "").split()
                return [number for word in words for number in self._english(word, pronounce(word))]
            case _:
                self._blank = True
                return []

    def _lead(self, script: str) -> list[int]:
        """What parts the coming speech from that before it."""
        ids = []
        if self._last and self._pause:
            ids.append(self._tokenizer.id(self._pause))
        elif self._last and (script == self._last == "en" and self._blank or script != self._last):
            ids.append(self._tokenizer.id(" "))
        self._pause, self._blank, self._last = "", False, script
        return ids

    def _english(self, word: str, sounds: list[Phones]) -> list[int]:
        if not sounds:
            # A lone accent, say: Chinese words are looked for across what is not said.
            return []
        ids = self._close_han()
        for spoken in sounds:
            ids += self._lead("en")
            ids += [self._tokenizer.id(f"[{phone}]") for phone in spoken]
            self._blank = True
        self._before = word
        return ids

    def _mark(self, mark: str) -> list[int]:
        if mark in EVENTS:
            return []
        if not _PHONE.fullmatch(mark) or mark in ("[a]", "[e]"):
            ids = self._close_han() + self._lead("zh")
        else:
            ids = self._close_han() + self._lead("en")
            if mark[1:-1] in _BARE_VOWELS:
                mark = f"{mark[:-1]}0]"
        return [*ids, self._tokenizer.id(mark)]

    def _close_han(self) -> list[int]:
        ids = self._cut(final=True)
        ids += self._say(self._word)
        self._word, self._front = [], ""
        return ids

    def _cut(self, final: bool) -> list[int]:
        """Cut waiting characters into words; say each word once its successor is known."""
        ids: list[int] = []
        while self._characters and (word := mandarin.next_word(self._characters, final)) is not None:
            self._characters = self._characters[max(1, len(word)) :]
            if not word:
                continue
            previous = self._word[-1].character if self._word else ""
            word = mandarin.within_word(word, previous)
            ids += self._say(mandarin.across(self._word, word, self._front))
            self._front, self._word = previous, word
        return ids

    def _say(self, word: list[Syllable]) -> list[int]:
        if not word:
            return []
        ids = self._lead("zh")
        for syllable in word:
            ids += [self._tokenizer.id(mark) for mark in mandarin.marks_of(syllable.reading)]
        return ids


def without_blanks(letter: str) -> bool:
    """A letter of a script that writes words without blanks between them."""
    return _WITHOUT_BLANKS.match(letter) is not None


def _ends_in_letter(piece: str) -> bool:
    """The last character is a letter, a digit, or a mark upon one, as vowels of Thai and Hindi are."""
    return piece[-1:].isalnum() or (piece != "" and unicodedata.category(piece[-1])[0] == "M")


class PlainRenderer:
    """Normalised text for a byte-level tokenizer, encoded in pieces that its pre-tokenizer cuts at anyway: before a
    blank, and between a letter and what is none. Runs of scripts without blanks are also cut after every eighth
    character.

    Punctuation takes the width that the script before it uses. A missing final mark is added.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._reset()

    def _reset(self) -> None:
        self._piece = ""
        self._blank = False
        self._started = False
        self._wide = False  # the last letter was Chinese
        self._run = 0  # characters of Chinese or another script in the piece
        self._worded = False  # the last of them is of a script that parts words by blanks

    def push(self, items: Iterable[Item]) -> list[int]:
        """Ids that these items settle."""
        return [number for item in items for number in self._one(item)]

    def finish(self) -> list[int]:
        """Everything held back, and the final mark."""
        ids: list[int] = []
        if _ends_in_letter(self._piece):
            ids = self._emit()
            self._piece = "。" if self._wide else "."
        ids += self._emit()
        self._reset()
        return ids

    def _one(self, item: Item) -> list[int]:
        match item.kind:
            case Spoken.BLANK:
                self._blank = True
                return []
            case Spoken.PAUSE:
                if not self._started:
                    return []
                mark = "." if item.text == "\n" else item.text
                self._blank = self._blank or item.text == "\n"
                if item.text == "\n" and self._piece and not _ends_in_letter(self._piece):
                    return []
                if mark == "," and self._piece and not _ends_in_letter(self._piece):
                    return []
                ids = self._emit() if _ends_in_letter(self._piece) else []
                self._piece += _WIDE[mark] if self._wide else mark
                return ids
            case Spoken.MARK:
                ids = self._blank_before() + self._emit()
                self._started = True
                return [*ids, *self._encode(item.text)]
        ids = self._blank_before()
        self._started = True
        self._wide = item.kind is Spoken.HAN
        if self._run >= (_WORD_PIECE if self._worded else _HAN_PIECE):
            ids += self._emit()
        if self._wide or item.kind is Spoken.OTHER:
            self._run += 1
            self._worded = not self._wide and not without_blanks(item.text)
        self._piece += item.text
        return ids

    def _blank_before(self) -> list[int]:
        """Start a new piece with the blank that stands before the coming word, if any."""
        ids: list[int] = []
        if self._blank and self._started and not self._wide:
            ids = self._emit()
            self._piece = " "
        self._blank = False
        return ids

    def _emit(self) -> list[int]:
        ids = self._encode(self._piece)
        self._piece, self._run = "", 0
        return ids

    def _encode(self, text: str) -> list[int]:
        return [number for number in self._tokenizer.encode(text) if number not in self._tokenizer.control_ids]
