"""What a client asks of a conversation: plain data, the same for every protocol."""

import math
from dataclasses import dataclass
from typing import TypeAlias

from oscine_engine.errors import InvalidInput
from oscine_engine.events import SessionRequest
from oscine_service.audio import Format
from oscine_service.telephony.sink import MAX_NAME

MAX_TEXT_BYTES = 65536
"""Of UTF-8 in one message of our own protocols."""
MAX_MARK = MAX_VOICE = 200
"""Characters of the names of a mark and of a voice."""
MIN_QUIET_MS, MAX_QUIET_MS = 20, 60000


@dataclass(frozen=True, slots=True)
class Config:
    """Opens a conversation: how it speaks, and how that is written.

    sink: the telephone call that it speaks into, which has a format of its own; "": the client hears it.
    """

    session: SessionRequest
    format: Format
    sink: str = ""


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


def text_piece(text: str) -> Text:
    """Text of one message of our own protocols. Raises InvalidInput for more than one may hold."""
    # Half a surrogate pair may be cut off here and go on in the next message.
    if (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_TEXT_BYTES:
        raise InvalidInput(f"text: {size} bytes in one message; send at most {MAX_TEXT_BYTES} and go on in another")
    return Text(text)


def quiet_s(quiet_ms: int, field: str = "quiet_ms") -> float:
    """Seconds for `SessionRequest.quiet_s`; 0 stands for never. Raises InvalidInput that names `field`."""
    if quiet_ms == 0:
        return math.inf
    if not MIN_QUIET_MS <= quiet_ms <= MAX_QUIET_MS:
        raise InvalidInput(
            f"{field}: {quiet_ms} ms is out of range; use {MIN_QUIET_MS} to {MAX_QUIET_MS}, or 0 for never"
        )
    return quiet_ms / 1000


def sink_name(name: str) -> str:
    """The name of a telephone call, if it may be one. Raises InvalidInput."""
    if len(name) > MAX_NAME:
        raise InvalidInput(f"sink: a name of {len(name)} characters; it has at most {MAX_NAME}")
    return name


def mark_name(name: str) -> str:
    """A mark's name, if it may be one. Raises InvalidInput."""
    if not 0 < len(name) <= MAX_MARK:
        raise InvalidInput(f"mark: a name of {len(name)} characters; it has 1 to {MAX_MARK}")
    return name
