"""RIFF/WAVE files of mono 16-bit PCM, written as the samples come."""

import struct

HEADER_SIZE = 44
# What players take for "until the data ends": the largest even sizes the two 32-bit fields can hold.
_UNKNOWN_DATA = 0xFFFFFFFE - (HEADER_SIZE - 8)


def header(sample_rate: int, samples: int | None = None) -> bytes:
    """The 44 bytes before the samples of a mono 16-bit file.

    `samples` None means the length is not known yet: a stream that players read until it ends, or a file whose
    first 44 bytes are later overwritten by `header(rate, true_length)`.
    """
    if not 1 <= sample_rate <= 0x7FFFFFFF:
        raise ValueError(f"sample_rate must be a positive 31-bit number, got {sample_rate}")
    if samples is not None and not 0 <= samples * 2 <= _UNKNOWN_DATA:
        raise ValueError(f"a WAV file holds at most {_UNKNOWN_DATA // 2} samples, got {samples}")
    data = _UNKNOWN_DATA if samples is None else samples * 2
    riff = data + HEADER_SIZE - 8
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate, sample_rate * 2, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + form + struct.pack("<4sI", b"data", data)
