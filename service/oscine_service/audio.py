"""Engine samples -> the frames of one wire encoding, with exact positions."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oscine_codecs import pcm
from oscine_codecs.opus import DEFAULT_BITRATE, OpusEncoder
from oscine_codecs.stream import OpusPacket, OpusStream

SAMPLE_RATE = 24000


class Encoding(StrEnum):
    OPUS = "opus"
    PCM16 = "pcm16"


@dataclass(frozen=True, slots=True)
class Format:
    """What a listener asked for, defaults filled in. `bitrate` in bit/s, Opus only."""

    encoding: Encoding = Encoding.OPUS
    sample_rate: int = SAMPLE_RATE
    bitrate: int = DEFAULT_BITRATE


@dataclass(frozen=True, slots=True)
class Block:
    """Speech samples [start, start + samples) as wire frames; `samples` leaves out padding."""

    start: int
    samples: int
    frames: tuple[bytes, ...]


class Writer(Protocol):
    """One stream's encoder. `pre_skip`: samples at 48 kHz a listener drops from the start."""

    pre_skip: int

    def push(self, samples: NDArray[np.float32]) -> Block | None:
        """What these samples complete, if anything."""

    def flush(self) -> Block | None:
        """Make everything pushed so far decodable now; Opus adds the silence this takes to the stream."""

    def finish(self) -> Block | None:
        """The rest, once."""


class OpusWriter:
    """Opus packets of 20 ms. Raises CodecError for a bitrate out of range."""

    def __init__(self, format: Format) -> None:
        encoder = OpusEncoder(format.sample_rate, bitrate=format.bitrate)
        self.pre_skip = encoder.pre_skip
        self._stream = OpusStream(encoder)

    def push(self, samples: NDArray[np.float32]) -> Block | None:
        return _block(self._stream.push(samples))

    def flush(self) -> Block | None:
        return _block(self._stream.flush()) if self._stream.total else None

    def finish(self) -> Block | None:
        return _block(self._stream.finish()) if self._stream.total else None


class PcmWriter:
    """Signed 16-bit little-endian: a block in, the same block out."""

    pre_skip = 0

    def __init__(self) -> None:
        self._total = 0

    def push(self, samples: NDArray[np.float32]) -> Block | None:
        start = self._total
        self._total += samples.size
        return Block(start, samples.size, (pcm.encode(samples),))

    def flush(self) -> Block | None:
        return None

    def finish(self) -> Block | None:
        return None


def writer(format: Format) -> Writer:
    return OpusWriter(format) if format.encoding is Encoding.OPUS else PcmWriter()


def _block(packets: Sequence[OpusPacket]) -> Block | None:
    if not packets:
        return None
    samples = sum(packet.length for packet in packets)
    return Block(packets[0].start, samples, tuple(packet.data for packet in packets))
