"""One stream's samples -> the frames of one format, with exact positions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oscine_codecs import g711, pcm, wav
from oscine_codecs.aac import AacStream
from oscine_codecs.ogg import OggOpusStream
from oscine_codecs.opus import OpusEncoder
from oscine_codecs.resampling import Resampler
from oscine_codecs.sndfile import FlacStream, Mp3Stream
from oscine_codecs.stream import OpusPacket, OpusStream
from oscine_service.audio.formats import SAMPLE_RATE, Container, Encoding, Format

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Block:
    """Speech samples [start, start + samples), counted at the format's rate, as wire frames; padding is left out.

    Of Opus packets, and of plain samples, `frames` hold just these. Of a container or a format that is a file by itself
    there is one frame, the bytes that have become ready since the block before, while `samples` says what went in.
    """

    start: int
    samples: int
    frames: tuple[bytes, ...]


class Writer(Protocol):
    """One stream's encoder. `pre_skip`: samples at 48 kHz a listener drops from the start."""

    pre_skip: int

    def push(self, samples: Samples) -> Block | None:
        """What these samples complete, if anything."""

    def flush(self) -> Block | None:
        """Make everything pushed so far decodable now; all but plain samples add the silence this takes to the
        stream."""

    def finish(self) -> Block | None:
        """The rest, once; nothing of a stream without a sample."""

    def close(self) -> None:
        """Free what a stream holds beyond memory. Any number of times, and in any thread: a method that runs in another
        may then fail."""


class OpusWriter:
    """Opus packets of 20 ms."""

    def __init__(self, format: Format) -> None:
        encoder = OpusEncoder(format.sample_rate, bitrate=format.bitrate)
        self.pre_skip = encoder.pre_skip
        self._stream = OpusStream(encoder)

    def push(self, samples: Samples) -> Block | None:
        return _block(self._stream.push(samples))

    def flush(self) -> Block | None:
        return _block(self._stream.flush()) if self._stream.total else None

    def finish(self) -> Block | None:
        return _block(self._stream.finish()) if self._stream.total else None

    def close(self) -> None:
        pass


class PlainWriter:
    """Sample for sample: a block in, the same block out, behind a `head` the first time."""

    pre_skip = 0

    def __init__(self, encode: Callable[[Samples], bytes], head: bytes = b"") -> None:
        self._encode = encode
        self._head = head
        self._total = 0

    def push(self, samples: Samples) -> Block | None:
        if not samples.size:
            return None
        start, head, self._head = self._total, self._head, b""
        self._total += samples.size
        return Block(start, samples.size, (head + self._encode(samples),))

    def flush(self) -> Block | None:
        return None

    def finish(self) -> Block | None:
        return None

    def close(self) -> None:
        pass


class ByteStream(Protocol):
    """A codec whose output has no frames that matter. total: samples taken in, added silence included."""

    @property
    def total(self) -> int: ...
    def push(self, block: Samples, /) -> bytes: ...
    def flush(self) -> bytes: ...
    def finish(self) -> bytes: ...
    def close(self) -> None: ...


class StreamWriter:
    """The bytes of a file, as they become ready."""

    pre_skip = 0

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._end = 0

    def push(self, samples: Samples) -> Block | None:
        return self._block(self._stream.push(samples)) if samples.size else None

    def flush(self) -> Block | None:
        return self._block(self._stream.flush()) if self._stream.total else None

    def finish(self) -> Block | None:
        if self._stream.total:
            return self._block(self._stream.finish())
        self.close()
        return None

    def close(self) -> None:
        self._stream.close()

    def _block(self, data: bytes) -> Block | None:
        start, end = self._end, self._stream.total
        if not data and end == start:
            return None
        self._end = end
        return Block(start, end - start, (data,) if data else ())


class Resampled:
    """A writer at another rate than the engine's. A flush, and the end, cost no sample: silence is taken to follow."""

    def __init__(self, writer: Writer, sample_rate: int) -> None:
        self._writer = writer
        self._resampler = Resampler(SAMPLE_RATE, sample_rate)
        self.pre_skip = writer.pre_skip

    def push(self, samples: Samples) -> Block | None:
        return self._writer.push(self._resampler.push(samples))

    def flush(self) -> Block | None:
        return _joined(self._writer.push(self._resampler.finish()), self._writer.flush())

    def finish(self) -> Block | None:
        return _joined(self._writer.push(self._resampler.finish()), self._writer.finish())

    def close(self) -> None:
        self._writer.close()


PLAIN: dict[Encoding, tuple[Callable[[Samples], bytes], wav.Coding]] = {
    Encoding.PCM16: (pcm.encode, wav.Coding.PCM16),
    Encoding.PCM_F32: (pcm.encode_f32, wav.Coding.FLOAT32),
    Encoding.MULAW: (g711.MULAW.encode, wav.Coding.MULAW),
    Encoding.ALAW: (g711.ALAW.encode, wav.Coding.ALAW),
}


def writer(format: Format) -> Writer:
    """Raises CodecMissing where this machine lacks the library or program."""
    coder = _coder(format)
    return coder if format.sample_rate == SAMPLE_RATE else Resampled(coder, format.sample_rate)


def takes_long(format: Format) -> bool:
    """Whether a writer's `push` takes milliseconds, for which an event loop should not be held up."""
    return format.encoding not in PLAIN or format.sample_rate != SAMPLE_RATE


def waits(format: Format) -> bool:
    """Whether opening a writer, and its `flush` and `finish`, take as long, since they wait for another process."""
    return format.encoding is Encoding.AAC


def has_head(format: Format) -> bool:
    """Whether `whole` makes something else of it than a stream: a file whose head says how long the sound is."""
    return format.encoding in (Encoding.FLAC, Encoding.MP3) or format.container is Container.WAV


def whole(format: Format, samples: Samples) -> bytes:
    """A whole file, or what a stream would have been, of samples [n] at SAMPLE_RATE: heads say how long the sound is.

    No bytes for no samples. Takes long. Raises CodecMissing as `writer` does.
    """
    if not samples.size:
        return b""
    resampler = Resampler(SAMPLE_RATE, format.sample_rate)
    samples = np.concatenate((resampler.push(samples), resampler.finish()))
    stream: FlacStream | Mp3Stream
    match format.encoding, format.container:
        case Encoding.FLAC, _:
            stream = FlacStream(format.sample_rate)
        case Encoding.MP3, _:
            stream = Mp3Stream(format.sample_rate, format.bitrate, whole=True)
        case encoding, Container.WAV:
            encode, coding = PLAIN[encoding]
            data = wav.header(format.sample_rate, samples.size, coding) + encode(samples)
            return data + bytes(len(data) % 2)
        case _:
            coder = _coder(format)
            return b"".join(
                frame for block in (coder.push(samples), coder.finish()) if block is not None for frame in block.frames
            )
    file = bytearray(stream.push(samples) + stream.finish())
    for place, right in stream.amended:
        file[place : place + len(right)] = right
    return bytes(file)


def _coder(format: Format) -> Writer:
    """A writer of samples that have the format's rate already."""
    match format.encoding:
        case Encoding.OPUS if format.container is Container.OGG:
            return StreamWriter(OggOpusStream(OpusEncoder(format.sample_rate, bitrate=format.bitrate)))
        case Encoding.OPUS:
            return OpusWriter(format)
        case Encoding.FLAC:
            return StreamWriter(FlacStream(format.sample_rate))
        case Encoding.MP3:
            return StreamWriter(Mp3Stream(format.sample_rate, format.bitrate))
        case Encoding.AAC:
            return StreamWriter(AacStream(format.sample_rate, format.bitrate))
        case encoding:
            encode, coding = PLAIN[encoding]
            wrapped = format.container is Container.WAV
            return PlainWriter(encode, wav.header(format.sample_rate, None, coding) if wrapped else b"")


def _block(packets: Sequence[OpusPacket]) -> Block | None:
    if not packets:
        return None
    samples = sum(packet.length for packet in packets)
    return Block(packets[0].start, samples, tuple(packet.data for packet in packets))


def _joined(first: Block | None, second: Block | None) -> Block | None:
    if first is None or second is None:
        return first or second
    return Block(first.start, first.samples + second.samples, first.frames + second.frames)
