"""Several desks as one."""

from collections.abc import Sequence

from oscine_engine.errors import OscineError
from oscine_engine.events import SessionRequest, Stats
from oscine_service.visits import Attendant, Desk, Visit


class Desks:
    """Asks each in order. Those before it are told of what a later one refuses: who only watches comes first."""

    def __init__(self, *desks: Desk) -> None:
        self._desks = desks

    def sit(self, *desks: Desk) -> None:
        """From now on it is these that are asked."""
        self._desks = desks

    def attend(self, visit: Visit, request: SessionRequest) -> Attendant:
        attending: list[Attendant] = []
        try:
            for desk in self._desks:  # one by one: who has said yes must hear of a no
                attending.append(desk.attend(visit, request))  # noqa: PERF401
        except OscineError as refusal:
            for attendant in attending:
                attendant.ended(None, refusal)
            raise
        return _Together(attending)


class _Together:
    def __init__(self, attending: Sequence[Attendant]) -> None:
        self._attending = attending

    def text(self, characters: int) -> None:
        """Last come, first asked: what is refused has not come."""
        for attendant in reversed(self._attending):
            attendant.text(characters)

    def sent(self, samples: int, frames: int) -> None:
        for attendant in self._attending:
            attendant.sent(samples, frames)

    def ended(self, stats: Stats | None, error: BaseException | None) -> None:
        for attendant in self._attending:
            attendant.ended(stats, error)
