"""RIFF/WAVE files of mono sound, written as the samples come."""

import struct
from enum import Enum

HEADER_SIZE = 44
# What players take for "until the data ends": the largest even sizes the two 32-bit fields can hold.
_END = 0xFFFFFFFE


class Coding(Enum):
    """How samples lie in a file: format tag and bytes a sample."""

    PCM16 = (1, 2)
    FLOAT32 = (3, 4)
    ALAW = (6, 1)
    MULAW = (7, 1)


def header(sample_rate: int, samples: int | None = None, coding: Coding = Coding.PCM16) -> bytes:
    """The bytes before the samples of a mono file: HEADER_SIZE of them for PCM16.

    `samples` None means the length is not known yet: a stream that players read until it ends, or a file whose first
    bytes are later overwritten by `header(rate, true_length)`. A file with an odd number of bytes of data wants a zero
    byte behind them, which is not counted.
    """
    tag, width = coding.value
    if not 1 <= sample_rate <= 0x7FFFFFFF // width:
        raise ValueError(f"sample_rate must be a positive 31-bit number, got {sample_rate}")
    form = struct.pack("<HHIIHH", tag, 1, sample_rate, sample_rate * width, width, 8 * width)
    # All but plain PCM state the size of an extension, which is empty, and the number of samples.
    known = 0 if samples is None else samples
    chunks = _chunk(b"fmt ", form if coding is Coding.PCM16 else form + bytes(2))
    if coding is not Coding.PCM16:
        chunks += _chunk(b"fact", struct.pack("<I", known if samples is not None else _END // width))
    most = _END - 4 - len(chunks) - 8
    if samples is not None and not 0 <= samples * width <= most:
        raise ValueError(f"a WAV file of this kind holds at most {most // width} samples, got {samples}")
    data = most if samples is None else samples * width
    riff = 4 + len(chunks) + 8 + data + (0 if samples is None else data % 2)
    return struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + chunks + struct.pack("<4sI", b"data", data)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack("<4sI", name, len(data)) + data
