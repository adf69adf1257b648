"""What is to be played in a call: frames in, one of 20 ms out at each tick, and how far the listener is. No I/O."""

from collections import deque
from collections.abc import Sequence

from oscine_service.audio import Format
from oscine_service.telephony.frames import Cutter, Frame


class Track:
    """Positions are as `sink.Player` has them; what has been sent counts as heard."""

    def __init__(self, format: Format) -> None:
        self._cutter = Cutter(format)
        self._waiting: deque[Frame] = deque()
        self._points: deque[int] = deque()
        self.given = 0
        self.heard = 0

    @property
    def ahead(self) -> int:
        """Samples that wait."""
        return self.given - self.heard

    @property
    def starved(self) -> bool:
        """No whole frame waits."""
        return not self._waiting

    def write(self, frames: Sequence[bytes], samples: int) -> None:
        """Frames that hold so many samples."""
        self._waiting += self._cutter.push(frames, samples)
        self.given += samples

    def point(self) -> None:
        """`next` tells when all that was given so far has been heard."""
        if not self._points or self._points[-1] != self.given:
            self._points.append(self.given)

    def flush(self) -> None:
        """What waits for the rest of a frame is filled up with silence."""
        if (rest := self._cutter.rest()) is not None:
            self._waiting.append(rest)

    def clear(self) -> int:
        """Drop all that waits; how far the listener is."""
        self._waiting.clear()
        self._points.clear()
        self._cutter.drop()
        self.given = self.heard
        return self.heard

    def next(self) -> tuple[Frame | None, bool]:
        """The frame that is due, None where there is nothing to say, and whether a point has been reached."""
        frame = self._waiting.popleft() if self._waiting else None
        if frame is not None:
            self.heard += frame.samples
        reached = False
        while self._points and self._points[0] <= self.heard:
            self._points.popleft()
            reached = True
        return frame, reached
