"""A port that speaks at once: what is behind the doors is not what is tried."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from oscine_engine.errors import OscineError, UnknownVoice
from oscine_engine.events import Audio, Done, Flushed, Stats
from oscine_engine.planner import Begin, End, Step
from oscine_engine.port import Deliver, PortEvent, Progress, Sounded, StreamOptions
from oscine_service.unit import wire

RATE = 24000
SEGMENT = 960
"""Samples of a segment, whatever is said in it."""


class FastPort:
    """A `Port` that knows `voices` and lets everybody in."""

    serving = True

    def __init__(self, voices: Container[str]) -> None:
        self._voices = voices
        self._streams: set[FastStream] = set()
        rising = np.linspace(-0.5, 0.5, SEGMENT, dtype=np.float32)
        self.segment = rising

    @property
    def admitted(self) -> int:
        return len(self._streams)

    async def open(self, options: StreamOptions, deliver: Deliver) -> FastStream:
        if options.reference is None and options.voice not in self._voices:
            raise UnknownVoice(f"there is no voice {options.voice!r}")
        # As it would go to an engine process, which is told nothing here.
        wire.open_request(options).SerializeToString()
        stream = FastStream(self, options, deliver)
        self._streams.add(stream)
        return stream

    def left(self, stream: FastStream) -> None:
        self._streams.discard(stream)


class FastStream:
    """A `StreamPort` of one event loop: every segment sounds when it ends."""

    def __init__(self, port: FastPort, options: StreamOptions, deliver: Deliver) -> None:
        self._port, self._options, self._tell = port, options, deliver
        self._segments = self._packets = self._sent = self._answered = 0
        self._writing = False
        self._ended = False

    def speak(self, steps: Sequence[Step], *, mark: bool = False, end: bool = False) -> None:
        wire.speak_request(steps, mark=mark, end=end).SerializeToString()
        for step in steps:
            match step:
                case Begin():
                    if self._writing:
                        raise AssertionError("a segment begins inside another one")
                    self._writing = True
                case End():
                    self._writing = False
                    self._sound()
        if mark:
            self._answered += 1
            self._deliver(Flushed(self._sent))
        self._deliver(Progress(working=False, answered=self._answered))
        if end:
            audio_s = self._sent / RATE
            known = 0.001 if self._sent else None
            self._end(Done(Stats(audio_s, self._segments, self._segments, known, known)))

    def taken(self, samples: int) -> None:
        if not 0 <= samples <= self._sent:
            raise AssertionError(f"{samples} samples were taken of {self._sent}")

    def played(self, samples: int) -> None:
        if not 0 <= samples <= self._sent:
            raise AssertionError(f"{samples} samples were played of {self._sent}")

    def stop(self, error: OscineError) -> None:
        self._end(error)

    def _sound(self) -> None:
        self._deliver(Audio(self._packets, self._sent, self._port.segment))
        self._segments, self._packets = self._segments + 1, self._packets + 1
        self._sent, self._answered = self._sent + SEGMENT, self._answered + 1
        if self._options.word_times:
            self._deliver(Sounded(self._sent))

    def _end(self, outcome: Done | OscineError) -> None:
        self._deliver(outcome)
        self._ended = True
        self._port.left(self)

    def _deliver(self, event: PortEvent) -> None:
        if not self._ended:
            self._tell(event)
