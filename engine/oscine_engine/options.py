"""What a request may ask of how it is spoken, beyond its text: plain data that checks itself.

Ranges end where speech does; near their ends it gets worse (`python -m bench options`). A message names the field and
its range. What only some models can do (an instruction, a language) is checked where the model is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from oscine_engine.errors import InvalidInput

TextLanguage: TypeAlias = Literal["zh", "en", "ja", "ko", "de", "es", "fr", "it", "ru"]
"""Languages of a text, as ISO 639-1 has them."""
LANGUAGES: tuple[str, ...] = get_args(TextLanguage)

SLOWEST, FASTEST = 0.5, 2.0
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.1, 2.0
MIN_TOP_P = 0.01
MAX_TOP_K = 100
MAX_REPETITION = 100
MAX_REFERENCE_BYTES = 8 << 20
MAX_TRANSCRIPT = 1000
MAX_LEXICON = 200
"""Words of one request: the whole of it is looked for in every text."""


def within(name: str, value: float | None, least: float, most: float, *, whole: bool = False) -> None:
    """Raises InvalidInput for what is not a number (a whole one) from `least` to `most`. None is none."""
    if value is None:
        return
    kind = "a whole number" if whole else "a number"
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise InvalidInput(f"{name}: {value!r} is not {kind}; use {least:g} to {most:g}, or leave it out")
    if not least <= value <= most:
        # An integer may be longer than a float can tell, or a message should.
        shown = f"{value:g}" if isinstance(value, float) else f"{value!s:.20}"
        raise InvalidInput(f"{name}: {shown} is out of range; use {least:g} to {most:g}, or leave it out")


def check_text(name: str, value: str | None) -> None:
    """Raises InvalidInput for what is no text, or none that UTF-8 can hold. None is none."""
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{name}: {value!r} is no text")
    try:
        (value or "").encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name}: half of a surrogate pair stands alone (character {error.start})") from error


@dataclass(frozen=True, slots=True)
class Knobs:
    """How speech ids are drawn; None leaves what the model says.

    temperature: divides the logits. top_p, top_k: what is left of the nucleus. repetition_window,
    repetition_limit: an id that is among the last so many ids so often already is drawn again from all others; a window
    of 0 allows every repetition.
    Raises InvalidInput for values out of range.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_window: int | None = None
    repetition_limit: int | None = None

    def __post_init__(self) -> None:
        within("temperature", self.temperature, MIN_TEMPERATURE, MAX_TEMPERATURE)
        within("top_p", self.top_p, MIN_TOP_P, 1.0)
        within("top_k", self.top_k, 1, MAX_TOP_K, whole=True)
        within("repetition_window", self.repetition_window, 0, MAX_REPETITION, whole=True)
        within("repetition_limit", self.repetition_limit, 1, MAX_REPETITION, whole=True)


DEFAULT_KNOBS = Knobs()


@dataclass(frozen=True, slots=True)
class ColdVoice:
    """A voice that comes with its request and is forgotten after it.

    audio: a whole audio file, such as WAV, FLAC, MP3 or Ogg, of 3 to 10 seconds of one speaker. transcript: its words,
    "" if they are not known, which costs likeness. language: of the speaker; None: by the transcript.
    Raises InvalidInput for what can be no such recording.
    """

    audio: bytes
    transcript: str = ""
    language: Literal["en", "zh"] | None = None

    def __post_init__(self) -> None:
        check_text("reference.transcript", self.transcript)
        if not self.audio:
            raise InvalidInput("reference.audio: it is empty; send a recording of 3 to 10 seconds of speech")
        if len(self.audio) > MAX_REFERENCE_BYTES:
            raise InvalidInput(
                f"reference.audio: {len(self.audio)} bytes; at most {MAX_REFERENCE_BYTES} are taken, and 3 to 10 "
                "seconds of speech are best"
            )
        if len(self.transcript) > MAX_TRANSCRIPT:
            raise InvalidInput(
                f"reference.transcript: {len(self.transcript)} characters; it has at most {MAX_TRANSCRIPT}, and is "
                "what is said in the recording"
            )
        if self.language not in (None, "en", "zh"):
            raise InvalidInput(f"reference.language: {self.language!r} is unknown; use en or zh, or leave it out")


def check_speed(speed: float) -> None:
    """Raises InvalidInput for a speaking rate out of range."""
    within("speed", speed, SLOWEST, FASTEST)


def check_language(language: str | None) -> None:
    """Raises InvalidInput for what is no language of a text."""
    if language is not None and language not in LANGUAGES:
        raise InvalidInput(f"language: {language!r} is unknown; use one of {', '.join(LANGUAGES)}, or leave it out")


def check_lexicon(readings: Mapping[str, str] | None) -> None:
    """Raises InvalidInput for more words than one request may bring along, and for what are no words."""
    if readings is None:
        return
    if not isinstance(readings, Mapping) or not all(
        isinstance(each, str) for pair in readings.items() for each in pair
    ):
        raise InvalidInput("pronunciations: send words, each with a text to read in its place")
    if len(readings) > MAX_LEXICON:
        raise InvalidInput(f"pronunciations: {len(readings)} words; at most {MAX_LEXICON} are taken with a request")
    for pair in readings.items():
        for each in pair:
            check_text("pronunciations", each)
