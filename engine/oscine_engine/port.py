"""What a session needs of the loop that owns the models, wherever that runs: plain data both ways.

Two implementations: `runtime.device_loop.DeviceLoop` in the same process, and the service's unit, which speaks to an
engine process over a local socket.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from oscine_engine.errors import OscineError
from oscine_engine.events import Audio, Done, Flushed
from oscine_engine.options import DEFAULT_KNOBS, Knobs
from oscine_engine.planner import Step


@dataclass(frozen=True, slots=True, eq=False)
class HeardVoice:
    """A recording to speak after, decoded. samples: float32 mono in [-1, 1] at `rate` Hz. transcript: its words, or
    ""."""

    samples: NDArray[np.float32]
    rate: int
    transcript: str = ""
    language: Literal["en", "zh"] | None = None


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How one stream speaks. seed: 0 to 2^63 - 1. trim: cut silence at the edges of sentences, within bounds.

    voice: a name, which counts among those of `owner` and everybody's; "" where `reference` is spoken after.
    instruction, cross_lingual, language, speed, knobs, word_times: as `SessionRequest` has them.
    """

    voice: str
    seed: int
    trim: bool = True
    owner: str = ""
    reference: HeardVoice | None = None
    instruction: str | None = None
    cross_lingual: bool | None = None
    language: str | None = None
    speed: float = 1.0
    knobs: Knobs = DEFAULT_KNOBS
    word_times: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Delivered whenever one of them changes.

    working: there is something to compute for the stream just now, rather than text or a listener to wait for.
    answered: of the sentences and marks handed over with `speak`, how many have been sent to their end.
    """

    working: bool
    answered: int


@dataclass(frozen=True, slots=True)
class Sounded:
    """Where a segment's audio ends, for streams with word times: one for each segment, in order, perhaps before all of
    its audio."""

    end_sample: int


PortEvent: TypeAlias = Audio | Sounded | Flushed | Progress | Done | OscineError
"""A stream ends with exactly one Done or error; nothing is delivered after it."""

Deliver: TypeAlias = Callable[[PortEvent], object]
"""May be called from any thread, must not block, and gets a stream's events in order."""


class StreamPort(Protocol):
    """One stream. Verbs return at once, may be called from any thread, and change nothing once the stream has ended."""

    def speak(self, steps: Sequence[Step], *, mark: bool = False, end: bool = False) -> None:
        """Append the planner's steps; `mark` is answered by Flushed once they have sounded, `end` closes the input."""

    def taken(self, samples: int) -> None:
        """The session has handed `samples` more to its listener: makes room for more to be computed."""

    def played(self, samples: int) -> None:
        """The listener reports `samples` played in all; from then on credit and deadlines go by its reports."""

    def stop(self, error: OscineError) -> None:
        """End the stream with `error` before the next tick and free all it holds."""


class Port(Protocol):
    """The loop that owns the models."""

    @property
    def serving(self) -> bool:
        """Streams can be opened. False before the start, after a fault and while an engine process comes back."""

    @property
    def admitted(self) -> int:
        """Streams open now."""

    async def open(self, options: StreamOptions, deliver: Deliver) -> StreamPort:
        """Admit a stream. Raises Overloaded with a hint, Unavailable (retryable) while not serving, UnknownVoice."""
