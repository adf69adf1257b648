"""One call, as those see it who count, trace and limit calls, whatever protocol it came by.

Whoever serves a protocol does not know them: the door (`security/grpc_door.py`, `security/http_door.py`) puts a `Visit`
around each call, and a conversation asks for its attendant.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from oscine_engine.events import SessionRequest, Stats


class Attendant(Protocol):
    """Is told of one conversation, in this order: any of the others, and `ended` once, last."""

    def text(self, characters: int) -> None:
        """So much text has come. Raises QuotaExceeded, and then it is not to be taken."""

    def sent(self, samples: int, frames: int) -> None:
        """So much speech has been handed to the transport."""

    def ended(self, stats: Stats | None, error: BaseException | None) -> None:
        """It is over: well, with `stats`, or by `error`; cancelled by its client where both are None."""


class Desk(Protocol):
    """Attends conversations."""

    def attend(self, visit: "Visit", request: SessionRequest) -> Attendant:
        """A conversation is about to open. Raises Forbidden and QuotaExceeded."""


class _Nobody:
    """Attends nothing."""

    def attend(self, visit: "Visit", request: SessionRequest) -> "_Nobody":
        return self

    def text(self, characters: int) -> None: ...

    def sent(self, samples: int, frames: int) -> None: ...

    def ended(self, stats: Stats | None, error: BaseException | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Visit:
    """protocol: by which it came, such as "grpc". peer: the client's address, as far as it is known. trace: headers
    that place it in a trace (`traceparent`, `tracestate`), as they came."""

    protocol: str = "direct"
    peer: str = ""
    trace: dict[str, str] = field(default_factory=dict)
    desk: Desk = field(default_factory=_Nobody)

    def attend(self, request: SessionRequest) -> Attendant:
        """The attendant of a conversation of this visit. Raises Forbidden and QuotaExceeded."""
        return self.desk.attend(self, request)


_current: ContextVar[Visit | None] = ContextVar("oscine_visit", default=None)


def current() -> Visit:
    """The visit that the running task serves; one that nobody attends outside of any."""
    return _current.get() or Visit()


def visit_now(visit: Visit) -> None:
    """The running task, and those that it starts, serve `visit` from now on."""
    _current.set(visit)


@contextmanager
def visiting(visit: Visit) -> Iterator[None]:
    """Tasks that are started in the block, and the block itself, serve `visit`."""
    token = _current.set(visit)
    try:
        yield
    finally:
        _current.reset(token)
