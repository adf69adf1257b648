"""Replies of a conversation -> response messages. Pure."""

from oscine_engine.events import Mode
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.audio import Container, Encoding, Format
from oscine_service.conversation import (
    MAX_TEXT_BYTES,
    Audio,
    Cancelled,
    Done,
    Flushed,
    Heard,
    Marked,
    Reply,
    Started,
    Word,
    Words,
)
from oscine_service.conversation.backlog import MOST_CHARACTERS

MODES = {Mode.AUTO: pb.MODE_AUTO, Mode.SENTENCE: pb.MODE_SENTENCE, Mode.INTERLEAVED: pb.MODE_INTERLEAVED}
ENCODINGS = {encoding: pb.Encoding.Value(f"ENCODING_{encoding.name}") for encoding in Encoding}
CONTAINERS = {container: pb.Container.Value(f"CONTAINER_{container.name}") for container in Container}


def response(reply: Reply) -> pb.SynthesizeResponse:
    match reply:
        case Audio(sequence=sequence, start_sample=start, samples=samples, frames=frames):
            audio = pb.Audio(sequence=sequence, start_sample=start, samples=samples, frames=frames)
            return pb.SynthesizeResponse(audio=audio)
        case Words(words=words):
            return pb.SynthesizeResponse(words=pb.Words(words=map(_word, words)))
        case Heard(samples=samples):
            return pb.SynthesizeResponse(heard=pb.Heard(samples=samples))
        case Marked(name=name, end_sample=end):
            return pb.SynthesizeResponse(marked=pb.Marked(name=name, end_sample=end))
        case Flushed(end_sample=end):
            return pb.SynthesizeResponse(flushed=pb.Flushed(end_sample=end))
        case Cancelled(heard_samples=heard):
            return pb.SynthesizeResponse(cancelled=pb.Cancelled(heard_samples=heard))
        case Started():
            return pb.SynthesizeResponse(started=_started(reply))
        case Done():
            return pb.SynthesizeResponse(done=_done(reply))


def _word(word: Word) -> pb.Word:
    return pb.Word(text=word.text, start_sample=word.start_sample, end_sample=word.end_sample, behind=word.behind)


def _started(reply: Started) -> pb.Started:
    limits = reply.limits
    return pb.Started(
        voice=reply.voice,
        audio=_format(reply.format),
        mode=MODES[reply.mode],
        seed=reply.seed,
        pre_skip=reply.pre_skip,
        word_times=reply.word_times,
        limits=pb.Limits(
            text_bytes=MAX_TEXT_BYTES,
            waiting_characters=MOST_CHARACTERS,
            idle_seconds=limits.idle_timeout_s,
            write_seconds=limits.write_timeout_s,
            pause_seconds=limits.pause_timeout_s,
        ),
    )


def _format(format: Format) -> pb.AudioFormat:
    return pb.AudioFormat(
        encoding=ENCODINGS[format.encoding],
        sample_rate=format.sample_rate,
        bitrate=format.bitrate,
        container=CONTAINERS[format.container],
    )


def _done(reply: Done) -> pb.Done:
    stats = reply.stats
    done = pb.Done(audio_seconds=reply.audio_s, segments=stats.segments)
    done.underruns, done.underrun_seconds = stats.underruns, stats.underrun_s
    done.starved, done.starved_seconds = stats.starved, stats.starved_s
    done.unspoken_characters = stats.unspoken_characters
    if stats.first_packet_s is not None and stats.busy_s is not None:
        done.first_packet_seconds = stats.first_packet_s
        done.real_time_factor = stats.busy_s / stats.audio_s
    return done
