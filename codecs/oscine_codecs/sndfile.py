"""FLAC and MP3 by libsndfile, handed out while it writes.

libsndfile writes files: it goes back at the end to fill in what it did not know at the start. A stream cannot, so what
it writes there is kept aside, for whoever wants a whole file.
"""

import io

import numpy as np
import numpy.typing as npt
import soundfile

from oscine_codecs import mp3, pcm
from oscine_codecs.errors import CodecError, CodecMissing


class _Out(io.RawIOBase):
    """A file that is only ever written. `fresh` is what was appended and not taken yet; `amended` what was written over
    bytes that were there before: (place, bytes)."""

    def __init__(self) -> None:
        self.fresh = bytearray()
        self.amended: list[tuple[int, bytes]] = []
        self._size = self._place = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + (0, self._place, self._size)[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def write(self, data: object) -> int:
        new = bytes(data)  # type: ignore[call-overload]
        before = max(0, min(len(new), self._size - self._place))
        if before:
            self.amended.append((self._place, new[:before]))
        self.fresh += new[before:]
        self._place += len(new)
        self._size = max(self._size, self._place)
        return len(new)

    def take(self) -> bytes:
        data = bytes(self.fresh)
        self.fresh.clear()
        return data


class FlacStream:
    """16-bit FLAC: `push` samples, then `finish` once.

    Streamed, the head says neither how long the sound is nor its checksum, which the format allows; in the end
    `amended` holds what the head of a file should say.
    """

    BLOCK = 1152
    """Samples coded together, 48 ms at 24 kHz: that of the three fastest of nine levels, the best of which this is."""

    def __init__(self, sample_rate: int) -> None:
        self._out = _Out()
        self._file = _open(self._out, sample_rate, "FLAC", "PCM_16", compression_level=0.25)
        self._taken = self._flushed = 0

    @property
    def total(self) -> int:
        """Samples of the stream so far."""
        return self._taken

    def push(self, block: npt.ArrayLike) -> bytes:
        """Float samples [n] -> the bytes now ready, the head before the first of them."""
        if len(samples := pcm.steps(block)):
            self._file.write(samples)
            self._taken += len(samples)
        return self._out.take()

    def flush(self) -> bytes:
        """Add the silence that ends the block: the first sample behind one makes it go. The stream goes on after it."""
        if self._taken == self._flushed:
            return b""
        said = self.push(np.zeros(-self._taken % self.BLOCK + 1, np.float32))
        self._flushed = self._taken
        return said

    def finish(self) -> bytes:
        self._file.close()
        return self._out.take()

    def close(self) -> None:
        """Nothing is held but memory."""

    @property
    def amended(self) -> list[tuple[int, bytes]]:
        return self._out.amended


class Mp3Stream:
    """MP3 of one bit rate: `push` samples, then `finish` once.

    Decoders that are told nothing of it hear everything `mp3.DELAY` samples later, behind silence. whole: begin with
    the frame that says how long the sound is and what to cut off, where a frame of this bit rate has room for that; it
    is complete with what `amended` holds in the end. Raises CodecError for a sample rate or a bit rate that MP3 does
    not have, and CodecMissing for a libsndfile without it.
    """

    def __init__(self, sample_rate: int, bitrate: int, *, whole: bool = False) -> None:
        mp3.check(sample_rate, bitrate)
        self._out = _Out()
        low, high = mp3.ENCODER_RANGE[mp3.version(sample_rate)]
        # libsndfile has levels for rates, falling from 0.0 and cut to whole kbit/s.
        level = (high - bitrate / 1000 - 0.25) / (high - low)
        self._file = _open(
            self._out, sample_rate, "MP3", "MPEG_LAYER_III", compression_level=max(0.0, level), bitrate_mode="CONSTANT"
        )
        self._frames = mp3.Frames()
        self._whole = whole
        self._rate = sample_rate
        self._taken = 0
        self._flushed = 0

    @property
    def total(self) -> int:
        """Samples of the stream so far."""
        return self._taken

    def push(self, block: npt.ArrayLike) -> bytes:
        """Float samples [n] -> the bytes now ready."""
        samples = np.clip(pcm.check(block), -1.0, 1.0)
        if len(samples):
            self._file.write(samples)
            self._taken += len(samples)
        return self._new()

    def flush(self) -> bytes:
        """Add silence, a frame at a time, until all of `total` can be decoded; the stream goes on after it."""
        if self._taken == self._flushed:
            return b""
        said, size, wanted = bytearray(), mp3.frame_samples(self._rate), self._taken + mp3.DELAY + 1
        while (self._frames.begun - 1) * size < wanted:
            said += self.push(np.zeros(size, np.float32))
        self._flushed = self._taken
        return bytes(said)

    def finish(self) -> bytes:
        self._file.close()
        return self._new()

    def close(self) -> None:
        """Nothing is held but memory."""

    @property
    def amended(self) -> list[tuple[int, bytes]]:
        return self._out.amended

    def _new(self) -> bytes:
        return self._frames.push(self._out.take(), keep_info=self._whole)


def _open(out: _Out, sample_rate: int, format: str, subtype: str, **how: object) -> soundfile.SoundFile:
    if format not in soundfile.available_formats():
        raise CodecMissing(f"this machine's libsndfile cannot write {format}; install libsndfile 1.2 or newer")
    try:
        return soundfile.SoundFile(out, "w", sample_rate, 1, subtype, format=format, **how)
    except (soundfile.SoundFileError, RuntimeError, ValueError) as error:
        raise CodecError(f"{format} at {sample_rate} Hz cannot be written ({error})") from error
