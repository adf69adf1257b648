"""On whose behalf a call is made, and what that is granted."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from oscine_service.security.errors import Forbidden


class Grant(StrEnum):
    """What a key may be used for: to speak and list, to add and delete voices, to mint tokens, to read metrics."""

    SPEAK = "speak"
    VOICES = "voices"
    TOKENS = "tokens"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. The defaults are those of a service without keys: anybody, for anything.

    name: of the key; "" without keys. owner: whose voices are seen, and whose those are that are added; "": everybody.
    streams: at a time. characters_per_minute: of text. voices: patterns of the names that may be spoken in, as in a
    shell; () is any. most_voices: that the owner may have in the store. None for no limit. token: admitted by a token
    that the key was exchanged for.
    """

    name: str = ""
    owner: str = ""
    streams: int | None = None
    characters_per_minute: int | None = None
    voices: tuple[str, ...] = ()
    most_voices: int | None = None
    grants: frozenset[Grant] = frozenset(Grant)
    token: bool = False

    def may_use(self, voice: str) -> bool:
        """Whether it may speak in this voice."""
        return not self.voices or any(fnmatchcase(voice, pattern) for pattern in self.voices)

    def require(self, grant: Grant) -> None:
        """Raises Forbidden without the grant."""
        if grant not in self.grants:
            what = "a token" if self.token else f"the key {self.name!r}"
            granted = ", ".join(sorted(self.grants)) or "nothing"
            raise Forbidden(f"{what} is not granted {grant.value!r}; it is granted {granted}")


ANYBODY = Principal()
_current: ContextVar[Principal] = ContextVar("oscine_principal", default=ANYBODY)


def current() -> Principal:
    """On whose behalf the running task works."""
    return _current.get()


def act_for(principal: Principal) -> None:
    """The running task, and those that it starts, work on behalf of `principal` from now on."""
    _current.set(principal)


@contextmanager
def acting_for(principal: Principal) -> Iterator[None]:
    """Tasks that are started in the block, and the block itself, work on behalf of `principal`."""
    token = _current.set(principal)
    try:
        yield
    finally:
        _current.reset(token)
