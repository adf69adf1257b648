"""Decoders that are not ours."""

import io
import shutil
import subprocess

import numpy as np
import pytest
import soundfile

from tests.codecs.signals import Samples

FFMPEG = shutil.which("ffmpeg")
needs_ffmpeg = pytest.mark.skipif(FFMPEG is None, reason="ffmpeg is not installed")


def by_libsndfile(data: bytes) -> tuple[Samples, int]:
    """A mono file's bytes -> (samples, rate); of a FLAC stream it has to know how long it is."""
    samples, rate = soundfile.read(io.BytesIO(data), dtype="float32")
    return np.asarray(samples, np.float32), int(rate)


def by_ffmpeg(data: bytes, format: str) -> Samples:
    """A mono file's bytes -> samples at its own rate. Fails where FFmpeg has anything to say about it."""
    assert FFMPEG is not None
    command = [FFMPEG, "-v", "warning", "-f", format, "-i", "pipe:0", "-ac", "1", "-f", "f32le", "pipe:1"]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    return np.frombuffer(done.stdout, "<f4").copy()


def delay(reference: Samples, other: Samples, at_most: int = 4000) -> int:
    """Samples by which `other` comes later than `reference`, by their best correlation."""
    size = 1 << (len(reference) + at_most).bit_length() + 1
    scores = np.fft.irfft(np.fft.rfft(other, size) * np.conj(np.fft.rfft(reference, size)), size)
    return int(np.argmax(scores[:at_most]))
