"""Text as it arrives -> sentences, decided by the characters alone, never by where messages were cut.

| where | the sentence ends |
| --- | --- |
| newline | at once |
| full-width 。！？; ! ? after a Chinese character | at once |
| ! ? then a blank; . after a common small-letter word, then a blank | at once |
| . ! ? … in any other company, then a blank | when the next character is here and is no small letter |
| . ! ? directly before a capital, after a small letter ("there.How") | there |

A full stop ends nothing after a title (Dr.), an initial (J.), a list number (3.) or No. before a digit. Closing quotes
and brackets stay with their sentence; behind a full-width mark, which ends at once, they open the next one. A sentence
needs a letter, a digit or a sign that may be said; marks without one go to the next sentence, or are what a flush
leaves, or stand alone where they have no end. No character is lost: the sentences and what a flush gives are the text.

Where the table wants to see what comes next, a reader who sees nothing come decides by less (`finished`): any . ! ? or
… at the end will do, closing quotes, brackets and emoji aside, but for a full stop that surely goes on: after a title,
or in a list number that stands alone.

A sentence longer than `longest_s` is cut where it can be, so that speaking it need not wait for its end: after half of
that at the next ; : — or comma, after two thirds where Chinese words part (`breaks.py`), after four fifths at the
next blank, at the limit anywhere. Only a newline ends one inside a tag, half of which would be said. Cuts
are made going forward only, so `pending` never has to be taken back. The time is a guess from the characters; that no
piece outlasts a segment is seen to later, where it is known what is said (`pieces.py`). Very short sentences are not
joined with their successors: that would delay their sound.
"""

import re
import unicodedata
from collections.abc import Sequence

from oscine_engine.text import controls, silence
from oscine_engine.text.breaks import may_part
from oscine_engine.text.markup import Markup
from oscine_engine.text.origins import Origin, moved, within
from oscine_engine.text.pronunciations import Pronunciations
from oscine_engine.text.rate import of_mark
from oscine_engine.text.scan import in_tag

_WIDE_MARKS = frozenset("。！？｡‼⁇⁈⁉")
_MARKS = ".!?…"
_CLOSERS = "\"'”’)]}»›」』】》）*_"
_SOFT = frozenset(",;:，；：、—")
_SCHEMES = ("http:", "https:", "mailto:")
_SIGNS = frozenset("%&@+#=/_$£€¥°×№℃℉㎡㎞㎏％＆＠＋＃＝／＿＄￡￥")
"""What may be said although it is neither letter nor digit."""
_EMOJI_JOINERS = "\u200d\ufe0f"
_HAN = re.compile("[\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]")
_TITLES = frozenset(
    "mr mrs ms dr prof st mt gen capt sgt rev fig vs approx dept e.g i.e cf ext rm apt "
    "jan feb mar apr jun jul aug sep sept oct nov dec tues thurs".split()
)
_CAPITAL_TITLES = frozenset("Gov Sen Rep Lt Col Maj Hon Ft Mon Tue Wed Thu Fri Sat Sun Figs Pres Ch Vol".split())
"""With a capital they go on like _TITLES."""
_DOUBTFUL = frozenset(
    "no nos etc inc ltd co jr sr a.m p.m ave blvd est al vol ed pp min max p ch sec eq art para esp incl excl avg temp "
    "tsp tbsp oz lb lbs ft in yd yds mi gal pt qt doz hr hrs mins secs yr yrs mo wk wks kg km cm mm ml".split()
)
_NUMBERED = frozenset("no nos p pp vol ch fig figs eq sec art para rte op exp ft lb lbs max min".split())
"""In front of digits these go on."""
_GOES_ON = frozenset("mr mrs ms dr prof mt gen capt sgt rev fig vs approx e.g i.e cf ext rm apt".split())
"""Before a full stop at the end of what is there, these promise more. Months and St. may well end a sentence."""
_PLAIN_RUN = re.compile("[a-z ]+")
"""Behind a small letter, blanks aside, nothing of this ends a sentence or begins another."""
_PLAIN_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_LAST_WORD = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*$")
_LONGEST_SILENCE = 1000
"""Characters without anything to say that are kept for the next sentence; more are handed out as they are."""
_LETTER_MS = 70
_SHARE_AT_BLANK = 0.8
"""Of the longest sentence, beyond which a blank will do to cut at."""
_SHARE_AT_WORD = 0.65
"""Likewise between two Chinese words: before `pieces.py`, which reckons Chinese slower, would cut off a short rest."""
_RECENT = 60
"""Characters looked back at; longer words are no abbreviations."""


class SentenceStream:
    """One session's text without what is never said (`markup.py`), cut into sentences. For every way of cutting a text
    into pushes the sentences are the same.

    rate: of what is pending, in percent of the voice's own (`rate.py`); a change of it ends a sentence.
    pending_origins: of what is pending, where it is read in place of something else.
    rates, origins: the same of each of the sentences that the last call finished.
    silences: seconds that the text asks for in front of each of these.
    """

    def __init__(self, longest_s: float = 20.0, pronunciations: Pronunciations | None = None) -> None:
        """pronunciations: what is read in place of a user's words."""
        self._markup = Markup()
        self._words = None if pronunciations is None else pronunciations.stream()
        self._splitter = Splitter(longest_s)
        self.rate = 100
        self.rates: list[int] = []
        self.pending_origins: tuple[Origin, ...] = ()
        self.origins: list[tuple[Origin, ...]] = []
        self.silences: list[float] = []
        self._silence_s = 0.0
        """In front of what is pending."""

    @property
    def pending(self) -> str:
        """The unfinished sentence so far; the finished one will begin with it."""
        return self._splitter.pending

    @property
    def waiting(self) -> bool:
        """Something is pending that may be said."""
        return self._splitter.speaks or bool(self._held)

    @property
    def certain(self) -> bool:
        """Something is pending that will be said, whatever follows."""
        return self._splitter.speaks

    @property
    def finished(self) -> bool:
        """What is pending would pass for a sentence, if nothing came behind it."""
        return self._splitter.finished_with(self._held)

    @property
    def _held(self) -> str:
        words = "" if self._words is None else self._words.held
        return words + self._markup.held

    def take_silence(self) -> float:
        """Seconds of silence that the text asks for in front of what is pending, once."""
        taken, self._silence_s = self._silence_s, 0.0
        return taken

    def push(self, text: str) -> list[str]:
        """Sentences that `text` finishes, with the blanks behind them."""
        text, origins = self._markup.push(text), self._markup.origins
        if self._words is not None:
            text = self._words.push(text, origins)
            origins = self._words.origins
        self.rates, self.origins, self.silences = [], [], []
        return self._split(text, origins)

    def flush(self) -> list[str]:
        """What is left, as a last sentence, even if it has nothing to say; the stream is as new afterwards, but for its
        rate."""
        rest, origins = self._markup.flush(), self._markup.origins
        if self._words is not None:
            rest = self._words.flush(rest, origins)
            origins = self._words.origins
        self.rates, self.origins, self.silences = [], [], []
        return self._split(rest, origins) + self._flushed()

    def _split(self, text: str, origins: Sequence[Origin]) -> list[str]:
        """The sentences that `text` finishes. Where the rate changes, and in front of a silence, one is over."""
        at, sentences = 0, list[str]()
        for change in controls.MARKS.finditer(text):
            if (silence_s := silence.of_mark(change[0])) is not None:
                sentences += self._pushed(text[at : change.start()], within(origins, at, change.start()))
                sentences += self._flushed()
                self._silence_s, at = min(self._silence_s + silence_s, silence.LONGEST_S), change.end()
                continue
            rate, begins = of_mark(change[0])
            sentences += self._pushed(text[at : change.start()], within(origins, at, change.start()))
            if begins and (before := self._splitter.pending.rstrip()) and before[-1].isalnum():
                sentences += self._pushed("，" if _HAN.match(before[-1]) else ",")
            sentences += self._flushed()
            self.rate, at = rate, change.end()
        return sentences + self._pushed(text[at:], within(origins, at, len(text)))

    def _pushed(self, text: str, origins: Sequence[Origin] = ()) -> list[str]:
        self.pending_origins += moved(origins, len(self._splitter.pending))
        return self._told(self._splitter.push(text))

    def _flushed(self) -> list[str]:
        return self._told(self._splitter.flush())

    def _told(self, sentences: list[str]) -> list[str]:
        self.rates += [self.rate] * len(sentences)
        at = 0
        for sentence in sentences:
            self.origins.append(within(self.pending_origins, at, at + len(sentence)))
            self.silences.append(self.take_silence())
            at += len(sentence)
        if sentences:
            self.pending_origins = within(self.pending_origins, at, at + len(self._splitter.pending))
        return sentences


class Splitter:
    """Splits text, of which no character is lost."""

    def __init__(self, longest_s: float = 20.0) -> None:
        self._longest_ms = round(1000 * longest_s)
        self._text = ""
        self._speech_ms = 0
        """Whole numbers: the sum is the same however the text was cut."""
        self._speaks = False
        self._plain = False
        """The last character, blanks aside, is a small Latin letter."""

    @property
    def pending(self) -> str:
        """The unfinished sentence so far; the finished one will begin with it."""
        return self._text

    @property
    def speaks(self) -> bool:
        """There is something to say in what is pending."""
        return self._speaks

    def finished_with(self, more: str) -> bool:
        """What is pending, and `more` behind it, would pass for a sentence, if nothing else came."""
        return self._speaks and _finished(self._text + more) and not in_tag(self._text + more)

    def push(self, text: str) -> list[str]:
        """Sentences that `text` finishes, with the blanks behind them."""
        finished: list[str] = []
        at = 0
        while at < len(text):
            if (run := self._plain_run(text, at)) > at:
                self._text += text[at:run]
                self._plain = self._speaks = True
                at = run
            else:
                finished += self._one(text[at])
                at += 1
        return finished

    def _plain_run(self, text: str, at: int) -> int:
        """Where a run from `at` on ends that only makes the sentence longer, its time counted; `at` if none does."""
        if not (self._plain or (not self._text and text[at] in _PLAIN_LETTERS)):
            return at
        run = _PLAIN_RUN.match(text, at)
        if run is None:
            return at
        letters = run.end() - at - text.count(" ", at, run.end())
        speech_ms = self._speech_ms + letters * _LETTER_MS
        if speech_ms >= _SHARE_AT_BLANK * self._longest_ms:
            return at
        self._speech_ms = speech_ms
        return run.end()

    def flush(self) -> list[str]:
        """What is left, as a last sentence, even if it has nothing to say; the stream is as new afterwards."""
        rest = self._text
        self._start()
        return [rest] if rest else []

    def _start(self) -> None:
        self._text, self._speech_ms, self._speaks, self._plain = "", 0, False, False

    def _one(self, character: str) -> list[str]:
        """A sentence can end before a character and with it."""
        finished: list[str] = []
        if (
            self._speaks
            and (_ends_before(self._text[-_RECENT:], character) or self._parts_before(character))
            and not in_tag(self._text + character)
        ):
            finished.append(self._text)
            self._start()
        self._text += character
        self._speech_ms += _speech_ms(character)
        self._plain = character in _PLAIN_LETTERS or (self._plain and character == " ")
        self._speaks = self._speaks or character.isalnum() or character in _SIGNS
        if self._over(character):
            finished.append(self._text)
            self._start()
        return finished

    def _parts_before(self, character: str) -> bool:
        """A long sentence may go on in another piece, since a Chinese word ends here."""
        return self._speech_ms >= _SHARE_AT_WORD * self._longest_ms and may_part(self._text[-1], character)

    def _over(self, character: str) -> bool:
        if not self._speaks:
            return len(self._text) >= _LONGEST_SILENCE
        if character == "\n":
            return True
        return (_ends_with(self._text[-_RECENT:]) or self._too_long(character)) and not in_tag(self._text)

    def _too_long(self, character: str) -> bool:
        share = self._speech_ms / self._longest_ms
        if (
            share >= 0.5
            and character in _SOFT
            and not self._text[-2:-1].isdigit()
            and not self._text.endswith(_SCHEMES)
        ):
            return True
        return share >= 1.0 or (share >= _SHARE_AT_BLANK and character.isspace())


def _finished(text: str) -> bool:
    at = len(text)
    while at and (text[at - 1].isspace() or text[at - 1] in _CLOSERS or _emoji(text[at - 1])):
        at -= 1
    core = text[:at]
    stem = core.rstrip("".join(_WIDE_MARKS) + _MARKS)
    marks = core[len(stem) :]
    if marks != ".":
        return bool(marks)
    word = _LAST_WORD.search(stem[-_RECENT:])
    return not stem.strip().isdigit() and (word is None or word.group().lower() not in _GOES_ON)


def _emoji(character: str) -> bool:
    """A pictograph or what modifies one; nobody says them."""
    return character in _EMOJI_JOINERS or unicodedata.category(character) in ("So", "Sk")


def _ends_with(text: str) -> bool:
    """True when the last character of `text` ends a sentence whatever comes next."""
    last = text[-1]
    if last == "\n" or last in _WIDE_MARKS:
        return True
    if last in "!?":
        return _HAN.match(text[-2:-1]) is not None
    if not last.isspace():
        return False
    body = text[:-1]
    if body.endswith(("!", "?")):
        return True
    word = _last_word(body)
    return bool(word) and word.islower() and len(word) > 1 and word not in _TITLES and word not in _DOUBTFUL


def _ends_before(text: str, following: str) -> bool:
    """True when a sentence ends between `text` and the character `following`."""
    if following.isspace() or following in _MARKS:
        return False
    body = text.rstrip()
    core = body.rstrip(_CLOSERS)
    stem = core.rstrip(_MARKS)
    marks = core[len(stem) :]
    if not marks:
        return False
    if len(body) == len(text):
        return _ends_without_blank(body, stem, marks, following)
    if following.islower():
        return False
    if marks != ".":
        return True
    word = _LAST_WORD.search(stem)
    name = word.group() if word else ""
    if name.lower() in _TITLES or name in _CAPITAL_TITLES or (len(name) == 1 and name.isupper() and name != "I"):
        return False
    if name.lower() in _NUMBERED and following.isdigit():
        return False
    return not stem.strip().isdigit()


def _ends_without_blank(body: str, stem: str, marks: str, following: str) -> bool:
    """Marks directly before a character: "there.How", and a full stop after Chinese."""
    if _HAN.match(stem[-1:]):
        return not (following.isascii() and following.isalnum()) and following not in _CLOSERS
    if not following.isupper() or body[-1] not in _MARKS or not stem[-1:].islower():
        return False
    chunk = re.split(r"\s", stem)[-1]
    if marks == "." and (chunk.lower() in _TITLES or chunk in _CAPITAL_TITLES or chunk == "Ph"):
        return False
    return len(marks) > 1 or marks != "." or re.fullmatch(r"[\W_]*[^\W\d_]{2,}(?:['’-][^\W\d_]+)*", chunk) is not None


def _last_word(body: str) -> str:
    """The word in front of a single full stop at the end of `body`, "" when there is none."""
    if not body.endswith(".") or body.endswith(".."):
        return ""
    found = _LAST_WORD.search(body[:-1])
    return found.group() if found else ""


def _speech_ms(character: str) -> int:
    """Rough speaking time of one character, so that no text, however odd, makes a segment without bound."""
    if character in _SIGNS or (character.isalnum() and not character.isalpha()):
        return 300
    # A capital may be said by its name.
    if _HAN.match(character) or character.isupper():
        return 200
    return _LETTER_MS if character.isalpha() else 0
