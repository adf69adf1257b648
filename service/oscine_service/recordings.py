"""Recordings that clients send, as samples."""

import numpy as np
from numpy.typing import NDArray

from oscine_codecs import files
from oscine_codecs.errors import CodecError
from oscine_engine.errors import InvalidInput
from oscine_engine.options import MAX_REFERENCE_BYTES

MAX_SECONDS = 60.0
"""Of a recording to speak after: half of it at most is of use."""


def decode(audio: bytes) -> tuple[NDArray[np.float32], int]:
    """A recording to speak after: mono samples in [-1, 1] and their rate. Not for an event loop.

    Raises InvalidInput for what is no audio file, and for one that is too long.
    """
    try:
        return files.decode(audio, max_bytes=MAX_REFERENCE_BYTES, max_seconds=MAX_SECONDS)
    except CodecError as error:
        raise InvalidInput(f"reference.audio: {error}") from error
