"""What a client asks of a conversation: plain data, the same for every protocol."""

from dataclasses import dataclass
from typing import TypeAlias

from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest
from oscine_service.audio import Format

MAX_TEXT_BYTES = 65536
"""Of UTF-8 in one message of our own protocols."""
MAX_MARK = 200
"""Characters of a mark's name."""


@dataclass(frozen=True, slots=True)
class Config:
    """Opens a conversation: how it speaks, and how that is written."""

    session: SessionRequest
    format: Format


@dataclass(frozen=True, slots=True)
class Text:
    """Appended to what came before, verbatim, cut anywhere."""

    text: str


@dataclass(frozen=True, slots=True)
class Flush:
    """Speak everything so far; answered by `Flushed`."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the text, between what came before and what follows; answered by `Marked`."""

    name: str


@dataclass(frozen=True, slots=True)
class Played:
    """The listener has heard `samples` in all, counted as `Audio.start_sample` is."""

    samples: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop at once; answered by `Cancelled`."""


Verb: TypeAlias = Text | Flush | Mark | Played | Cancel


def mark_name(name: str) -> str:
    """A mark's name, if it may be one. Raises InvalidInput."""
    if not 0 < len(name) <= MAX_MARK:
        raise InvalidInput(f"mark: a name of {len(name)} characters; it has 1 to {MAX_MARK}")
    return name
