"""The body of `POST /v1/audio/speech` -> what it asks. Pure; every refusal is a `BadField` that names the field."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from oscine_engine.errors import InvalidInput
from oscine_engine.events import Mode, SessionRequest
from oscine_engine.front import MAX_SEED
from oscine_engine.options import MAX_TRANSCRIPT, ColdVoice
from oscine_service import strict_json
from oscine_service.audio import SAMPLE_RATE, Container, Encoding, Format
from oscine_service.conversation.verbs import MAX_VOICE
from oscine_service.http.openai_names import MODELS, UnknownModel
from oscine_service.recordings import from_base64

T = TypeVar("T")

MAX_INPUT = 4096
"""Characters, as OpenAI has it."""
MAX_INSTRUCTIONS = 4096
MAX_SHOWN = 50
"""Characters of what was sent, in a message about it."""
FORMATS = {
    "mp3": (Encoding.MP3, Container.RAW),
    "opus": (Encoding.OPUS, Container.OGG),
    "aac": (Encoding.AAC, Container.RAW),
    "flac": (Encoding.FLAC, Container.RAW),
    "wav": (Encoding.PCM16, Container.WAV),
    "pcm": (Encoding.PCM16, Container.RAW),
}
DEFAULT_FORMAT = "mp3"
STREAM_FORMATS = ("audio", "sse")


FIELDS: dict[str, str] = {
    "model": "One of those that `/v1/models` lists.",
    "input": "The text to speak.",
    "voice": "A voice of this service, one of OpenAI's names, which stand for such, or an object with such an `id`.",
    "instructions": "How to speak, in plain words, for models that were trained to follow them.",
    "response_format": "`opus` comes in Ogg, `aac` in ADTS frames, `wav` and `pcm` are 16-bit little-endian; all mono.",
    "speed": "1 is as the voice speaks.",
    "stream_format": "`audio`: the bytes themselves. `sse`: server-sent events that carry them in base64.",
    "stream": "Not of OpenAI: false waits for the end, and sends a file whose head says how long it is.",
    "sample_rate": "Not of OpenAI: in Hz.",
    "language": "Not of OpenAI: of the text, as ISO 639-1 has it. Seen from its script where it is left out.",
    "ref_audio": (
        "Not of OpenAI: a recording of the voice to speak in, in place of `voice`: an audio file in base64, bare or as "
        "a `data:` URL. Forgotten afterwards."
    ),
    "ref_text": "Not of OpenAI: what is said in `ref_audio`.",
    "seed": "Not of OpenAI: the same request with the same seed is spoken the same way.",
}
"""All there are, and what they say."""


class BadField(InvalidInput):
    """A field of the body cannot be served as it stands. param: its name, None for the body as a whole."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True)
class Speech:
    """What one request asks. events: as server-sent events. stream: as it is spoken, else whole, once it all is."""

    text: str
    session: SessionRequest
    format: Format
    events: bool
    stream: bool


def parse(body: bytes) -> Speech:
    """Its voice is the name as it was sent. Raises BadField and UnknownModel."""
    fields = _object(body)
    if unknown := [name for name in fields if name not in FIELDS]:
        name = unknown[0] if unknown[0].isprintable() and len(unknown[0]) <= MAX_SHOWN else None
        raise BadField(f"{_shown(unknown[0])} is no field of this request; there are {', '.join(FIELDS)}", name)
    model = _text(fields, "model", _required)
    if model not in MODELS:
        raise UnknownModel(f"model: there is no {_shown(model)}; use one of {', '.join(MODELS)}")
    format = _choice(fields, "response_format", tuple(FORMATS), DEFAULT_FORMAT)
    encoding, container = FORMATS[format]
    with _about("sample_rate"):
        written = Format(encoding, _whole(fields, "sample_rate", SAMPLE_RATE), 0, container)
    events = _choice(fields, "stream_format", STREAM_FORMATS, STREAM_FORMATS[0]) == "sse"
    stream = _typed(fields, "stream", bool, "true or false", True)
    if events and not stream:
        raise BadField("stream: server-sent events are a stream; leave it out, or leave stream_format out", "stream")
    return Speech(_input(fields), _session(fields), written, events, stream)


def _session(fields: Mapping[str, Any]) -> SessionRequest:
    seed = fields.get("seed")
    if seed is not None and not 0 <= _whole(fields, "seed", 0) <= MAX_SEED:
        raise BadField(f"seed: out of range; use 0 to {MAX_SEED}, or leave it out", "seed")
    instructions = _text(fields, "instructions", lambda: "")
    if len(instructions) > MAX_INSTRUCTIONS:
        raise BadField(
            f"instructions: {len(instructions)} characters; it has at most {MAX_INSTRUCTIONS}", "instructions"
        )
    speed, language = _speed(fields), _typed(fields, "language", str, "a string", None)
    reference = _reference(fields)
    voice = None if reference is not None else _voice(fields)
    with _about("speed"):
        SessionRequest(speed=speed)
    with _about("language"):
        # All the text is there: nothing is gained by reading a sentence before its end.
        return SessionRequest(
            voice=voice,
            mode=Mode.SENTENCE,
            seed=seed,
            speed=speed,
            language=language,
            instruction=instructions or None,
            reference=reference,
        )


def _object(body: bytes) -> dict[str, Any]:
    try:
        fields = strict_json.loads(body)
    except UnicodeDecodeError as error:
        raise BadField(f"the body is not valid UTF-8 (byte {error.start})") from error
    except ValueError as error:
        raise BadField(f"the body is not valid JSON ({error})") from error
    if not isinstance(fields, dict):
        raise BadField("the body must be a JSON object")
    return fields


def _required() -> str:
    raise LookupError


def _text(fields: Mapping[str, Any], name: str, default: Callable[[], str]) -> str:
    """A string that UTF-8 can hold. Raises BadField where it is missing and `default` raises LookupError."""
    value = fields.get(name)
    if value is None:
        try:
            return default()
        except LookupError as error:
            raise BadField(f"{name}: it is missing", name) from error
    if not isinstance(value, str):
        raise BadField(f"{name}: it must be a string, not {_kind(value)}", name)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadField(f"{name}: half of a surrogate pair stands alone (character {error.start})", name) from error
    return value


def _input(fields: Mapping[str, Any]) -> str:
    text = _text(fields, "input", _required)
    if not 0 < len(text) <= MAX_INPUT:
        raise BadField(f"input: {len(text)} characters; it has 1 to {MAX_INPUT}: send longer texts in parts", "input")
    return text


def _reference(fields: Mapping[str, Any]) -> ColdVoice | None:
    """A voice that came along."""
    audio, words = _text(fields, "ref_audio", lambda: ""), _text(fields, "ref_text", lambda: "")
    if not audio:
        if fields.get("ref_audio") is not None or words:
            raise BadField("ref_audio: it is empty; send an audio file in base64", "ref_audio")
        return None
    if fields.get("voice") is not None:
        raise BadField("ref_audio: name a voice or send a recording of one, not both", "ref_audio")
    head, comma, rest = audio.partition(",")
    if comma and not (head.startswith("data:") and head.endswith(";base64")):
        raise BadField("ref_audio: it must be base64, bare or behind data:audio/...;base64,", "ref_audio")
    try:
        data = from_base64(rest if comma else audio)
    except ValueError as error:
        raise BadField(f"ref_audio: it is not base64 ({error})", "ref_audio") from error
    with _about("ref_text" if len(words) > MAX_TRANSCRIPT else "ref_audio"):
        return ColdVoice(data, words)


def _voice(fields: Mapping[str, Any]) -> str:
    voice = fields.get("voice")
    if isinstance(voice, dict):
        if extra := [name for name in voice if name != "id"]:
            raise BadField(f"voice: an object with an id has no field {_shown(extra[0])}; leave it out", "voice")
        voice = voice.get("id")
    if voice is None:
        raise BadField("voice: it is missing; name a voice, or send an object with its id", "voice")
    if not isinstance(voice, str):
        raise BadField(f"voice: it must be a string, or an object with an id, not {_kind(voice)}", "voice")
    if not 0 < len(voice) <= MAX_VOICE:
        raise BadField(f"voice: a name of {len(voice)} characters; it has 1 to {MAX_VOICE}", "voice")
    return _text({"voice": voice}, "voice", _required)


def _speed(fields: Mapping[str, Any]) -> float:
    speed = fields.get("speed")
    if speed is None:
        return 1.0
    if isinstance(speed, bool) or not isinstance(speed, int | float):
        raise BadField(f"speed: it must be a number, not {_kind(speed)}", "speed")
    return strict_json.as_float(speed)


def _whole(fields: Mapping[str, Any], name: str, default: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadField(f"{name}: it must be a whole number, not {_kind(value)}", name)
    return value


def _choice(fields: Mapping[str, Any], name: str, choices: tuple[str, ...], default: str) -> str:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, str) or value not in choices:
        raise BadField(
            f"{name}: {_shown(value) if isinstance(value, str) else _kind(value)} is not one of {', '.join(choices)}",
            name,
        )
    return value


def _typed(fields: Mapping[str, Any], name: str, kind: type[T], called: str, default: T | None) -> Any:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise BadField(f"{name}: it must be {called}, not {_kind(value)}", name)
    return value


def _shown(text: str) -> str:
    """For a message, which is not to be as long as what it is about."""
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…")


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "null"


@contextmanager
def _about(param: str) -> Iterator[None]:
    """What is refused in the block is refused for this field."""
    try:
        yield
    except BadField:
        raise
    except InvalidInput as error:
        raise BadField(str(error) if param in str(error) else f"{param}: {error}", param) from error
