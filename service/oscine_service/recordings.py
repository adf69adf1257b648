"""Recordings that clients send: as text, as files, as samples."""

import base64

import numpy as np
from numpy.typing import NDArray

from oscine_codecs import files
from oscine_codecs.errors import CodecError
from oscine_engine.errors import InvalidInput
from oscine_engine.options import MAX_REFERENCE_BYTES

MAX_SECONDS = 60.0
"""Of a recording to speak after: half of it at most is of use."""


_SLICE = 1 << 16


def from_base64(text: str) -> bytes:
    """A file that came in a text, in slices: other threads, such as an event loop's, have their turn in between.

    Raises ValueError for what is not base64.
    """
    padding = text.find("=")
    if 0 <= padding < len(text) - 2:
        raise ValueError("its end, =, stands in the middle")
    return b"".join(
        base64.b64decode(text[start : start + _SLICE], validate=True) for start in range(0, len(text), _SLICE)
    )


def decode(audio: bytes) -> tuple[NDArray[np.float32], int]:
    """A recording to speak after: mono samples in [-1, 1] and their rate. Not for an event loop.

    Raises InvalidInput for what is no audio file, and for one that is too long.
    """
    try:
        return files.decode(audio, max_bytes=MAX_REFERENCE_BYTES, max_seconds=MAX_SECONDS)
    except CodecError as error:
        raise InvalidInput(f"reference.audio: {error}") from error
