"""Whole audio files -> mono float32: WAV, FLAC, MP3, Ogg Vorbis, Ogg Opus and AIFF through libsndfile; M4A, WebM and
bare AAC, which it does not read, through the system's FFmpeg where there is one."""

import io
import os
import shutil
import subprocess
from collections.abc import Iterator

import numpy as np
import soundfile

from oscine_codecs import pcm
from oscine_codecs.errors import CodecError

MAX_BYTES = 32 * 1024 * 1024
MAX_SECONDS = 600.0
MAX_CHANNELS = 8
MAX_CONVERTED = 256 << 20
"""Bytes that FFmpeg may make of a file: silence of many channels is next to nothing until it is unpacked."""
FFMPEG_S = 20.0
"""Longest that FFmpeg may take for a file."""
_EBML, _FTYP = b"\x1a\x45\xdf\xa3", b"ftyp"


class _Sound(io.BytesIO):
    """A damaged file may make libsndfile look for a place before its start, where an error would only be printed."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origin = (0, self.tell(), self.getbuffer().nbytes)[whence]
        return super().seek(max(0, origin + offset))


def decode(data: bytes, *, max_bytes: int = MAX_BYTES, max_seconds: float = MAX_SECONDS) -> tuple[pcm.Samples, int]:
    """An audio file's bytes -> (float32 samples [n], sample rate in Hz); channels are averaged.

    Raises CodecError for an unknown format, a damaged or empty file, non-finite samples, or one over the limits. The
    length is checked while reading, since a small compressed file can claim or hold hours of sound.
    """
    if len(data) > max_bytes:
        raise CodecError(f"the audio file has {len(data)} bytes; at most {max_bytes} are accepted")
    if (demuxer := _foreign(data)) is not None:
        data = _converted(data, demuxer, max_seconds)
    try:
        # What is no number in a file is found in the end, and not warned of before.
        with np.errstate(invalid="ignore", over="ignore"), soundfile.SoundFile(_Sound(data)) as file:
            rate = int(file.samplerate)
            if file.channels > MAX_CHANNELS:
                raise CodecError(f"the audio has {file.channels} channels; at most {MAX_CHANNELS} are accepted")
            blocks = list(_mono_blocks(file, rate, max_seconds))
    except (soundfile.SoundFileError, RuntimeError) as error:
        # The whole message names the place in memory that the file was read from.
        why = str(getattr(error, "error_string", error)).strip().rstrip(".")
        raise CodecError(f"not a readable audio file ({why}); send WAV, FLAC, MP3 or Ogg") from error
    if not blocks:
        raise CodecError("the audio file holds no samples")
    samples = np.concatenate(blocks)
    if not np.isfinite(samples).all():
        raise CodecError(
            "the audio file holds NaN or infinity, which are no samples; export it again, as 16-bit WAV for one"
        )
    return pcm.check(samples), rate


def _mono_blocks(file: soundfile.SoundFile, rate: int, max_seconds: float) -> Iterator[pcm.Samples]:
    """A second at a time, so that a file's claims about its size are never believed."""
    count = 0
    while len(block := file.read(frames=rate, dtype="float32", always_2d=True)):
        count += len(block)
        if count > max_seconds * rate:
            raise CodecError(f"the audio is longer than {max_seconds:g} s; send a shorter file")
        yield block.mean(axis=1, dtype=np.float32)


def _foreign(data: bytes) -> str | None:
    """FFmpeg's name of a container that libsndfile does not read; None for every other."""
    if data[4:8] == _FTYP:
        return "mov"
    if data.startswith(_EBML):
        return "matroska"
    # Twelve bits in a row, then two that MP3 never has: the layer.
    if len(data) > 1 and data[0] == 0xFF and data[1] & 0xF6 == 0xF0:
        return "aac"
    return None


def _converted(data: bytes, demuxer: str, max_seconds: float) -> bytes:
    """A WAV file of the first audio track. Raises CodecError without FFmpeg, and with its reason where it fails.

    The container is named and references to other files are off, so a file cannot make FFmpeg read anything else.
    """
    program = shutil.which("ffmpeg")
    if program is None:
        raise CodecError(
            "M4A, AAC and WebM need FFmpeg, which is not installed here; send WAV, FLAC, MP3 or Ogg, or install ffmpeg"
        )
    options = ["-enable_drefs", "0"] if demuxer == "mov" else []
    # In memory, since a recording of somebody is nobody else's; by a name, since FFmpeg has to look around in it.
    handle = os.memfd_create("recording")
    name = f"/proc/self/fd/{handle}"
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(data)
        command = [program, "-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-f", demuxer, *options]
        command += ["-i", name, "-map", "0:a:0", "-t", str(max_seconds + 1), "-c:a", "pcm_f32le"]
        command += ["-fs", str(MAX_CONVERTED), "-bitexact", "-f", "wav", "pipe:1"]
        done = subprocess.run(command, capture_output=True, timeout=FFMPEG_S, check=False, pass_fds=(handle,))
    except subprocess.TimeoutExpired as error:
        raise CodecError(f"the audio file took longer than {FFMPEG_S:g} s to read; send a shorter one") from error
    finally:
        os.close(handle)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["FFmpeg gave no reason"]
        raise CodecError(
            f"not a readable audio file ({said[-1].removeprefix(f'{name}: ')}); send WAV, FLAC, MP3 or Ogg"
        )
    if len(done.stdout) >= MAX_CONVERTED:
        raise CodecError(f"the audio has more than {MAX_CONVERTED} bytes unpacked; send less, of one channel")
    return done.stdout
