"""How patient a supervisor is."""

import math
from dataclasses import dataclass, fields

from oscine_engine.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds, above 0. Raises InvalidInput for others.

    beat: between two heartbeats. hang: an engine that has answered none for so long is replaced; its loop answers
    between two ticks, so this must be longer than any of those. load: from the start of a process to its being ready.
    end: for a process that was asked to end. steady: after serving so long, earlier deaths are forgotten.
    """

    beat: float = 1.0
    hang: float = 10.0
    load: float = 300.0
    end: float = 5.0
    steady: float = 60.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 < (seconds := getattr(self, field.name)) < math.inf:
                raise InvalidInput(f"{field.name} must be a number of seconds above 0, not {seconds}")
