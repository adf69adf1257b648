"""Audio files, whole and damaged."""

from __future__ import annotations

import functools
import io
import shutil
import subprocess
from random import Random

import numpy as np
import soundfile

from bench.fuzz import draw

_WRITTEN = (("WAV", "PCM_16"), ("WAV", "FLOAT"), ("WAV", "MS_ADPCM"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"),
            ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III"), ("AIFF", "PCM_24"), ("AU", "ULAW"),
            ("CAF", "PCM_16"))  # fmt: skip
_CONVERTED = (("mp4", "aac"), ("adts", "aac"), ("webm", "libopus"))
RATE = 16000


def recording(random: Random, *, foreign: float = 0.02) -> bytes:
    """A short file, mostly damaged. foreign: the share of those that only FFmpeg reads, at the price of a process."""
    files = _converted() if draw.chance(random, foreign) else ()
    whole = random.choice(files or _files())
    match random.randrange(10):
        case 0:
            return whole
        case 1:
            return draw.noise(random, 8192)
        case 2:
            # The heads are where the traps are.
            return draw.damaged(random, whole[:80]) + whole[80:]
        case 3:
            return _lying(random, whole)
    return draw.damaged(random, whole)


def _lying(random: Random, whole: bytes) -> bytes:
    """Somewhere near its start, a number that claims too much."""
    changed, at = bytearray(whole), random.randrange(4, 60)
    changed[at : at + 4] = random.choice(
        (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f", b"\x01\x00\x00\x00")
    )
    return bytes(changed)


def _tone(seconds: float = 0.3) -> np.ndarray:
    return (0.3 * np.sin(np.arange(round(seconds * RATE)) * 0.1)).astype(np.float32)


@functools.cache
def _files() -> tuple[bytes, ...]:
    files = []
    for format, subtype in _WRITTEN:
        if soundfile.check_format(format, subtype):
            out = io.BytesIO()
            soundfile.write(out, _tone(), RATE, format=format, subtype=subtype)
            files.append(out.getvalue())
    return tuple(files)


@functools.cache
def _converted() -> tuple[bytes, ...]:
    """None without FFmpeg."""
    program, files = shutil.which("ffmpeg"), []
    for format, codec in _CONVERTED if program is not None else ():
        command = [str(program), "-nostdin", "-v", "error", "-f", "f32le", "-ar", str(RATE), "-ac", "1", "-i", "pipe:0"]
        command += ["-c:a", codec, "-movflags", "frag_keyframe+empty_moov", "-f", format, "pipe:1"]
        done = subprocess.run(command, input=_tone().tobytes(), capture_output=True, check=False)
        if done.returncode == 0:
            files.append(done.stdout)
    return tuple(files)
