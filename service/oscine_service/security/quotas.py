"""What each key may use at a time and in a minute. Counted in this process; it forgets when it ends."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from oscine_engine.events import SessionRequest, Stats
from oscine_service.security import principal
from oscine_service.security.errors import Forbidden, QuotaExceeded
from oscine_service.security.principal import Grant, Principal
from oscine_service.visits import Visit

STREAM_HINT_S = 1.0
"""When to come back who has all streams open: they are its own, and it knows best when one ends."""


@dataclass(slots=True)
class _Account:
    """streams: open now. left: characters that may still come, below 0 if the last text was longer; as of `at`."""

    left: float
    at: float
    streams: int = 0


class Quotas:
    """A desk that refuses what goes beyond. default_voice: what is spoken in where none is named."""

    def __init__(self, default_voice: Callable[[], str | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._default_voice = default_voice
        self._clock = clock
        self._accounts: dict[str, _Account] = {}

    def attend(self, visit: Visit, request: SessionRequest) -> "Lease":
        who = principal.current()
        who.require(Grant.SPEAK)
        voice = request.voice if request.voice is not None else self._default_voice()
        if request.reference is not None:
            # A voice of anybody's, as one that is added would be.
            who.require(Grant.VOICES)
            if who.voices:
                granted = ", ".join(who.voices)
                raise Forbidden(f"the key {who.name!r} may not speak in a voice of its own; it may in {granted}")
        elif voice is not None and not who.may_use(voice):
            granted = ", ".join(who.voices)
            raise Forbidden(f"the key {who.name!r} may not speak in the voice {voice!r}; it may in {granted}")
        account = self._account(who)
        if who.streams is not None and account.streams >= who.streams:
            raise QuotaExceeded(
                f"the key {who.name!r} has {account.streams} streams open, its limit; end one first", STREAM_HINT_S
            )
        self._ask(who, account)
        account.streams += 1
        return Lease(self, who, account)

    def _account(self, who: Principal) -> _Account:
        """A token draws on the account of its key."""
        account = self._accounts.get(who.name)
        if account is None:
            account = self._accounts[who.name] = _Account(float(who.characters_per_minute or 0), self._clock())
        return account

    def _ask(self, who: Principal, account: _Account) -> None:
        """Raises QuotaExceeded while no character is left."""
        limit = who.characters_per_minute
        if limit is None:
            return
        now = self._clock()
        account.left = min(float(limit), account.left + (now - account.at) * limit / 60)
        account.at = now
        if account.left < 1:
            wait = math.ceil((1 - account.left) * 60 / limit * 10) / 10
            raise QuotaExceeded(f"the key {who.name!r} has used up its {limit} characters a minute; try again", wait)

    def take(self, who: Principal, account: _Account, characters: int) -> None:
        """Whoever has a character left may send one text, however long: it is paid off before the next one."""
        if who.characters_per_minute is not None and characters:
            self._ask(who, account)
            account.left -= characters


class Lease:
    """One call's attendant."""

    def __init__(self, quotas: Quotas, who: Principal, account: _Account) -> None:
        self._quotas, self._who, self._account = quotas, who, account

    def text(self, characters: int) -> None:
        self._quotas.take(self._who, self._account, characters)

    def sent(self, samples: int, frames: int) -> None: ...

    def ended(self, stats: Stats | None, error: BaseException | None) -> None:
        self._account.streams -= 1
