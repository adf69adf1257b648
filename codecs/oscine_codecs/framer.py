"""Cuts a stream of sample blocks of any size into frames of one size, counting every sample."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oscine_codecs import pcm


@dataclass(frozen=True, slots=True)
class Frame:
    """`samples` always has the full frame size; only the first `length` of them are the stream's, the rest are zeros.

    `start` counts samples since the stream began, so `start + length` of the last frame is the stream's length.
    """

    start: int
    samples: pcm.Samples
    length: int


class Framer:
    """One stream's cutter: `push` blocks, take the frames they complete, and `finish` for the padded rest."""

    def __init__(self, frame_size: int) -> None:
        if frame_size < 1:
            raise ValueError(f"frame_size must be at least 1, got {frame_size}")
        self.frame_size = frame_size
        self._rest = np.zeros(0, dtype=np.float32)
        self._start = 0
        self._finished = False

    @property
    def total(self) -> int:
        """Samples pushed so far."""
        return self._start + len(self._rest)

    def push(self, block: npt.ArrayLike) -> list[Frame]:
        """Add float samples [n], n >= 0; return the frames now complete. Raises CodecError on bad samples."""
        start, samples = self.take(block)
        size = self.frame_size
        return [Frame(start + at, samples[at : at + size], size) for at in range(0, len(samples), size)]

    def take(self, block: npt.ArrayLike) -> tuple[int, pcm.Samples]:
        """As `push`, with all complete frames in one piece: where it starts, and its samples."""
        if self._finished:
            raise ValueError("this stream is finished; use a new Framer for the next one")
        samples = np.concatenate((self._rest, pcm.check(block)))
        whole = len(samples) - len(samples) % self.frame_size
        start, self._start = self._start, self._start + whole
        self._rest = samples[whole:]
        return start, samples[:whole]

    def finish(self) -> Frame | None:
        """End the stream: the last partial frame padded with zeros, or None if nothing is left over."""
        self._finished = True
        length = len(self._rest)
        if not length:
            return None
        padded = np.zeros(self.frame_size, dtype=np.float32)
        padded[:length] = self._rest
        frame = Frame(self._start, padded, length)
        self._start += length
        self._rest = self._rest[:0]
        return frame
