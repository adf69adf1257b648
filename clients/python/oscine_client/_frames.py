"""The service's WebSocket protocol (docs/websocket.md): what is asked and answered, without a socket."""

import base64
import json
import logging
import struct
from typing import Any

from oscine_client import errors
from oscine_client.config import Config
from oscine_client.events import Audio, Cancelled, Done, Event, Flushed, Heard, Marked, Started, Word, Words

log = logging.getLogger("oscine_client")

PATH = "/v1/speech"
PROTOCOL = "oscine.v1"
TEXT_CHARACTERS = 16384
"""In one message: a character has at most four bytes, and a service takes 65,536."""
HEADER = struct.Struct(">BBHIIIQ")
"""Of a binary message: version, kind, frames, context number, sequence, samples, start sample."""
VERSION, PACKETS = 1, 1

_PLAIN = (
    "seed trim quiet_ms cross_lingual speed temperature top_p top_k repetition_window repetition_limit mode".split()
)
_TEXTS = ("voice", "instruction", "language", "sink")
_ERRORS = {
    "unknown_voice": errors.NotFound,
    "unknown_call": errors.NotFound,
    "unauthenticated": errors.Refused,
    "forbidden": errors.Refused,
    "codec_missing": errors.Refused,
    "checkpoint": errors.Refused,
    "no_store": errors.Refused,
    "invalid_input": errors.InvalidInput,
    "voice_exists": errors.InvalidInput,
    "call_taken": errors.InvalidInput,
    "overloaded": errors.Overloaded,
    "quota_exceeded": errors.Overloaded,
    "unavailable": errors.Unavailable,
    "idle": errors.Cut,
    "stalled": errors.Cut,
    "hung_up": errors.Cut,
    "cancelled": errors.Cut,
}
_LATER = 1013
_STOPPING = (1001, 1012)


def start(context: str, config: Config) -> str:
    asked: dict[str, Any] = {name: getattr(config, name) for name in _PLAIN if getattr(config, name) is not None}
    asked |= {name: getattr(config, name) for name in _TEXTS if getattr(config, name)}
    if config.pronunciations:
        asked["pronunciations"] = dict(config.pronunciations)
    if (reference := config.reference) is not None:
        audio = base64.b64encode(reference.audio).decode()
        asked["reference"] = {"audio": audio, "transcript": reference.transcript, "language": reference.language}
    if config.word_times:
        asked["word_times"] = True
    if not config.sink:
        asked["format"] = {"encoding": config.encoding, "container": config.container}
        asked["format"] |= {name: getattr(config, name) or None for name in ("sample_rate", "bitrate")}
    return json.dumps({"type": "start", "context": context, **asked})


def ask(kind: str, context: str, **fields: object) -> str:
    return json.dumps({"type": kind, "context": context, **fields})


def texts(context: str, text: str) -> list[str]:
    """As many messages as `text` needs, none for an empty one."""
    pieces = (text[at : at + TEXT_CHARACTERS] for at in range(0, len(text), TEXT_CHARACTERS))
    return [ask("text", context, text=piece) for piece in pieces]


class Answers:
    """What a service says on one socket, told apart by context."""

    def __init__(self) -> None:
        self._contexts: dict[int, str] = {}

    def read(self, message: str | bytes) -> tuple[str | None, Event | errors.SpeechError | None]:
        """A context's name and what it is told, None for what is no news. What is told of none of them ends none of
        them, and is logged: a message that the service could not take.

        Raises SpeechError for what cannot be understood.
        """
        try:
            return self._audio(message) if isinstance(message, bytes) else self._news(json.loads(message))
        except (ValueError, LookupError, TypeError, AttributeError, struct.error) as error:
            raise errors.SpeechError(
                f"the service sends what this client does not understand: {error!r}", "internal"
            ) from error

    def _news(self, told: dict[str, Any]) -> tuple[str | None, Event | errors.SpeechError | None]:
        context: Any = told.get("context")
        if told["type"] in ("done", "cancelled", "error"):
            self._contexts = {number: name for number, name in self._contexts.items() if name != context}
        match told["type"]:
            case "started":
                self._contexts[told["number"]] = context
                return context, _started(told)
            case "words":
                return context, Words(tuple(_word(each) for each in told["words"]))
            case "heard":
                return context, Heard(told["samples"])
            case "marked":
                return context, Marked(told["name"], told["end_sample"])
            case "flushed":
                return context, Flushed(told["end_sample"])
            case "done":
                names = Done.__slots__
                return context, Done(**{name: told[name] for name in names})
            case "cancelled":
                return context, Cancelled(told["heard_samples"])
            case "error" if context is None:
                log.warning("the service could not take a message: %s (%s)", told["message"], told["code"])
                return None, None
            case "error":
                return context, _error(told)
            case _:
                return context, None

    def _audio(self, message: bytes) -> tuple[str | None, Event | None]:
        version, kind, frames, number, sequence, samples, first = HEADER.unpack_from(message)
        if version != VERSION:
            raise errors.SpeechError(
                f"the service sends audio of version {version}, newer than this client", "internal"
            )
        if number not in self._contexts:
            return None, None
        body = memoryview(message)[HEADER.size :]
        found = _packets(body, frames) if kind == PACKETS else (bytes(body),)
        return self._contexts[number], Audio(sequence, first, samples, found)


def closed(code: int | None, reason: str) -> errors.SpeechError:
    """What the calls of a socket end with that was closed under them."""
    why = f"the connection was closed ({code}): {reason or 'without a reason'}" if code else "the connection was lost"
    if code == _LATER:
        return errors.Overloaded(why, "overloaded")
    if code is None or code in _STOPPING or code == 1006:
        return errors.Unavailable(why, "unavailable")
    return errors.Refused(why, "refused") if code == 1008 else errors.SpeechError(why, "internal")


def refused(status: int, body: bytes | bytearray, retry_after: str | None) -> errors.SpeechError:
    """Of a handshake that was answered with an HTTP status."""
    try:
        told = json.loads(body)["error"]
        message, code = str(told["message"]), str(told["code"])
    except (ValueError, KeyError, TypeError):
        message, code = f"the service refused the connection with status {status}", "refused"
    hint = float(retry_after) if retry_after is not None and retry_after.isdigit() else None
    kind = _ERRORS.get(code, errors.Unavailable if status >= 500 else errors.Refused)
    return kind(message, code, hint)


def _started(told: dict[str, Any]) -> Started:
    format = told["format"]
    return Started(
        voice=told["voice"],
        encoding=format["encoding"],
        sample_rate=format["sample_rate"],
        bitrate=format["bitrate"],
        mode=told["mode"],
        seed=told["seed"],
        pre_skip=told["pre_skip"],
        word_times=told["word_times"],
        container=format["container"],
    )


def _word(told: dict[str, Any]) -> Word:
    return Word(told["text"], told["start_sample"], told["end_sample"], told["behind"])


def _error(told: dict[str, Any]) -> errors.SpeechError:
    hint = told.get("retry_after_ms")
    kind = _ERRORS.get(told["code"], errors.SpeechError)
    return kind(told["message"], told["code"], None if hint is None else hint / 1000)


def _packets(body: memoryview, count: int) -> tuple[bytes, ...]:
    packets, at = [], 0
    for _ in range(count):
        size = int.from_bytes(body[at : at + 2], "big")
        packets.append(bytes(body[at + 2 : at + 2 + size]))
        at += 2 + size
    return tuple(packets)
