"""Where spoken samples go: a file by its suffix, or a player on this machine."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from oscine_codecs import pcm, wav
from oscine_codecs.ogg import OggOpusStream
from oscine_codecs.opus import OpusEncoder
from oscine_codecs.sndfile import FlacStream, Mp3Stream
from oscine_engine.errors import InvalidInput, OscineError
from oscine_service.audio.formats import Encoding, default_bitrate

PLAYERS = (
    ("pw-play", "--rate={rate}", "--channels=1", "--format=s16", "-"),
    ("paplay", "--raw", "--rate={rate}", "--channels=1", "--format=s16le"),
    ("aplay", "-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", "{rate}", "-"),
)


class Sink(Protocol):
    def write(self, samples: NDArray[np.float32]) -> None: ...
    def finish(self) -> None:
        """No more samples follow."""


class WavFile:
    """The header's length is filled in at the end."""

    def __init__(self, file: BinaryIO, rate: int) -> None:
        self._file, self._rate, self._total = file, rate, 0
        file.write(wav.header(rate))

    def write(self, samples: NDArray[np.float32]) -> None:
        self._total += samples.size
        self._file.write(pcm.encode(samples))

    def finish(self) -> None:
        self._file.seek(0)
        self._file.write(wav.header(self._rate, self._total))


class OpusFile:
    def __init__(self, file: BinaryIO, rate: int) -> None:
        self._file, self._stream = file, OggOpusStream(OpusEncoder(rate))

    def write(self, samples: NDArray[np.float32]) -> None:
        self._file.write(self._stream.push(samples))

    def finish(self) -> None:
        self._file.write(self._stream.finish())


class CodedFile:
    """What the head says of the whole is filled in at the end."""

    def __init__(self, file: BinaryIO, stream: FlacStream | Mp3Stream) -> None:
        self._file, self._stream = file, stream

    def write(self, samples: NDArray[np.float32]) -> None:
        self._file.write(self._stream.push(samples))

    def finish(self) -> None:
        self._file.write(self._stream.finish())
        for place, right in self._stream.amended:
            self._file.seek(place)
            self._file.write(right)


class PlayerFailed(OscineError):
    """The player ended before the speech did, or could not play it."""


class Player:
    """A command that plays raw samples from its standard input."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str) -> None:
        assert process.stdin is not None
        self._process, self._input, self._name = process, process.stdin, name

    def write(self, samples: NDArray[np.float32]) -> None:
        try:
            self._input.write(pcm.encode(samples))
        except BrokenPipeError as error:
            raise self._failed() from error

    def finish(self) -> None:
        self._input.close()
        if self._process.wait() != 0:
            raise self._failed()

    def _failed(self) -> PlayerFailed:
        return PlayerFailed(
            f"{self._name} stopped playing (status {self._process.wait()}); give a file to write with -o"
        )


OPUS_SUFFIXES = (".ogg", ".opus")
FILES: dict[str, Callable[[BinaryIO, int], Sink]] = {
    ".wav": WavFile,
    **dict.fromkeys(OPUS_SUFFIXES, OpusFile),
    ".mp3": lambda file, rate: CodedFile(file, Mp3Stream(rate, default_bitrate(Encoding.MP3, rate), whole=True)),
    ".flac": lambda file, rate: CodedFile(file, FlacStream(rate)),
}


@contextmanager
def open_sink(output: Path | None, rate: int) -> Iterator[Sink]:
    """A file for `output`, or the first player there is.

    The file appears when the block ends well; until then it is called NAME.PID.part, and a block that fails removes it.
    Raises InvalidInput for an unknown suffix, a file that cannot be written or no player.
    """
    with _open_player(rate) if output is None else _open_file(output, rate) as sink:
        yield sink


@contextmanager
def _open_file(output: Path, rate: int) -> Iterator[Sink]:
    if output.suffix not in FILES:
        raise InvalidInput(f"{output}: the name must end in {', '.join(FILES)}")
    target = output.resolve()
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        if target.is_dir():
            raise InvalidInput(f"cannot write {output}: it is a directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("wb")
    except OSError as error:
        raise InvalidInput(f"cannot write {output}: {error.strerror}") from error
    try:
        with file:
            sink = FILES[output.suffix](file, rate)
            yield sink
            sink.finish()
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _open_player(rate: int) -> Iterator[Sink]:
    command = next((each for each in PLAYERS if shutil.which(each[0])), None)
    if command is None:
        names = ", ".join(each[0] for each in PLAYERS)
        raise InvalidInput(f"no player found ({names}): give a file to write with -o, for example -o speech.wav")
    # Unbuffered, so that what the player takes is all that waits for it.
    process = subprocess.Popen([part.format(rate=rate) for part in command], stdin=subprocess.PIPE, bufsize=0)
    try:
        player = Player(process, command[0])
        yield player
        player.finish()
    finally:
        process.kill()
        process.wait()
