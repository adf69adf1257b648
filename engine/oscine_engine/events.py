"""What a session is asked and what it answers: plain data, shared by every transport."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray


class Mode(StrEnum):
    """How text becomes speech segments.

    SENTENCE speaks each sentence once its text is whole; INTERLEAVED starts while the sentence is still arriving;
    AUTO interleaves the first sentence for the fast start and takes the later ones whole.
    """

    SENTENCE = "sentence"
    INTERLEAVED = "interleaved"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """Opens a session. `voice` None takes the model's first voice; `seed` None draws one (reported in `Started`).

    trim: cut silence at the edges of sentences, within bounds. quiet_s: a sentence that looks finished is spoken after
    this many seconds without more text; above 0, infinity for never, None for the engine's own setting.
    """

    voice: str | None = None
    mode: Mode = Mode.AUTO
    seed: int | None = None
    trim: bool = True
    quiet_s: float | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The first event of a session: what will be used. `sample_rate` in Hz."""

    voice: str
    mode: Mode
    seed: int
    sample_rate: int


@dataclass(frozen=True, slots=True)
class Audio:
    """Samples [start_sample, start_sample + len(samples)) of the session; float32 mono in [-1, 1]. `seq` counts up."""

    seq: int
    start_sample: int
    samples: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Flushed:
    """Everything appended before the matching flush has been sent; `end_sample` is where its audio ends."""

    end_sample: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What a finished session cost.

    `first_packet_s` counts from the moment the model had the text to say its first id until the first samples left the
    engine; `busy_s` is the time from then to the last sample in which there was something to compute: waiting for text
    or for a slow listener is left out, waiting for other sessions is not. None where nothing was spoken.

    A listener who plays at once can run dry in two ways: `underruns` times, `underrun_s` seconds in all, because what
    it was to hear was not computed in time, and `starved` times, `starved_s` seconds, because its text came too late.
    A wait after a flush is neither: that is how a client says that it pauses.

    unspoken_characters: letters that were left out, because the model has no way to read their script.
    """

    audio_s: float
    segments: int
    speech_tokens: int
    first_packet_s: float | None
    busy_s: float | None
    underruns: int = 0
    underrun_s: float = 0.0
    starved: int = 0
    starved_s: float = 0.0
    unspoken_characters: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The last event of a session that ended well."""

    stats: Stats


Event: TypeAlias = Started | Audio | Flushed | Done
