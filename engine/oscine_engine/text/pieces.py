"""Spoken items -> pieces short enough for one segment, by what is said and not by what was written.

"1e9" takes two seconds and "W" half of one, so the time is reckoned from the words that are said. The rates are those
of a slow reader: they need not be exact, but no piece may outlast the segment that holds it, or its end is never said.

A piece goes on after half its time unless there is a pause, after four fifths unless there is a blank or two Chinese
characters that belong to different words (`breaks.py`), and never beyond it. Whether to cut is decided when the next
thing to say is here, going forward only, so the pieces do not depend on how the text arrived, and none is empty.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from oscine_engine.text.breaks import may_part
from oscine_engine.text.items import Item, Spoken

LONGEST_S = 22.0
"""Reckoned seconds of one piece. A segment holds 30: a voice may be a third slower than reckoned."""
_LONGEST_ITEM = 0.25
"""Share of a piece that one item may take; a longer one, which is hardly a word, is cut inside."""

_PER_CHARACTER = {
    Spoken.WORD: 0.085,
    Spoken.LETTERS: 0.35,
    Spoken.HAN: 0.25,
    Spoken.OTHER: 0.15,
}
_CAPITAL = 0.25
"""In a word, where it may be said by its name."""
_SHORTEST_WORD = 0.2
_MARK = 0.12
_PAUSES = {",": 0.3}
_PAUSE = 0.5


def seconds(item: Item) -> float:
    """Reckoned time to say one item."""
    match item.kind:
        case Spoken.WORD:
            capitals = 0 if item.text.islower() else sum(character.isupper() for character in item.text)
            letters = len(item.text) - capitals
            return max(_SHORTEST_WORD, letters * _PER_CHARACTER[Spoken.WORD] + capitals * _CAPITAL)
        case Spoken.MARK:
            return _MARK
        case Spoken.PAUSE:
            return _PAUSES.get(item.text, _PAUSE)
        case Spoken.BLANK:
            return 0.0
    return len(item.text) * _PER_CHARACTER[item.kind]


class Cutter:
    """Cuts the items of one sentence. `longest_s`: reckoned seconds of a piece, infinity to leave all in one."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self.reset()

    def reset(self) -> None:
        """The next item begins a sentence."""
        self._spent = 0.0
        self._pause = False
        self._blank = False
        self._han = ""

    def push(self, items: Iterable[Item]) -> list[list[Item]]:
        """The items in order; the first list goes on with the open piece, every further one is a new piece."""
        runs: list[list[Item]] = [[]]
        for item in items:
            for part in self._parts(item):
                if self._cuts_before(part):
                    runs.append([])
                    self.reset()
                runs[-1].append(part)
                self._note(part)
        return runs

    def _parts(self, item: Item) -> Iterator[Item]:
        longest = self._longest_s * _LONGEST_ITEM
        if item.kind not in _PER_CHARACTER or seconds(item) <= longest:
            yield item
            return
        size = max(1, int(longest / max(_PER_CHARACTER[item.kind], _CAPITAL)))
        for at in range(0, len(item.text), size):
            yield replace(item, text=item.text[at : at + size])

    def _cuts_before(self, item: Item) -> bool:
        if self._spent == 0.0 or item.kind in (Spoken.PAUSE, Spoken.BLANK):
            return False
        share = self._spent / self._longest_s
        parted = self._pause or self._blank or self._words_part(item)
        return (
            (self._pause and share >= 0.5) or (parted and share >= 0.8) or self._spent + seconds(item) > self._longest_s
        )

    def _words_part(self, item: Item) -> bool:
        """A Chinese word surely ends in front of `item`."""
        if item.kind is not Spoken.HAN:
            return self._han != ""
        return not self._han or may_part(self._han, item.text)

    def _note(self, item: Item) -> None:
        match item.kind:
            case Spoken.PAUSE:
                # Pauses side by side are one; those in front of the first word are none.
                self._spent += seconds(item) if self._spent and not self._pause else 0.0
                self._pause = self._spent > 0.0
            case Spoken.BLANK:
                self._blank = True
            case _:
                self._spent += seconds(item)
                self._pause = self._blank = False
                self._han = item.text if item.kind is Spoken.HAN else ""
