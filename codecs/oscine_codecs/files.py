"""Whole audio files -> mono float32, through libsndfile (WAV, FLAC, MP3, Ogg Vorbis, Ogg Opus, AIFF ...)."""

import io
from collections.abc import Iterator

import numpy as np
import soundfile

from oscine_codecs import pcm
from oscine_codecs.errors import CodecError

MAX_BYTES = 32 * 1024 * 1024
MAX_SECONDS = 600.0
MAX_CHANNELS = 8


def decode(data: bytes, *, max_bytes: int = MAX_BYTES, max_seconds: float = MAX_SECONDS) -> tuple[pcm.Samples, int]:
    """An audio file's bytes -> (float32 samples [n], sample rate in Hz); channels are averaged.

    Raises CodecError for an unknown format, a damaged or empty file, non-finite samples, or one over the limits. The
    length is checked while reading, since a small compressed file can claim or hold hours of sound.
    """
    if len(data) > max_bytes:
        raise CodecError(f"the audio file has {len(data)} bytes; at most {max_bytes} are accepted")
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            rate = int(file.samplerate)
            if file.channels > MAX_CHANNELS:
                raise CodecError(f"the audio has {file.channels} channels; at most {MAX_CHANNELS} are accepted")
            blocks = list(_mono_blocks(file, rate, max_seconds))
    except (soundfile.SoundFileError, RuntimeError) as error:
        raise CodecError(f"not a readable audio file ({error}); send WAV, FLAC, MP3 or Ogg") from error
    if not blocks:
        raise CodecError("the audio file holds no samples")
    return pcm.check(np.concatenate(blocks)), rate


def _mono_blocks(file: soundfile.SoundFile, rate: int, max_seconds: float) -> Iterator[pcm.Samples]:
    """A second at a time, so that a file's claims about its size are never believed."""
    count = 0
    while len(block := file.read(frames=rate, dtype="float32", always_2d=True)):
        count += len(block)
        if count > max_seconds * rate:
            raise CodecError(f"the audio is longer than {max_seconds:g} s; send a shorter file")
        yield block.mean(axis=1, dtype=np.float32)
