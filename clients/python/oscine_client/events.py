"""What a call answers. Every position is in samples of the speech that was sent, at its rate, from 0."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Started:
    """The first event: what the service uses. pre_skip: of Opus, samples at 48 kHz to drop from what is decoded."""

    voice: str
    encoding: str
    sample_rate: int
    bitrate: int
    mode: str
    seed: int
    pre_skip: int = 0
    word_times: bool = False
    container: str = "raw"


@dataclass(frozen=True, slots=True)
class Audio:
    """Samples [start_sample, start_sample + samples) as `frames`: Opus packets, or one block of anything else.

    `sequence` counts up from 0. A codec may pad its last frame: trust `samples`.
    """

    sequence: int
    start_sample: int
    samples: int
    frames: tuple[bytes, ...]

    @property
    def data(self) -> bytes:
        """All frames in a row, which is what is played of every encoding but Opus."""
        return self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)


@dataclass(frozen=True, slots=True)
class Word:
    """Samples [start_sample, end_sample). behind: punctuation and blanks between it and the next word."""

    text: str
    start_sample: int
    end_sample: int
    behind: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """When words sound; may come before or shortly after their audio."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """Where a `sink` was named, in place of `Audio`: so many samples were heard in that telephone call."""

    samples: int


@dataclass(frozen=True, slots=True)
class Marked:
    """The sentence in which the mark of this name stands has been sent to its end."""

    name: str
    end_sample: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """All text before the flush has been sent."""

    end_sample: int


@dataclass(frozen=True, slots=True)
class Done:
    """All was said. first_packet_seconds, real_time_factor: None where nothing was spoken."""

    audio_seconds: float
    segments: int
    first_packet_seconds: float | None = None
    real_time_factor: float | None = None
    underruns: int = 0
    underrun_seconds: float = 0.0
    starved: int = 0
    starved_seconds: float = 0.0
    unspoken_characters: int = 0


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It was cut short; the listener had so many samples: played, where that was reported, else sent; or heard, in a
    telephone call."""

    heard_samples: int


Event: TypeAlias = Started | Audio | Heard | Words | Marked | Flushed | Done | Cancelled


@dataclass(frozen=True, slots=True)
class Voice:
    """origin: "model", "own" or "shared". seconds: of its reference. created: Unix time; both 0 for the model's."""

    name: str
    language: str
    description: str
    origin: str
    seconds: float
    created: float
    transcribed: bool
