"""A line in the log for each call, when it has ended. What its client said is not in it."""

import itertools
import logging
import time
from collections.abc import Callable

from oscine_engine.events import SessionRequest, Stats
from oscine_service.observe import logs
from oscine_service.observe.outcomes import BUG, outcome
from oscine_service.security import principal
from oscine_service.visits import Visit

log = logging.getLogger(__name__)

OURS = ("internal", "checkpoint", "store", BUG)
"""Outcomes that are a fault of the service."""


class CallLog:
    """A desk that writes it down."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._numbers = itertools.count(1)

    def attend(self, visit: Visit, request: SessionRequest) -> "Entry":
        return Entry(visit, request, next(self._numbers), self._clock)


class Entry:
    """One call's attendant."""

    def __init__(self, visit: Visit, request: SessionRequest, number: int, clock: Callable[[], float]) -> None:
        self._visit, self._number, self._clock = visit, number, clock
        self._voice = "(a recording)" if request.reference is not None else request.voice
        self._mode = str(request.mode)
        self._key = principal.current().name or None
        self._began = clock()
        self._first_text: float | None = None
        self._first_sound: float | None = None
        self._characters = self._samples = 0

    def text(self, characters: int) -> None:
        if self._first_text is None:
            self._first_text = self._clock()
        self._characters += characters

    def sent(self, samples: int, frames: int) -> None:
        if self._first_sound is None:
            self._first_sound = self._clock()
        self._samples += samples

    def ended(self, stats: Stats | None, error: BaseException | None) -> None:
        word = outcome(stats, error)
        waited = None
        if self._first_text is not None and self._first_sound is not None:
            waited = round(self._first_sound - self._first_text, 4)
        logs.event(
            log,
            logging.ERROR if word in OURS else logging.INFO,
            "call ended",
            call=self._number,
            protocol=self._visit.protocol,
            peer=self._visit.peer or None,
            key=self._key,
            trace=self._visit.trace.get("traceparent"),
            voice=self._voice,
            mode=self._mode,
            outcome=word,
            message=_message(word, error),
            seconds=round(self._clock() - self._began, 3),
            first_packet_s=waited,
            characters=self._characters,
            samples=self._samples,
            underruns=None if stats is None else stats.underruns,
            starved=None if stats is None else stats.starved,
        )


def _message(word: str, error: BaseException | None) -> str | None:
    """What may be told of a fault: our own messages say nothing of what was asked for, others might."""
    if word not in OURS or error is None:
        return None
    return type(error).__name__ if word == BUG else str(error)
