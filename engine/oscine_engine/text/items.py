"""Spoken items: what the verbaliser says and the renderers write as ids."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto


class Spoken(Enum):
    WORD = auto()
    """A word of Latin letters, as written."""
    LETTERS = auto()
    """Latin letters said by their names."""
    HAN = auto()
    """One Chinese character."""
    MARK = auto()
    """A typed mark."""
    PAUSE = auto()
    """One of , . ? ! ; : or a newline."""
    BLANK = auto()
    """A place where words part without a pause."""
    OTHER = auto()
    """A letter of another script."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Written text that is read in one go, such as "Dr." or "3.5"; as often as it is written there is one of these.
    replaced: something else is read in its place, so that it is a word by itself."""

    text: str
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """source: what it is a reading of, where somebody asks for that. It makes no difference to what is said."""

    kind: Spoken
    text: str
    source: Source | None = field(default=None, compare=False, repr=False)


def words(text: str) -> list[Item]:
    """Words and commas of a reading, each word parted from the next by a blank."""
    items: list[Item] = []
    for part in text.split():
        if items:
            items.append(Item(Spoken.BLANK, " "))
        items.append(Item(Spoken.WORD, part.rstrip(",.")))
        if part[-1] in ",.":
            items.append(Item(Spoken.PAUSE, part[-1]))
    return [item for item in items if item.text]


def letters(names: Iterable[str]) -> list[Item]:
    """Letters said by their names, each followed by a blank."""
    return [item for name in names for item in (Item(Spoken.LETTERS, name), Item(Spoken.BLANK, " "))]
