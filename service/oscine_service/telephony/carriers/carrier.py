"""What a carrier's messages say, and what is said to it. Translators are pure: no I/O, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, TypeAlias

from oscine_engine.errors import InvalidInput
from oscine_service.audio import Format
from oscine_service.websocket.fields import Object, field, loads

Message: TypeAlias = str | bytes

OWN_NAME = "call"
"""Parameter of a carrier's own kind, or of the URL, by which an agent names a call before it is there."""


@dataclass(frozen=True, slots=True)
class Began:
    """A call is up. names: what it may be called. paced: its frames have to be sent one each 20 ms."""

    names: tuple[str, ...]
    format: Format
    paced: bool = False


@dataclass(frozen=True, slots=True)
class MarkHeard:
    """All before a mark was heard; "": before the oldest that waits. Or a clear took it away."""

    name: str


@dataclass(frozen=True, slots=True)
class CallerSound:
    """So many bytes of what the caller says, which nobody here listens to."""

    size: int


class Told(Enum):
    """full: no more sound is taken for now. over: the call has ended. NOTHING: what is of no use here, such as keys
    that the caller presses."""

    FULL = auto()
    ROOM = auto()
    OVER = auto()
    NOTHING = auto()


News: TypeAlias = Began | MarkHeard | CallerSound | Told


class Carrier(Protocol):
    """One call's translator. kind: the carrier's name. credit_s: how far ahead of its listener speech is sent.
    message_frames: of 20 ms, in one message at most. subprotocols: of the WebSocket, that are taken where offered."""

    kind: str
    credit_s: float
    message_frames: int
    subprotocols: tuple[str, ...]

    def read(self, message: Message) -> News:
        """Raises InvalidInput for what cannot be understood, or served."""

    def media(self, sound: bytes) -> Message: ...

    def mark(self, name: str) -> Message:
        """To be told when all before it was heard."""

    def clear(self) -> Message:
        """Drop what was not heard yet."""

    def hang_up(self) -> Message | None:
        """What is said before the socket is closed, if anything."""


class Base:
    """What most carriers have in common. own_name: of the call, where its URL has one."""

    credit_s = 10.0
    message_frames = 10
    subprotocols: tuple[str, ...] = ()

    def __init__(self, own_name: str = "") -> None:
        self._own_name = own_name

    def hang_up(self) -> Message | None:
        return None

    def _named(self, *found: str, parameters: Object | None = None) -> tuple[str, ...]:
        """All names there are, the carrier's own first. Raises InvalidInput if there is none."""
        own = (parameters or {}).get(OWN_NAME)
        names = tuple(name for name in (*found, own, self._own_name) if isinstance(name, str) and name)
        if not names:
            raise InvalidInput(f"the call has no name: give it one, as ?{OWN_NAME}=NAME in the URL")
        return names


def event(message: Message) -> tuple[str, Object]:
    """The event of a JSON message, and the message. Raises InvalidInput."""
    found = loads(message)
    return field(found, "event", str), found


def inner(message: Object, name: str) -> Object:
    """The object in a field; an empty one where there is none."""
    value: Mapping[str, object] = field(message, name, dict, {})
    return value


def payload_size(message: Object) -> int:
    """Bytes in `media.payload`, which is base64: its length tells."""
    payload: str = field(inner(message, "media"), "payload", str, "")
    return len(payload) * 3 // 4 - payload[-2:].count("=")
