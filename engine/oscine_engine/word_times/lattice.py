"""Which frame says what: the best path through the sounds of one segment's words, found as the frames come.

Each word is its sounds in order, one state each, with an optional silence before the first word and behind every word;
a state lasts a frame at least. The path may begin in the silence or in the first sound, and goes forward only (Viterbi
over a hidden Markov model without transition costs). Words may be added at any time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oscine_engine.text.sounds import SILENCE

Floats = NDArray[np.float32]
_NEVER = np.float32(-np.inf)


class Place(NamedTuple):
    """Frames [start, end) of one word."""

    word: int
    start: int
    end: int


class Lattice:
    """frames: how many have been taken. words: how many there are."""

    def __init__(self) -> None:
        self.frames = 0
        self.words = 0
        self._labels: list[int] = [SILENCE]
        self._word_of: list[int] = [-1]
        self._skips: list[bool] = [True]
        """The state two before may come directly before this one: what lies between is a silence."""
        self._columns = np.array(self._labels)
        self._barred = np.array([0.0], np.float32)
        self._score = np.array([_NEVER, 0.0, _NEVER], np.float32)
        """Of the best path into each state; in front of them of what the first two may come from."""
        self._came: list[NDArray[np.uint8]] = []
        """Of each frame and state, how many states before was the one that the best path came from."""

    def add(self, sounds: Sequence[int]) -> None:
        """One more word, of one sound at least."""
        for number, sound in enumerate(sounds):
            self._labels.append(sound)
            self._word_of.append(self.words)
            self._skips.append(number == 0)
        self._labels.append(SILENCE)
        self._word_of.append(-1)
        self._skips.append(False)
        self.words += 1
        self._columns = np.array(self._labels)
        self._barred = np.where(self._skips, np.float32(0.0), _NEVER)
        fresh = np.full(len(self._labels) + 2 - len(self._score), _NEVER, np.float32)
        self._score = np.concatenate((self._score, fresh))

    def push(self, scores: Floats) -> None:
        """Take frames [n, labels]: log likelihoods."""
        emitted = scores[:, self._columns]
        score = self._score
        for row in emitted:
            stay, step, skip = score[2:], score[1:-1], score[:-2] + self._barred
            best = np.maximum(stay, step)
            came = (step > stay).astype(np.uint8)
            skips = skip > best
            came[skips] = 2
            score = np.concatenate((score[:1], score[:1], np.maximum(best, skip) + row))
            self._came.append(came)
        self._score = score
        self.frames += len(scores)

    def path(self) -> list[int]:
        """The sound of each frame on the best path that has said all words; empty if there is none."""
        state = self._last_state(ended=True)
        if state is None:
            return []
        found: list[int] = []
        for came in reversed(self._came):
            found.append(self._labels[state])
            state -= int(came[state])
        return found[::-1]

    def places(self, *, ended: bool, since: int = 0) -> list[Place]:
        """Where words lie on the best path from frame `since` on; the last one may be still going on. ended: only a
        path that has said all words counts; if there is none, nothing is found."""
        state = self._last_state(ended=ended)
        if state is None:
            return []
        found: list[Place] = []
        end = self.frames
        for frame in range(self.frames - 1, since - 1, -1):
            back = int(self._came[frame][state])
            if not back:
                continue
            word, before = self._word_of[state], state - back
            if word < 0 or before < 0 or self._word_of[before] != word:
                if word >= 0:
                    found.append(Place(word, frame, end))
                end = frame
            state = before
        if state >= 0 and self._word_of[state] >= 0 and end > since:
            found.append(Place(self._word_of[state], since, end))
        return found[::-1]

    def _last_state(self, *, ended: bool) -> int | None:
        score = self._score[2:]
        state = int(np.argmax(score))
        if ended:
            last = len(score) - 1
            state = last if last == 0 or score[last] >= score[last - 1] else last - 1
        return state if self.frames and score[state] > _NEVER else None
