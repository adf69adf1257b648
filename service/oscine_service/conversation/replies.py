"""What a conversation answers: plain data, the same for every protocol.

Every position is in samples at the rate of the conversation's format, counted in what was sent.
"""

from dataclasses import dataclass
from typing import TypeAlias

from oscine_engine.events import Mode, Stats
from oscine_service.audio import Format
from oscine_service.limits import Limits


@dataclass(frozen=True, slots=True)
class Started:
    """The first reply: what will be used, defaults filled in, and what the client is held to.

    pre_skip: samples at 48 kHz to drop from the start of what is decoded (Opus only, else 0). word_times: `Words` come.
    """

    voice: str
    mode: Mode
    seed: int
    format: Format
    pre_skip: int
    word_times: bool
    limits: Limits


@dataclass(frozen=True, slots=True)
class Audio:
    """Samples [start_sample, start_sample + samples) as wire frames. `sequence` counts up from 0.

    `samples` leaves out what a codec pads with; the next `start_sample` is where this one ends.
    """

    sequence: int
    start_sample: int
    samples: int
    frames: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it was written, such as "$3.50" or one Chinese character, and where it sounds.

    behind: punctuation and blanks between it and the next one, as far as they were known.
    """

    text: str
    start_sample: int
    end_sample: int
    behind: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """Where words sound: in order, each once, behind the audio that they begin in."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """Of a conversation that speaks into a telephone call, in place of `Audio`: so many samples were heard there.

    `Marked`, `Flushed` and `Done` then wait until what they tell of was heard, too.
    """

    samples: int


@dataclass(frozen=True, slots=True)
class Marked:
    """The sentence that a mark stands in, or behind, has been sent to its end, which is at `end_sample`."""

    name: str
    end_sample: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """All audio of the text before the matching flush has been sent; it ends at `end_sample`."""

    end_sample: int


@dataclass(frozen=True, slots=True)
class Done:
    """The last reply of a conversation that was spoken to its end. audio_s: seconds of speech sent."""

    audio_s: float
    stats: Stats


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The last reply after `Cancel`. heard_samples: played, if the client ever reported that, else sent; in a telephone
    call, heard there."""

    heard_samples: int


Reply: TypeAlias = Started | Audio | Heard | Words | Marked | Flushed | Done | Cancelled
