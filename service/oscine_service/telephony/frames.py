"""What a conversation writes -> frames of one length. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oscine_codecs import g711
from oscine_service.audio import Container, Encoding, Format

FRAME_S = 0.02
WIDTHS = {Encoding.MULAW: 1, Encoding.ALAW: 1, Encoding.PCM16: 2}
"""Bytes of a sample."""
SILENCE = {
    Encoding.MULAW: bytes([g711.MULAW.silence]),
    Encoding.ALAW: bytes([g711.ALAW.silence]),
    Encoding.PCM16: bytes(2),
}
"""One sample of it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """20 ms as they travel; `samples` leaves out what it is padded with."""

    data: bytes
    samples: int


def frame_samples(format: Format) -> int:
    """Of 20 ms."""
    return round(format.sample_rate * FRAME_S)


def silence(format: Format) -> bytes:
    """A frame of it, of an encoding that has plain samples."""
    return SILENCE[format.encoding] * frame_samples(format)


class Cutter:
    """Of one call: `push` what comes, `rest` what waits for more, `drop` it.

    Opus packets have 20 ms each and pass; plain samples are cut, whatever the size of what comes. Raises ValueError for
    a format that is neither.
    """

    def __init__(self, format: Format) -> None:
        self.format = format
        self._opus = format.encoding is Encoding.OPUS
        if format.container is not Container.RAW or not (self._opus or format.encoding in WIDTHS):
            raise ValueError(f"{format.encoding} in {format.container} has no frames")
        self._samples = frame_samples(format)
        self._width = WIDTHS.get(format.encoding, 0)
        self._rest = b""

    @property
    def waiting(self) -> int:
        """Samples that wait for the rest of their frame."""
        return len(self._rest) // self._width if self._width else 0

    def push(self, frames: Sequence[bytes], samples: int) -> Iterator[Frame]:
        """Those that are complete now."""
        if self._opus:
            yield from self._packets(frames, samples)
            return
        data = b"".join((self._rest, *frames))
        size = self._samples * self._width
        whole = len(data) - len(data) % size
        self._rest = data[whole:]
        for at in range(0, whole, size):
            yield Frame(data[at : at + size], self._samples)

    def _packets(self, frames: Sequence[bytes], samples: int) -> Iterator[Frame]:
        """The last packets of a stream hold fewer of its samples than they have room for, or none; who has heard all
        samples is to have heard all packets."""
        for left, packet in zip(range(len(frames) - 1, -1, -1), frames, strict=True):
            length = max(0, min(samples - left, self._samples)) if samples > left else min(samples, 1)
            samples -= length
            yield Frame(packet, length)

    def rest(self) -> Frame | None:
        """What waits, padded with silence."""
        if not self._rest:
            return None
        data, waiting, self._rest = self._rest, self.waiting, b""
        return Frame(data + SILENCE[self.format.encoding] * (self._samples - waiting), waiting)

    def drop(self) -> None:
        self._rest = b""
