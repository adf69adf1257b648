"""How long a client may hold a place without using it."""

import math
from dataclasses import dataclass, fields

from oscine_engine.errors import InvalidInput
from oscine_engine.session import SessionLimits


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, above 0; infinity for no limit. Raises InvalidInput for others.

    idle_timeout_s: for a client that sends nothing while there is nothing left to say.
    write_timeout_s: for a client that takes no response and reports nothing as played.
    pause_timeout_s: for a client that has reported what was played and does so no more, while what is left to say waits
    for that.
    ping_after_s, ping_timeout_s: a connection without a sign of life is asked for one after the first, and given up
    the second later; so a client that vanished without a word is missed after both together, at most.
    """

    idle_timeout_s: float = 300.0
    write_timeout_s: float = 60.0
    ping_after_s: float = 20.0
    ping_timeout_s: float = 10.0
    pause_timeout_s: float = 3600.0

    def __post_init__(self) -> None:
        for field in fields(self):
            seconds = getattr(self, field.name)
            if math.isnan(seconds) or seconds <= 0:
                raise InvalidInput(f"{field.name} must be a number of seconds above 0, not {seconds}")

    @property
    def session(self) -> SessionLimits:
        """What sessions hold their clients to."""
        return SessionLimits(idle_s=self.idle_timeout_s, stall_s=self.write_timeout_s, pause_s=self.pause_timeout_s)
