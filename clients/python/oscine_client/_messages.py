"""Plain data <-> messages of oscine.v1. Pure, but for reading a recording's file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from oscine_client import errors
from oscine_client._stubs import speech_pb2 as pb
from oscine_client._stubs import voice_pb2
from oscine_client.config import Config
from oscine_client.events import Audio, Cancelled, Done, Event, Flushed, Heard, Marked, Started, Voice, Word, Words

TEXT_BYTES = 65536
"""That a service takes of text in one message."""
PIECE_BYTES = 500_000
"""Of a recording, in one message."""

Recording: TypeAlias = "bytes | os.PathLike[str]"

_OPTIONAL = "seed trim quiet_ms cross_lingual speed temperature top_p top_k repetition_window repetition_limit".split()
_ERRORS = {
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidInput,
    grpc.StatusCode.ALREADY_EXISTS: errors.InvalidInput,
    grpc.StatusCode.OUT_OF_RANGE: errors.InvalidInput,
    grpc.StatusCode.NOT_FOUND: errors.NotFound,
    grpc.StatusCode.UNAUTHENTICATED: errors.Refused,
    grpc.StatusCode.PERMISSION_DENIED: errors.Refused,
    grpc.StatusCode.FAILED_PRECONDITION: errors.Refused,
    grpc.StatusCode.UNIMPLEMENTED: errors.Refused,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.Overloaded,
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable,
    grpc.StatusCode.CANCELLED: errors.Cut,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.Cut,
    grpc.StatusCode.ABORTED: errors.Cut,
}

_NAMES = {
    grpc.StatusCode.INVALID_ARGUMENT: "invalid_input",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "overloaded",
    grpc.StatusCode.PERMISSION_DENIED: "forbidden",
}

_LOST = ("RST_STREAM", "Internal error from Core")
"""In what grpc says, with INTERNAL, of a connection lost behind a proxy that is not, or while the client wrote. A
service that refuses waits until the client has heard it, and gives its refusal a name."""


def config_message(config: Config) -> pb.SynthesizeConfig:
    """Raises ValueError for an encoding, container or mode that no service has."""
    message = pb.SynthesizeConfig(
        voice=config.voice,
        audio=None if config.sink else _format(config),
        mode=_number(pb.Mode, "MODE_", config.mode, "mode"),
        instruction=config.instruction,
        language=config.language,
        pronunciations=dict(config.pronunciations),
        word_times=config.word_times,
        sink=config.sink,
    )
    for name in _OPTIONAL:
        if (value := getattr(config, name)) is not None:
            setattr(message, name, value)
    if (reference := config.reference) is not None:
        message.reference.audio = reference.audio
        message.reference.transcript = reference.transcript
        message.reference.language = reference.language
    return message


def _format(config: Config) -> pb.AudioFormat:
    return pb.AudioFormat(
        encoding=_number(pb.Encoding, "ENCODING_", config.encoding, "encoding"),
        sample_rate=config.sample_rate,
        bitrate=config.bitrate,
        container=_number(pb.Container, "CONTAINER_", config.container, "container"),
    )


def opening(config: Config) -> pb.SynthesizeRequest:
    return pb.SynthesizeRequest(config=config_message(config))


def texts(text: str) -> Iterator[pb.SynthesizeRequest]:
    """As many requests as `text` needs, none for an empty one."""
    # A character has at most four bytes of UTF-8.
    for start in range(0, len(text), TEXT_BYTES // 4):
        yield pb.SynthesizeRequest(text=text[start : start + TEXT_BYTES // 4])


FLUSH = pb.SynthesizeRequest(flush=pb.Flush())
CANCEL = pb.SynthesizeRequest(cancel=pb.Cancel())


def mark(name: str) -> pb.SynthesizeRequest:
    return pb.SynthesizeRequest(mark=pb.Mark(name=name))


def played(samples: int) -> pb.SynthesizeRequest:
    return pb.SynthesizeRequest(played=pb.Played(samples=samples))


def event(message: pb.SynthesizeResponse) -> Event | None:
    """None for what only a newer service says."""
    match message.WhichOneof("response"):
        case "started":
            return _started(message.started)
        case "audio":
            audio = message.audio
            return Audio(audio.sequence, audio.start_sample, audio.samples, tuple(audio.frames))
        case "words":
            return Words(tuple(_word(each) for each in message.words.words))
        case "heard":
            return Heard(message.heard.samples)
        case "marked":
            return Marked(message.marked.name, message.marked.end_sample)
        case "flushed":
            return Flushed(message.flushed.end_sample)
        case "done":
            return _done(message.done)
        case "cancelled":
            return Cancelled(message.cancelled.heard_samples)
        case _:
            return None


def upload(
    name: str, recording: Recording, transcript: str, language: str, description: str, replace: bool
) -> Iterator[voice_pb2.CreateVoiceRequest]:
    """recording: an audio file's bytes, or its path. Raises OSError for a file that cannot be read."""
    data = recording if isinstance(recording, bytes) else Path(recording).read_bytes()
    config = voice_pb2.CreateVoiceConfig(
        name=name, transcript=transcript, language=language, description=description, replace=replace
    )
    return _pieces(config, data)


def _pieces(config: voice_pb2.CreateVoiceConfig, data: bytes) -> Iterator[voice_pb2.CreateVoiceRequest]:
    yield voice_pb2.CreateVoiceRequest(config=config)
    for start in range(0, len(data), PIECE_BYTES):
        yield voice_pb2.CreateVoiceRequest(audio=data[start : start + PIECE_BYTES])


def voice(message: voice_pb2.Voice) -> Voice:
    return Voice(
        name=message.name,
        language=message.language,
        description=message.description,
        origin=_name(voice_pb2.Origin, "ORIGIN_", message.origin),
        seconds=message.seconds,
        created=message.created_unix_ms / 1000,
        transcribed=message.transcribed,
    )


def error(failure: Any) -> errors.SpeechError:
    """Of a call that did not end with OK: grpc.RpcError, or grpc.aio.AioRpcError."""
    status: grpc.StatusCode = failure.code()
    told = dict(failure.trailing_metadata() or ())
    details = failure.details() or ""
    if status is grpc.StatusCode.INTERNAL and not told and any(sign in details for sign in _LOST):
        return errors.Unavailable("the connection to the service was lost on the way: call again", "unavailable", 0.0)
    hint = told.get("retry-after-ms")
    # What is no refusal of the service's, such as a connection that is lost, has no name of its own.
    code = told.get("oscine-code") or _NAMES.get(status, status.name.lower())
    return _ERRORS.get(status, errors.SpeechError)(
        details or status.name, str(code), None if hint is None else float(hint) / 1000
    )


def metadata(key: str | None) -> tuple[tuple[str, str], ...]:
    return () if key is None else (("authorization", f"Bearer {key}"),)


CHANNEL = (
    # A service that has vanished is missed after 30 s, however quiet a call is.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)


def _started(message: pb.Started) -> Started:
    return Started(
        voice=message.voice,
        encoding=_name(pb.Encoding, "ENCODING_", message.audio.encoding),
        sample_rate=message.audio.sample_rate,
        bitrate=message.audio.bitrate,
        mode=_name(pb.Mode, "MODE_", message.mode),
        seed=message.seed,
        pre_skip=message.pre_skip,
        word_times=message.word_times,
        container=_name(pb.Container, "CONTAINER_", message.audio.container or pb.CONTAINER_RAW),
    )


def _word(message: pb.Word) -> Word:
    return Word(message.text, message.start_sample, message.end_sample, message.behind)


def _done(message: pb.Done) -> Done:
    return Done(
        audio_seconds=message.audio_seconds,
        segments=message.segments,
        first_packet_seconds=message.first_packet_seconds if message.HasField("first_packet_seconds") else None,
        real_time_factor=message.real_time_factor if message.HasField("real_time_factor") else None,
        underruns=message.underruns,
        underrun_seconds=message.underrun_seconds,
        starved=message.starved,
        starved_seconds=message.starved_seconds,
        unspoken_characters=message.unspoken_characters,
    )


def _number(enum: Any, prefix: str, name: str, field: str) -> Any:
    numbers = {each.removeprefix(prefix).lower(): number for each, number in enum.items()[1:]}
    if name not in numbers:
        raise ValueError(f"{field} {name!r} is not one of {', '.join(numbers)}")
    return numbers[name]


def _name(enum: Any, prefix: str, number: int) -> str:
    """The number itself for what only a newer service has."""
    known = (name.removeprefix(prefix).lower() for name, value in enum.items() if value == number)
    return next(known, str(number))
