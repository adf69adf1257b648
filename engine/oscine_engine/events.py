"""What a session is asked and what it answers: plain data, shared by every transport."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from oscine_engine.errors import InvalidInput
from oscine_engine.options import ColdVoice, Knobs, check_language, check_lexicon, check_speed, check_text


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

    owner: whose voices may be named besides everybody's; never what a client says of itself.
    reference: a voice of its own, in place of `voice`.
    instruction: how to speak, in plain words ("Whisper."), for models that were trained to follow one.
    cross_lingual: take only the sound of the voice, not the words of its recording, which are in another language;
    None: where `language` is not that of the voice.
    language: of the text, as ISO 639-1 has it; None: seen from its script.
    speed: of speech, 1.0 being as the voice speaks. pronunciations: word -> what is read in its place.
    word_times: tell when each word sounds.
    The rest are `Knobs`. Raises InvalidInput, naming the field and its range, for values out of range.
    """

    voice: str | None = None
    mode: Mode = Mode.AUTO
    seed: int | None = None
    trim: bool = True
    quiet_s: float | None = None
    owner: str = ""
    reference: ColdVoice | None = None
    instruction: str | None = None
    cross_lingual: bool | None = None
    language: str | None = None
    speed: float = 1.0
    pronunciations: Mapping[str, str] | None = None
    word_times: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_window: int | None = None
    repetition_limit: int | None = None

    def __post_init__(self) -> None:
        if self.voice is not None and self.reference is not None:
            raise InvalidInput("voice, reference: name a voice or send a recording of one, not both")
        check_text("voice", self.voice)
        check_text("instruction", self.instruction)
        check_language(self.language)
        check_speed(self.speed)
        check_lexicon(self.pronunciations)
        _ = self.knobs

    @property
    def knobs(self) -> Knobs:
        """How ids are drawn."""
        return Knobs(self.temperature, self.top_p, self.top_k, self.repetition_window, self.repetition_limit)


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
class Word:
    """A word in the audio: samples [start_sample, end_sample) of the session.

    text: as written, such as "Dr.", "$3.50" or one Chinese character. behind: punctuation and blanks between it and the
    next word, as far as they were known.
    """

    text: str
    start_sample: int
    end_sample: int
    behind: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """Where words sound, for those who asked for it: in order, each once, behind the audio that they sound in."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Flushed:
    """Everything appended before the matching flush has been sent; `end_sample` is where its audio ends."""

    end_sample: int


@dataclass(frozen=True, slots=True)
class Marked:
    """The sentence that the mark of that name stands in, or behind, has been sent to its end, at `end_sample`."""

    name: str
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


Event: TypeAlias = Started | Audio | Words | Flushed | Marked | Done
