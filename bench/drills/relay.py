"""A bad line between two network devices: python -m bench.drills.relay SEED FD FD, each the end of a TUN device.

Takes whole IP packets from one and hands them to the other, later, or not at all: TCP at both ends is the kernel's own.
A line `DELAY JITTER LOSS` on standard input (seconds, seconds, share) sets what the line does from then on, and is
answered with what it has carried and dropped since the last one, as JSON. It ends when its standard input closes.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import sys
import time
from collections import deque
from dataclasses import dataclass, field

LONGEST = 65536
MOST_WAITING = 10_000
"""Packets under way, a direction: more are dropped, as a queue that is full does."""
POLL_S = 1.0


@dataclass(slots=True)
class Line:
    """One direction. Times in seconds; no packet passes the one before it."""

    random: random.Random
    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    carried: int = 0
    dropped: int = 0
    _waiting: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self, now: float, packet: bytes) -> None:
        """A packet has come in."""
        if self.random.random() < self.loss or len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        due = now + max(0.0, self.delay + self.random.uniform(-self.jitter, self.jitter))
        self._waiting.append((max(due, self._waiting[-1][0]) if self._waiting else due, packet))

    def due(self, now: float) -> list[bytes]:
        """What is to go out by now."""
        out = []
        while self._waiting and self._waiting[0][0] <= now:
            out.append(self._waiting.popleft()[1])
        self.carried += len(out)
        return out

    @property
    def next(self) -> float | None:
        """When the next packet is due."""
        return self._waiting[0][0] if self._waiting else None

    def told(self) -> tuple[int, int]:
        """Packets carried and dropped since this was asked before."""
        counts = self.carried, self.dropped
        self.carried = self.dropped = 0
        return counts


def relay(seed: int, ends: tuple[int, int]) -> None:
    lines = Line(random.Random(seed)), Line(random.Random(seed + 1))
    while True:
        dues = [each.next for each in lines if each.next is not None]
        wait = min([POLL_S, *(max(0.0, due - time.monotonic()) for due in dues)])
        ready, _, _ = select.select([0, *ends], [], [], wait)
        if 0 in ready:
            # One line at a time is asked, and answered before the next.
            asked = os.read(0, 4096).decode()
            if not asked:
                return
            delay, jitter, loss = map(float, asked.split())
            counts = [line.told() for line in lines]
            for line in lines:
                line.delay, line.jitter, line.loss = delay, jitter, loss
            told = {"carried": sum(each for each, _ in counts), "dropped": sum(each for _, each in counts)}
            print(json.dumps(told), flush=True)
        for end, line in zip(ends, lines, strict=True):
            if end in ready:
                line.take(time.monotonic(), os.read(end, LONGEST))
        for end, line in zip(reversed(ends), lines, strict=True):
            for packet in line.due(time.monotonic()):
                # A device that is not up yet takes none, and loses it as a cable would that is not plugged in.
                with contextlib.suppress(OSError):
                    os.write(end, packet)


if __name__ == "__main__":
    relay(int(sys.argv[1]), (int(sys.argv[2]), int(sys.argv[3])))
