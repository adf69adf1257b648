"""Port calls and events <-> messages of oscine.unit.v1. Pure, and the same on both sides."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from oscine_engine import errors
from oscine_engine.errors import InternalError, OscineError, Overloaded, Unavailable
from oscine_engine.events import Audio, Done, Flushed, Stats
from oscine_engine.options import Knobs
from oscine_engine.planner import Begin, End, Ids, Step
from oscine_engine.port import HeardVoice, PortEvent, Progress, Sounded, StreamOptions
from oscine_proto.oscine.unit.v1 import unit_pb2 as pb

_SAMPLE = np.dtype("<f4")

_ERRORS: dict[str, type[OscineError]] = {
    kind.code: kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, OscineError)
} | {InternalError.code: InternalError}
"""By code. The base class shares one with InternalError."""


_Knob: TypeAlias = Literal["temperature", "top_p", "top_k", "repetition_window", "repetition_limit"]
_KNOBS: tuple[_Knob, ...] = get_args(_Knob)
_LANGUAGES: dict[str, Literal["en", "zh"]] = {"en": "en", "zh": "zh"}


def open_request(options: StreamOptions) -> pb.StreamRequest:
    knobs = options.knobs
    message = pb.Open(
        voice=options.voice,
        seed=options.seed,
        trim=options.trim,
        owner=options.owner,
        instruction=options.instruction,
        cross_lingual=options.cross_lingual,
        language=options.language or "",
        speed=options.speed,
        temperature=knobs.temperature,
        top_p=knobs.top_p,
        top_k=knobs.top_k,
        repetition_window=knobs.repetition_window,
        repetition_limit=knobs.repetition_limit,
        word_times=options.word_times,
    )
    if (heard := options.reference) is not None:
        message.reference.samples = np.ascontiguousarray(heard.samples, _SAMPLE).tobytes()
        message.reference.sample_rate = heard.rate
        message.reference.transcript = heard.transcript
        message.reference.language = heard.language or ""
    return pb.StreamRequest(open=message)


def options(message: pb.Open) -> StreamOptions:
    return StreamOptions(
        voice=message.voice,
        seed=message.seed,
        trim=message.trim,
        owner=message.owner,
        reference=_heard(message.reference) if message.HasField("reference") else None,
        instruction=message.instruction if message.HasField("instruction") else None,
        cross_lingual=message.cross_lingual if message.HasField("cross_lingual") else None,
        language=message.language or None,
        speed=message.speed,
        knobs=Knobs(**{name: getattr(message, name) for name in _KNOBS if message.HasField(name)}),
        word_times=message.word_times,
    )


def _heard(message: pb.Recording) -> HeardVoice:
    samples = _samples(message.samples)
    return HeardVoice(samples, message.sample_rate, message.transcript, _LANGUAGES.get(message.language))


def _samples(data: bytes) -> NDArray[np.float32]:
    if len(data) % _SAMPLE.itemsize:
        raise InternalError(f"the two processes of this unit do not match: samples of {len(data)} bytes")
    return np.frombuffer(data, _SAMPLE)


def speak_request(steps: Sequence[Step], *, mark: bool, end: bool) -> pb.StreamRequest:
    return pb.StreamRequest(speak=pb.Speak(steps=_steps(steps), mark=mark, end=end))


def _steps(steps: Sequence[Step]) -> Iterator[pb.Step]:
    for step in steps:
        match step:
            case Begin(whole=whole, rate=rate, silence_s=silence_s):
                yield pb.Step(begin=pb.Begin(whole=whole, rate=rate, silence_s=silence_s))
            case Ids(ids=ids):
                yield pb.Step(ids=pb.Ids(ids=ids))
            case End():
                yield pb.Step(end=pb.End())


def steps(messages: Iterable[pb.Step]) -> list[Step]:
    """Raises InternalError for a step that is none."""
    found: list[Step] = []
    for message in messages:
        match message.WhichOneof("step"):
            case "begin":
                found.append(Begin(message.begin.whole, message.begin.rate, message.begin.silence_s))
            case "ids":
                found.append(Ids(tuple(message.ids.ids)))
            case "end":
                found.append(End())
            case other:
                raise InternalError(f"the two processes of this unit do not match: a step is {other}")
    return found


def taken_request(samples: int) -> pb.StreamRequest:
    return pb.StreamRequest(taken=pb.Taken(samples=samples))


def played_request(samples: int) -> pb.StreamRequest:
    return pb.StreamRequest(played=pb.Played(samples=samples))


def stop_request(error: OscineError) -> pb.StreamRequest:
    return pb.StreamRequest(stop=pb.Stop(error=error_message(error)))


OPENED = pb.StreamResponse(opened=pb.Opened())


def response(event: PortEvent) -> pb.StreamResponse:
    match event:
        case Audio(seq=seq, start_sample=start, samples=samples):
            data = np.ascontiguousarray(samples, _SAMPLE).tobytes()
            return pb.StreamResponse(audio=pb.Audio(sequence=seq, start_sample=start, samples=data))
        case Sounded(end_sample=end):
            return pb.StreamResponse(sounded=pb.Sounded(end_sample=end))
        case Flushed(end_sample=end):
            return pb.StreamResponse(flushed=pb.Flushed(end_sample=end))
        case Progress(working=working, answered=answered):
            return pb.StreamResponse(progress=pb.Progress(working=working, answered=answered))
        case Done(stats=stats):
            return pb.StreamResponse(done=_done(stats))
        case OscineError():
            return pb.StreamResponse(error=error_message(event))


def event(message: pb.StreamResponse) -> PortEvent:
    """Audio is a read-only view of the message's bytes. Raises InternalError for a message that is no event."""
    match message.WhichOneof("response"):
        case "audio":
            audio = message.audio
            return Audio(audio.sequence, audio.start_sample, _samples(audio.samples))
        case "sounded":
            return Sounded(message.sounded.end_sample)
        case "flushed":
            return Flushed(message.flushed.end_sample)
        case "progress":
            return Progress(message.progress.working, message.progress.answered)
        case "done":
            return Done(_stats(message.done))
        case "error":
            return error(message.error)
        case other:
            raise InternalError(f"the two processes of this unit do not match: an event is {other}")


def _done(stats: Stats) -> pb.Done:
    return pb.Done(
        audio_seconds=stats.audio_s,
        segments=stats.segments,
        speech_tokens=stats.speech_tokens,
        first_packet_seconds=stats.first_packet_s,
        busy_seconds=stats.busy_s,
        underruns=stats.underruns,
        underrun_seconds=stats.underrun_s,
        starved=stats.starved,
        starved_seconds=stats.starved_s,
    )


def _stats(done: pb.Done) -> Stats:
    return Stats(
        audio_s=done.audio_seconds,
        segments=done.segments,
        speech_tokens=done.speech_tokens,
        first_packet_s=done.first_packet_seconds if done.HasField("first_packet_seconds") else None,
        busy_s=done.busy_seconds if done.HasField("busy_seconds") else None,
        underruns=done.underruns,
        underrun_s=done.underrun_seconds,
        starved=done.starved,
        starved_s=done.starved_seconds,
    )


def error_message(error: OscineError) -> pb.Error:
    hint: float | None = getattr(error, "retry_after_s", None)
    return pb.Error(code=error.code, message=error.message, retry_after_seconds=hint)


def error(message: pb.Error) -> OscineError:
    """An error of the same class, or InternalError for a code that is not one of the engine's."""
    kind = _ERRORS.get(message.code, InternalError)
    hint = message.retry_after_seconds if message.HasField("retry_after_seconds") else None
    if issubclass(kind, Overloaded):
        return kind(message.message, hint or 0.0)
    return kind(message.message, hint) if issubclass(kind, Unavailable) else kind(message.message)
