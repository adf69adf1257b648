"""How long a call may hold its place without using it."""

import math
from dataclasses import dataclass

from oscine_engine.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, above 0; infinity for no limit. Raises InvalidInput for others.

    idle_timeout_s: for a client that sends nothing while there is nothing left to say.
    write_timeout_s: for a client that takes no response.
    """

    idle_timeout_s: float = 300.0
    write_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("idle_timeout_s", "write_timeout_s"):
            seconds = getattr(self, name)
            if math.isnan(seconds) or seconds <= 0:
                raise InvalidInput(f"{name} must be a number of seconds above 0, not {seconds}")
