"""AAC in ADTS frames (ISO 13818-7) by the system's FFmpeg: one process a stream, fed and read as the sound comes."""

import os
import select
import shutil
import subprocess
import time
import weakref
from typing import IO

import numpy as np
import numpy.typing as npt

from oscine_codecs import pcm
from oscine_codecs.errors import CodecError, CodecFailed, CodecMissing

SAMPLE_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
MIN_BITRATE, MAX_BITRATE = 8000, 256000
FRAME = 1024
DELAY = 1024
"""Samples by which decoded sound lags, for decoders that are not told of it: ADTS has no place to tell."""
_BEHIND = 2
"""Frames that FFmpeg keeps back until what follows is there."""
PATIENCE_S = 10.0
"""Longest that FFmpeg may take for what it was given: a process that hangs must not hold a stream for ever."""
_HEADER = 7
_PIECE = 1 << 16


def available() -> bool:
    return shutil.which("ffmpeg") is not None


class AacStream:
    """`push` samples, then `finish` once; `close` instead, for a stream that is given up.

    Raises CodecMissing without FFmpeg, CodecError for a sample rate or bit rate that AAC does not have, and CodecFailed
    where FFmpeg fails, with its reason.
    """

    def __init__(self, sample_rate: int, bitrate: int) -> None:
        if sample_rate not in SAMPLE_RATES:
            raise CodecError(f"AAC takes sample rates {', '.join(map(str, SAMPLE_RATES))} Hz, got {sample_rate}")
        if not MIN_BITRATE <= bitrate <= MAX_BITRATE:
            raise CodecError(f"AAC bit rates are {MIN_BITRATE} to {MAX_BITRATE} bit/s, got {bitrate}")
        program = shutil.which("ffmpeg")
        if program is None:
            raise CodecMissing("AAC needs FFmpeg, which is not installed here; install ffmpeg, or ask for MP3 or Opus")
        source = ["-f", "f32le", "-ar", str(sample_rate), "-ac", "1", "-i", "pipe:0"]
        coding = ["-c:a", "aac", "-b:a", str(bitrate), "-bitexact", "-flush_packets", "1", "-f", "adts", "pipe:1"]
        quick = ["-nostdin", "-v", "error", "-threads", "1", "-probesize", "32", "-analyzeduration", "0"]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                [program, *quick, *source, *coding], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
            )
        except OSError as error:
            raise CodecFailed(f"FFmpeg could not be started ({error.strerror}); ask for MP3 or Opus") from error
        weakref.finalize(self, _end, self._process)
        for end in (self._input, self._output):
            os.set_blocking(end.fileno(), False)
        self._frames = Frames()
        self._rest = np.zeros(0, np.float32)
        self._fed = self._taken = self._flushed = 0

    @property
    def total(self) -> int:
        """Samples of the stream so far."""
        return self._taken

    def push(self, block: npt.ArrayLike) -> bytes:
        """Float samples [n] -> the frames they complete, as far as FFmpeg gives them away."""
        samples = np.concatenate((self._rest, np.clip(pcm.check(block), -1.0, 1.0)))
        self._taken += len(samples) - len(self._rest)
        # Whole frames only: so it is known how many come back, and they can be waited for.
        whole = len(samples) - len(samples) % FRAME
        self._rest = samples[whole:]
        return self._feed(samples[:whole])

    def flush(self) -> bytes:
        """Add silence until all of `total` can be decoded; the stream goes on after it."""
        if self._taken == self._flushed:
            return b""
        wanted = -(-(self._taken + DELAY) // FRAME) + _BEHIND
        said = self.push(np.zeros(wanted * FRAME - self._taken, np.float32))
        self._flushed = self._taken
        return said

    def finish(self) -> bytes:
        """The rest; the process has ended then."""
        said = self._feed(self._rest)
        self._input.close()
        said += self._read_on()
        if self._process.wait(PATIENCE_S):
            raise self._failed()
        return said

    def close(self) -> None:
        """End the process, whatever it is doing. Any number of times, and in any thread: a method that runs in another
        then fails."""
        self._process.kill()

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _feed(self, samples: pcm.Samples) -> bytes:
        """Write samples, reading all the while (or both sides would wait for each other), and wait for what they
        complete."""
        data, said, until = memoryview(pcm.encode_f32(samples)), b"", time.monotonic() + PATIENCE_S
        self._fed += len(samples)
        due = self._fed // FRAME - _BEHIND
        while data or self._frames.count < due:
            self._wait(until, writing=bool(data))
            said += self._read()
            if data:
                try:
                    data = data[self._input.write(data) or 0 :]
                except BrokenPipeError as error:
                    raise self._failed() from error
        return said

    def _read_on(self) -> bytes:
        """All up to the end of what FFmpeg says."""
        said, until = b"", time.monotonic() + PATIENCE_S
        while True:
            self._wait(until, writing=False)
            if (new := self._output.read(_PIECE)) == b"":
                return said
            said += new or b""

    def _wait(self, until: float, *, writing: bool) -> None:
        """Until FFmpeg has said something, or takes something where that is wanted."""
        pipes = select.poll()
        pipes.register(self._output, select.POLLIN)
        if writing:
            pipes.register(self._input, select.POLLOUT)
        if not pipes.poll(max(0.0, until - time.monotonic()) * 1000):
            raise CodecFailed(f"FFmpeg took longer than {PATIENCE_S:g} s to encode")

    def _read(self) -> bytes:
        """What FFmpeg has said, if anything."""
        new: bytes | None = self._output.read(_PIECE)
        if new == b"":
            raise self._failed()
        self._frames.push(new or b"")
        return new or b""

    def _failed(self) -> CodecFailed:
        self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return CodecFailed(f"FFmpeg could not encode AAC ({said[-1] if said else 'it gave no reason'})")


class Frames:
    """Counts the ADTS frames that begin in a stream, in pieces of any size."""

    def __init__(self) -> None:
        self.count = 0
        self._left = 0
        """Bytes to come of the frame that is going by."""
        self._held = b""

    def push(self, data: bytes) -> None:
        data, at = self._held + data, 0
        while True:
            passing = min(self._left, len(data) - at)
            at += passing
            self._left -= passing
            if self._left or len(data) - at < _HEADER:
                self._held = data[at:]
                return
            if data[at] != 0xFF or data[at + 1] & 0xF6 != 0xF0:
                raise CodecFailed(f"not a header of an ADTS frame: {data[at : at + _HEADER].hex()}")
            self._left = (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
            self.count += 1


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
