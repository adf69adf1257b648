"""What was heard against what was sent: the same samples, with stretches of something else between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

WINDOW = 480
"""Samples by which a place is recognised, if enough of them are not zero."""
TAIL = 480
"""Samples behind the last one in which it may fade away."""


@dataclass(frozen=True, slots=True)
class Inserted:
    """heard[start:end] is nothing that was sent; it stands before sent[position]. edge: the greater of the steps of the
    signal where it begins and where it ends, of full scale."""

    start: int
    end: int
    position: int
    edge: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """begins: where in what was heard the first sample sent is. played: samples sent that were heard, in order, from
    the first. inserted: between them. behind: samples heard behind the last one; `rest` is the greatest of them but the
    first TAIL. step: from the last one to what is behind it."""

    begins: int
    played: int
    inserted: tuple[Inserted, ...]
    behind: int
    rest: float
    step: float

    @property
    def edge(self) -> float:
        """The greatest step where something else begins or ends."""
        return max([self.step, *(each.edge for each in self.inserted)])

    @property
    def seconds_inserted(self) -> float:
        return sum(each.end - each.start for each in self.inserted) / 48000


def align(heard: Samples, sent: Samples, window: int = WINDOW) -> Alignment | None:
    """None if the beginning of what was sent is not in what was heard. What is not there any more ends it: `played` is
    then less than was sent. window: as WINDOW; no two stretches of something else are nearer than that."""
    at = _find(heard, 0, sent, 0, window)
    if at is None:
        return None
    begins, position, found = at, 0, []
    while True:
        same = _run(heard[at:], sent[position:])
        at, position = at + same, position + same
        if position == len(sent) or at == len(heard):
            break
        again = _find(heard, at, sent, position, window)
        if again is None:
            break
        edge = max(abs(float(heard[at] - heard[at - 1])), abs(float(heard[again] - heard[again - 1])))
        found.append(Inserted(at, again, position, edge))
        at = again
    rest = heard[at:]
    step = abs(float(heard[at] - heard[at - 1])) if rest.size else 0.0
    return Alignment(begins, position, tuple(found), len(rest), float(np.abs(rest[TAIL:]).max(initial=0.0)), step)


def _run(heard: Samples, sent: Samples) -> int:
    """How many samples from the first are the same."""
    count = min(len(heard), len(sent))
    done = 0
    while done < count:
        piece = slice(done, min(count, done + 65536))
        wrong = np.flatnonzero(heard[piece] != sent[piece])
        if wrong.size:
            return done + int(wrong[0])
        done = piece.stop
    return count


def _find(heard: Samples, start: int, sent: Samples, position: int, length: int) -> int | None:
    """Where sent[position] is in heard[start:]: by a window that begins there and is long enough to be no silence."""
    while (
        position + length < len(sent)
        and np.count_nonzero(sent[position : position + length]) < min(length, WINDOW) // 4
    ):
        length *= 2
    window = sent[position : position + length]
    loudest = int(np.abs(window).argmax())
    for candidate in np.flatnonzero(heard[start + loudest :] == window[loudest]) + start:
        if np.array_equal(heard[candidate : candidate + len(window)], window):
            return int(candidate)
    return None
