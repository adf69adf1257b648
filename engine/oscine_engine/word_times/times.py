"""When each word sounds: a session's words and samples in, times out.

Everything counts from the samples that the listener gets, so trims, pauses and speed are in the times already. Each
segment is heard by itself, silence before and behind it, so its times depend on its own words and samples alone, not on
how these were cut. A word is told once its end lies LAG_S back, or with the end of its segment.
"""

from collections import deque
from collections.abc import Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from oscine_engine.events import Word
from oscine_engine.planner import SegmentWord
from oscine_engine.text import word_sounds
from oscine_engine.word_times.features import FRAME, RATE, Features
from oscine_engine.word_times.lattice import Lattice, Place
from oscine_engine.word_times.listener import Listener

Floats = NDArray[np.float32]

LAG_S = 0.16
"""Behind this much the best path is, for all but one word in a thousand, what it is when the whole segment is known."""
_LAG = round(LAG_S * RATE / FRAME)
_EVERY = 5
"""Frames from one look at the best path to the next."""


class WordTimes:
    """One session's. `work` computes, in any thread, milliseconds for a second of sound; the rest takes no time.

    Nothing is lost when whoever waits for `work` gives up: what is left of it is done the next time.
    """

    def __init__(self) -> None:
        self._told: deque[SegmentWord] = deque()
        self._heard: deque[Floats | int] = deque()
        """Samples, and where segments end, in order."""
        self._found: deque[Word] = deque()
        self._working = Lock()
        self._words: dict[int, list[word_sounds.Word]] = {}
        self._ends: deque[int] = deque()
        self._position = 0
        self._index = 0
        self._segment = _Segment(0)

    def tell(self, words: Sequence[SegmentWord]) -> None:
        """Words that will sound, of any segment, in order."""
        self._told.extend(words)

    def hear(self, samples: Floats) -> None:
        """The next samples that the listener gets, float32 mono at 24 kHz."""
        self._heard.append(samples)

    def end_segment(self, end_sample: int) -> None:
        """The first segment, or the one behind that which ended last, ends at `end_sample`, perhaps still to come."""
        self._heard.append(end_sample)

    @property
    def waiting(self) -> bool:
        """There is something to work on."""
        return bool(self._heard)

    def work(self) -> None:
        """Listen to all that was heard."""
        with self._working:
            while self._heard:
                heard = self._heard.popleft()
                if isinstance(heard, int):
                    self._ends.append(heard)
                else:
                    self._push(heard)
                self._found.extend(self._end())

    def take(self) -> tuple[Word, ...]:
        """Words whose times have become known since the last time, in order."""
        return tuple(self._found.popleft() for _ in range(len(self._found)))

    def _push(self, samples: Floats) -> None:
        while len(samples):
            self._found.extend(self._end())
            until = len(samples) if not self._ends else min(len(samples), self._ends[0] - self._position)
            self._listen()
            self._found.extend(self._segment.push(samples[:until]))
            self._position += until
            samples = samples[until:]

    def _end(self) -> list[Word]:
        found: list[Word] = []
        while self._ends and self._ends[0] <= self._position:
            self._ends.popleft()
            self._listen()
            found += self._segment.finish()
            self._index += 1
            self._segment = _Segment(self._position)
        return found

    def _listen(self) -> None:
        """Take on what was told of the segment that sounds."""
        while self._told:
            one = self._told.popleft()
            self._words.setdefault(one.segment, []).append(one.word)
        for word in self._words.pop(self._index, ()):
            self._segment.add(word)


class _Segment:
    """start: the position of its first sample."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._samples = 0
        self._features = Features()
        self._listener = Listener()
        self._lattice = Lattice()
        self._words: list[word_sounds.Word] = []
        self._found = 0
        """Words whose times are settled."""
        self._since = 0
        """The frame behind the last of them."""

    def add(self, word: word_sounds.Word) -> None:
        self._words.append(word)
        self._lattice.add(word.sounds)

    def push(self, samples: Floats) -> list[Word]:
        self._samples += len(samples)
        return self._hear(self._listener.push(self._features.push(samples)))

    def finish(self) -> list[Word]:
        scores = (self._listener.push(self._features.finish()), self._listener.finish())
        found = self._hear(np.concatenate(scores))
        places = self._lattice.places(ended=True, since=self._since)
        return found + self._settle(places or self._spread(), len(self._words))

    def _hear(self, scores: Floats) -> list[Word]:
        found: list[Word] = []
        at = 0
        while at < len(scores):
            count = _EVERY - self._lattice.frames % _EVERY
            self._lattice.push(scores[at : at + count])
            at += count
            if self._lattice.frames % _EVERY == 0 and self._found < len(self._words):
                old = self._lattice.frames - _LAG
                places = self._lattice.places(ended=False, since=self._since)
                passed = [place.word for place in places if place.end <= old]
                found += self._settle(places, passed[-1] + 1 if passed else 0)
        return found

    def _settle(self, places: Sequence[Place], count: int) -> list[Word]:
        """Settle the times of the words before number `count`. One that the path has passed over takes no time."""
        known = {place.word: place for place in places}
        found: list[Word] = []
        while self._found < count:
            place = known.get(self._found, Place(self._found, self._since, self._since))
            start, self._since = max(self._since, place.start), max(self._since, place.end)
            word = self._words[self._found]
            self._found += 1
            if word.text:
                found.append(Word(word.text, self._sample(start), self._sample(self._since), word.behind))
        return found

    def _spread(self) -> list[Place]:
        """For more sounds than there are frames: what is left of both, evenly."""
        edges = np.linspace(self._since, self._lattice.frames, len(self._words) - self._found + 1).astype(int).tolist()
        numbers = range(self._found, len(self._words))
        return [Place(number, start, end) for number, start, end in zip(numbers, edges, edges[1:], strict=False)]

    def _sample(self, frame: int) -> int:
        return self._start + min(frame * FRAME, self._samples)
