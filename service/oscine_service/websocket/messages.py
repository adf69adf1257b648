"""The native WebSocket protocol: messages -> what they ask, replies -> messages. Pure; docs/websocket.md describes it.

Every refusal is an InvalidInput that names the field.
"""

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from oscine_codecs.errors import CodecError
from oscine_engine.errors import InvalidInput
from oscine_engine.events import Mode, SessionRequest
from oscine_engine.options import ColdVoice
from oscine_service.audio import Container, Encoding, Format
from oscine_service.conversation import (
    MAX_TEXT_BYTES,
    MAX_VOICE,
    Audio,
    Cancel,
    Cancelled,
    Config,
    Done,
    Flush,
    Flushed,
    Heard,
    Mark,
    Marked,
    Played,
    Reply,
    Started,
    Verb,
    Words,
    mark_name,
    quiet_s,
    sink_name,
    text_piece,
)
from oscine_service.conversation.backlog import MOST_CHARACTERS
from oscine_service.errors import code, retry_after_s
from oscine_service.limits import Limits
from oscine_service.recordings import from_base64
from oscine_service.websocket.fields import Object, field, loads, one_of, only, shown

PROTOCOL = "oscine.v1"
"""Subprotocol, for clients that offer one."""
MAX_CONTEXT = 64
"""Characters of a context's name."""
PIECE_BYTES = 32 << 10
"""Of sound in one message."""

HEADER = struct.Struct(">BBHIIIQ")
"""Of a binary message: version, kind, frames, context number, sequence, samples, start sample."""
VERSION = 1
BYTES, PACKETS = 0, 1
"""Kinds: what follows is the sound alone; or frames, each behind its length in two bytes."""


@dataclass(frozen=True, slots=True)
class End:
    """No more text follows."""


@dataclass(frozen=True, slots=True)
class Request:
    """One message of a client, for a context."""

    context: str
    asks: Config | Verb | End | InvalidInput


def parse(message: str | bytes) -> Request:
    """Raises InvalidInput for a message that no context can be told of."""
    found = loads(message)
    context = field(found, "context", str, "")
    if len(context) > MAX_CONTEXT:
        raise InvalidInput(f"context: a name of {len(context)} characters; it has at most {MAX_CONTEXT}")
    try:
        return Request(context, _asks(found))
    except (InvalidInput, CodecError) as error:
        return Request(context, error if isinstance(error, InvalidInput) else InvalidInput(str(error)))


_FIELDS: dict[str, frozenset[str]] = {
    "text": frozenset({"text"}),
    "flush": frozenset(),
    "mark": frozenset({"name"}),
    "played": frozenset({"samples"}),
    "cancel": frozenset(),
    "end": frozenset(),
    "start": frozenset(
        "voice format mode seed trim quiet_ms instruction language cross_lingual speed temperature top_p top_k "
        "repetition_window repetition_limit pronunciations reference word_times sink".split()
    ),
}


def _asks(message: Object) -> Config | Verb | End:
    kind = field(message, "type", str)
    if kind not in _FIELDS:
        raise InvalidInput(f"type: {shown(kind)} is unknown; use one of {', '.join(_FIELDS)}")
    only(message, _FIELDS[kind] | {"type", "context"}, kind)
    match kind:
        case "text":
            return text_piece(field(message, "text", str))
        case "flush":
            return Flush()
        case "mark":
            return Mark(mark_name(field(message, "name", str)))
        case "played":
            samples = field(message, "samples", int)
            if samples < 0:
                raise InvalidInput(f"samples: {samples}; it must be 0 or more")
            return Played(samples)
        case "cancel":
            return Cancel()
        case "end":
            return End()
        case _:
            return _config(message)


def _config(message: Object) -> Config:
    voice = field(message, "voice", str, "")
    if len(voice) > MAX_VOICE:
        raise InvalidInput(f"voice: a name of {len(voice)} characters; it has at most {MAX_VOICE}")
    given: dict[str, Any] = {}
    for name, kind in (
        ("seed", int),
        ("trim", bool),
        ("instruction", str),
        ("language", str),
        ("cross_lingual", bool),
        ("speed", float),
        ("temperature", float),
        ("top_p", float),
        ("top_k", int),
        ("repetition_window", int),
        ("repetition_limit", int),
        ("word_times", bool),
    ):
        if message.get(name) is not None:
            given[name] = field(message, name, kind)
    if message.get("quiet_ms") is not None:
        given["quiet_s"] = quiet_s(field(message, "quiet_ms", int))
    if message.get("pronunciations") is not None:
        words = given["pronunciations"] = field(message, "pronunciations", dict)
        for word in words:
            field(words, word, str, inside="pronunciations")
    if message.get("reference") is not None:
        given["reference"] = _reference(field(message, "reference", dict))
    mode = one_of(Mode, field(message, "mode", str, Mode.AUTO.value), "mode")
    session = SessionRequest(voice=voice or None, mode=mode, **given)
    if sink := sink_name(field(message, "sink", str, "")):
        if message.get("format") is not None:
            raise InvalidInput("format: a telephone call has one of its own; leave it out beside sink")
        return Config(session, Format(), sink)
    return Config(session, _format(field(message, "format", dict, {})))


def _format(message: Object) -> Format:
    only(message, frozenset({"encoding", "sample_rate", "bitrate", "container"}), "format")
    given: dict[str, Any] = {}
    for name in ("sample_rate", "bitrate"):
        if message.get(name):
            given[name] = field(message, name, int, inside="format")
    return Format(
        encoding=one_of(
            Encoding, field(message, "encoding", str, Encoding.OPUS.value, inside="format"), "format.encoding"
        ),
        container=one_of(
            Container, field(message, "container", str, Container.RAW.value, inside="format"), "format.container"
        ),
        **given,
    )


def _reference(message: Object) -> ColdVoice:
    only(message, frozenset({"audio", "transcript", "language"}), "reference")
    try:
        audio = from_base64(field(message, "audio", str, inside="reference"))
    except ValueError as error:
        raise InvalidInput(f"reference.audio: not base64: {error}") from error
    transcript = field(message, "transcript", str, "", inside="reference")
    match field(message, "language", str, "", inside="reference"):
        case "":
            return ColdVoice(audio, transcript)
        case "en" | "zh" as language:
            return ColdVoice(audio, transcript, language)
        case other:
            raise InvalidInput(f"reference.language: {shown(other)} is unknown; use en or zh, or leave it out")


def ready(limits: Limits, contexts: int, message_bytes: int) -> str:
    """The first message of a socket."""
    return json.dumps(
        {
            "type": "ready",
            "protocol": PROTOCOL,
            "limits": {
                "contexts": contexts,
                "message_bytes": message_bytes,
                "text_bytes": MAX_TEXT_BYTES,
                "waiting_characters": MOST_CHARACTERS,
                "idle_seconds": _seconds(limits.idle_timeout_s),
                "write_seconds": _seconds(limits.write_timeout_s),
                "pause_seconds": _seconds(limits.pause_timeout_s),
            },
        }
    )


def _seconds(limit: float) -> float | None:
    return None if math.isinf(limit) else limit


def error(context: str | None, failure: Exception) -> str:
    """context: None for a message that could not be understood."""
    told = {"type": "error", "code": code(failure), "message": str(failure)}
    if context is not None:
        told["context"] = context
    hint = retry_after_s(failure)
    return json.dumps(told if hint is None else {**told, "retry_after_ms": round(1000 * hint)})


class Rendering:
    """One context's replies. number: what binary messages call it."""

    def __init__(self, context: str, number: int, format: Format) -> None:
        self._context = context
        self._number = number
        self._format = format
        self._sequence = 0

    def said(self, reply: Reply) -> Iterator[str | bytes]:
        match reply:
            case Audio():
                yield from self._audio(reply)
            case Words(words=words):
                yield self._event("words", words=[asdict(word) for word in words])
            case Heard(samples=samples):
                yield self._event("heard", samples=samples)
            case Marked(name=name, end_sample=end):
                yield self._event("marked", name=name, end_sample=end)
            case Flushed(end_sample=end):
                yield self._event("flushed", end_sample=end)
            case Cancelled(heard_samples=heard):
                yield self._event("cancelled", heard_samples=heard)
            case Started():
                yield self._started(reply)
            case Done():
                yield self._done(reply)

    def failed(self, failure: Exception) -> Iterator[str | bytes]:
        yield error(self._context, failure)

    def _event(self, kind: str, **fields: object) -> str:
        return json.dumps({"type": kind, "context": self._context, **fields})

    def _started(self, reply: Started) -> str:
        told = reply.format
        return self._event(
            "started",
            number=self._number,
            voice=reply.voice,
            mode=reply.mode.value,
            seed=reply.seed,
            format={
                "encoding": told.encoding.value,
                "container": told.container.value,
                "sample_rate": told.sample_rate,
                "bitrate": told.bitrate,
            },
            pre_skip=reply.pre_skip,
            word_times=reply.word_times,
        )

    def _done(self, reply: Done) -> str:
        stats = reply.stats
        known = stats.first_packet_s is not None and stats.busy_s is not None
        return self._event(
            "done",
            audio_seconds=reply.audio_s,
            segments=stats.segments,
            first_packet_seconds=stats.first_packet_s if known else None,
            real_time_factor=stats.busy_s / stats.audio_s if known and stats.busy_s is not None else None,
            underruns=stats.underruns,
            underrun_seconds=stats.underrun_s,
            starved=stats.starved,
            starved_seconds=stats.starved_s,
            unspoken_characters=stats.unspoken_characters,
        )

    def _audio(self, audio: Audio) -> Iterator[bytes]:
        if self._format.encoding is Encoding.OPUS and self._format.container is Container.RAW:
            body = b"".join(len(frame).to_bytes(2, "big") + frame for frame in audio.frames)
            yield self._header(PACKETS, len(audio.frames), audio.samples, audio.start_sample) + body
            return
        sound = b"".join(audio.frames)
        for at in range(0, max(1, len(sound)), PIECE_BYTES):
            piece = sound[at : at + PIECE_BYTES]
            begin, end = (
                audio.samples * min(edge, len(sound)) // max(1, len(sound)) for edge in (at, at + PIECE_BYTES)
            )
            yield self._header(BYTES, 1, end - begin, audio.start_sample + begin) + piece

    def _header(self, kind: int, frames: int, samples: int, start: int) -> bytes:
        header = HEADER.pack(VERSION, kind, frames, self._number, self._sequence, samples, start)
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        return header
