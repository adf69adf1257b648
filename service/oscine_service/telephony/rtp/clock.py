"""One real-time clock for all calls: a thread that lets each of them send once in 20 ms, and never drifts.

Ticks lie on a grid of the system's monotonic clock, so what is late once makes nothing after it late. Members are
spread over the period, lest a hundred packets leave at once. It is a thread, because whatever else the event loop has
to do may take longer than a listener's buffer has patience.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

PERIOD_NS = 20_000_000
SLOTS = 20
SLOT_NS = PERIOD_NS // SLOTS
LATE_NS = 200_000_000
"""Ticks that come later than this are left out, as after a machine has slept: a burst so long would be lost anyway."""
NAME = "oscine-rtp-clock"
SWITCH_S = 0.001
"""Python's lock changes hands after so long at most, while a clock runs; by default the clock would wait for 5 ms."""


class _Hurried:
    """How long Python's lock is held at most, which is the whole process's, while any clock runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clocks = 0
        self._before = 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._clocks:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, SWITCH_S))
            self._clocks += 1

    def end(self) -> None:
        with self._lock:
            self._clocks -= 1
            if not self._clocks:
                sys.setswitchinterval(self._before)


_hurried = _Hurried()


class Member(Protocol):
    """slot, started: set when it is added; the grid's time of its tick 0, in ns."""

    def tick(self, number: int) -> bool:
        """Tick `number` is due; numbers count from 0 and may jump ahead. In the clock's thread: it must not wait.
        Whether `Clock` shall tell that there is something new."""


class Clock:
    """tell: is called, in the clock's thread, with the members of a slot that have something new.

    The thread runs while there are members.
    """

    def __init__(self, tell: Callable[[list[Member]], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._slots: list[dict[Member, int]] = [{} for _ in range(SLOTS)]
        """Of each slot: its members, and the turn of the grid that is tick 0 for them."""
        self._origin = time.monotonic_ns()
        self._thread: threading.Thread | None = None
        self.latest_ns = 0
        """By which the latest tick so far came too late."""
        self.skipped = 0
        """Slots that were left out."""

    def add(self, member: Member) -> int:
        """Tick from now on. The time of its tick 0, in ns of the monotonic clock: up to a period ahead."""
        with self._lock:
            number = min(range(SLOTS), key=lambda slot: len(self._slots[slot]))
            now = time.monotonic_ns() - self._origin
            turn = (now - number * SLOT_NS) // PERIOD_NS + 1
            self._slots[number][member] = turn
            if self._thread is None:
                _hurried.begin()
                self._thread = threading.Thread(target=self._run, args=(now // SLOT_NS + 1,), name=NAME, daemon=True)
                self._thread.start()
            return self._origin + turn * PERIOD_NS + number * SLOT_NS

    def remove(self, member: Member) -> None:
        """No tick of it runs, or comes, once this has returned."""
        with self._lock:
            for slot in self._slots:
                slot.pop(member, None)

    def __contains__(self, member: Member) -> bool:
        """Whether it is ticked: it was added, and none of its ticks has failed."""
        with self._lock:
            return any(member in slot for slot in self._slots)

    def _run(self, at: int) -> None:
        """From this slot of the grid on."""
        while True:
            wait = self._origin + at * SLOT_NS - time.monotonic_ns()
            if wait > 0:
                time.sleep(wait / 1e9)
            told: list[Member] = []
            with self._lock:
                if not any(self._slots):
                    self._thread = None
                    _hurried.end()
                    return
                late = time.monotonic_ns() - self._origin - at * SLOT_NS
                if late > LATE_NS:
                    self.skipped += late // SLOT_NS
                    at += late // SLOT_NS
                    continue
                self.latest_ns = max(self.latest_ns, late)
                turn, number = divmod(at, SLOTS)
                for member, first in list(self._slots[number].items()):
                    try:
                        if turn >= first and member.tick(turn - first):
                            told.append(member)
                    except Exception:
                        # A fault of one call is not to silence the others.
                        log.exception("a tick has failed: its call is sent nothing any more")
                        del self._slots[number][member]
            if told:
                self._tell(told)
            at += 1
