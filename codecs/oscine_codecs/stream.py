"""One stream's samples -> Opus packets that account for every sample, the encoder's delay included."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oscine_codecs.framer import Frame, Framer
from oscine_codecs.opus import OpusEncoder


@dataclass(frozen=True, slots=True)
class OpusPacket:
    """20 ms of the stream, coded.

    `start` and `length` say which input samples this packet took in; `length` is short, or 0, at the very end, where
    padding pushes the last samples through the encoder. Decoded sound comes `lookahead` samples later than that.
    """

    start: int
    length: int
    data: bytes


class OpusStream:
    """Framer and encoder of one stream. A decoder that drops the first `encoder.lookahead` samples and keeps
    `total` of the rest has exactly what was pushed (and the silence that `flush` added)."""

    def __init__(self, encoder: OpusEncoder) -> None:
        self.encoder = encoder
        self._framer = Framer(encoder.frame_size)
        self._flushed = 0

    @property
    def total(self) -> int:
        """Samples of the stream so far."""
        return self._framer.total

    def push(self, block: npt.ArrayLike) -> list[OpusPacket]:
        """Float samples [n] of any length -> the packets they complete."""
        start, samples = self._framer.take(block)
        size = self.encoder.frame_size
        packets = self.encoder.encode_all(samples)
        return [OpusPacket(start + number * size, size, packet) for number, packet in enumerate(packets)]

    def flush(self) -> list[OpusPacket]:
        """Add the least silence that makes all of `total` decodable now; the stream goes on after it.

        With nothing new since the last flush, nothing is added.
        """
        if self.total == self._flushed:
            return []
        packets = self.push(np.zeros(self._missing(), dtype=np.float32))
        self._flushed = self.total
        return packets

    def finish(self) -> list[OpusPacket]:
        """End the stream; always at least one packet. Padding is not counted in `total`."""
        count = (self._missing() + self.total % self.encoder.frame_size) // self.encoder.frame_size
        last = self._framer.finish()
        packets = [] if last is None else [self._packet(last)]
        silence = np.zeros(self.encoder.frame_size, dtype=np.float32)
        while len(packets) < count:
            packets.append(self._packet(Frame(self.total, silence, 0)))
        return packets

    def _missing(self) -> int:
        """Samples from `total` to the first frame end at or after `total + lookahead`."""
        return self.encoder.lookahead + -(self.total + self.encoder.lookahead) % self.encoder.frame_size

    def _packet(self, frame: Frame) -> OpusPacket:
        return OpusPacket(frame.start, frame.length, self.encoder.encode(frame.samples))
