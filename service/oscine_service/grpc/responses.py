"""Engine events -> response messages: one stream's encoder and numbering. No I/O."""

from bisect import bisect_right
from collections.abc import Iterator

from oscine_engine.events import Audio, Done, Event, Flushed, Mode, Started
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_service.audio import Block, Encoding, Format, writer

MODES = {Mode.AUTO: pb.MODE_AUTO, Mode.SENTENCE: pb.MODE_SENTENCE, Mode.INTERLEAVED: pb.MODE_INTERLEAVED}
ENCODINGS = {Encoding.OPUS: pb.ENCODING_OPUS, Encoding.PCM16: pb.ENCODING_PCM16}

PIECE = 4800
"""Samples, 200 ms: to encode a whole second takes Opus 13 ms, in which a listener may run dry."""


class Responses:
    """Raises CodecError if `format` asks for what the encoder cannot do.

    A flush may add some silence to what is sent (`audio.Writer.flush`). So positions in what was sent, which a client
    counts by, and in what the session made, are not the same; they are told apart here and nowhere else.
    """

    def __init__(self, format: Format) -> None:
        self._format = format
        self._writer = writer(format)
        self._sequence = 0
        self._end = 0
        self._made = 0
        self._silences: list[tuple[int, int, int]] = []
        """Of each silence that was added: where it lies in what was made, and from where to where in what was sent."""

    def takes_long(self, event: Event) -> bool:
        """Whether `of(event)` takes milliseconds, for which an event loop should not be held up."""
        return isinstance(event, Audio) and self._format.encoding is Encoding.OPUS

    def pieces(self, event: Event) -> Iterator[Event]:
        """`event`, or what takes long to encode as a first piece of at most PIECE samples and the rest behind it."""
        if not self.takes_long(event) or not isinstance(event, Audio) or event.samples.size <= PIECE:
            yield event
            return
        yield Audio(event.seq, event.start_sample, event.samples[:PIECE])
        yield Audio(event.seq, event.start_sample + PIECE, event.samples[PIECE:])

    def of(self, event: Event) -> list[pb.SynthesizeResponse]:
        """The responses that `event` completes, in order."""
        match event:
            case Started():
                return [pb.SynthesizeResponse(started=self._started(event))]
            case Audio():
                self._made += event.samples.size
                return self._audio(self._writer.push(event.samples))
            case Flushed():
                audio = self._audio(self._writer.flush())
                if (begin := self._sent()) < self._end:
                    self._silences.append((self._made, begin, self._end))
                return [*audio, pb.SynthesizeResponse(flushed=pb.Flushed(end_sample=self._end))]
            case Done():
                audio = self._audio(self._writer.finish())
                return [*audio, pb.SynthesizeResponse(done=_done(event, self._end / self._format.sample_rate))]

    def made(self, sent: int) -> int:
        """The position in what the session made that is at `sent` in what was sent."""
        number = bisect_right(self._silences, sent, key=lambda silence: silence[1])
        if not number:
            return sent
        made, _, end = self._silences[number - 1]
        return made + max(0, sent - end)

    def _sent(self) -> int:
        """Where all that the session made so far ends in what is sent; a part of it may not be sent yet."""
        made, _, end = self._silences[-1] if self._silences else (0, 0, 0)
        return end + self._made - made

    def _audio(self, block: Block | None) -> list[pb.SynthesizeResponse]:
        if block is None:
            return []
        self._end = block.start + block.samples
        audio = pb.Audio(sequence=self._sequence, start_sample=block.start, samples=block.samples, frames=block.frames)
        self._sequence += 1
        return [pb.SynthesizeResponse(audio=audio)]

    def _started(self, event: Started) -> pb.Started:
        opus = self._format.encoding is Encoding.OPUS
        return pb.Started(
            voice=event.voice,
            audio=pb.AudioFormat(
                encoding=ENCODINGS[self._format.encoding],
                sample_rate=self._format.sample_rate,
                bitrate=self._format.bitrate if opus else 0,
            ),
            mode=MODES[event.mode],
            seed=event.seed,
            pre_skip=self._writer.pre_skip,
        )


def cancelled(heard: int) -> pb.SynthesizeResponse:
    """The last response to a listener who had `heard` samples of what was sent, and wants no more."""
    return pb.SynthesizeResponse(cancelled=pb.Cancelled(heard_samples=heard))


def _done(event: Done, audio_s: float) -> pb.Done:
    stats = event.stats
    done = pb.Done(audio_seconds=audio_s, segments=stats.segments)
    done.underruns, done.underrun_seconds = stats.underruns, stats.underrun_s
    done.starved, done.starved_seconds = stats.starved, stats.starved_s
    done.unspoken_characters = stats.unspoken_characters
    if stats.first_packet_s is not None and stats.busy_s is not None:
        done.first_packet_seconds = stats.first_packet_s
        done.real_time_factor = stats.busy_s / stats.audio_s
    return done
