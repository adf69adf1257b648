"""Where spoken samples go: a file by its suffix, or a player on this machine."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from oscine_codecs import pcm, wav
from oscine_codecs.ogg import OggOpusStream
from oscine_codecs.opus import OpusEncoder
from oscine_engine.errors import InvalidInput

PLAYERS = (
    ("pw-play", "--rate={rate}", "--channels=1", "--format=s16", "-"),
    ("paplay", "--raw", "--rate={rate}", "--channels=1", "--format=s16le"),
    ("aplay", "-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", "{rate}", "-"),
)


class Sink(Protocol):
    def write(self, samples: NDArray[np.float32]) -> None: ...
    def close(self) -> None: ...


class WavFile:
    """The header's length is filled in at the end."""

    def __init__(self, file: BinaryIO, rate: int) -> None:
        self._file, self._rate, self._total = file, rate, 0
        file.write(wav.header(rate))

    def write(self, samples: NDArray[np.float32]) -> None:
        self._total += samples.size
        self._file.write(pcm.encode(samples))

    def close(self) -> None:
        self._file.seek(0)
        self._file.write(wav.header(self._rate, self._total))
        self._file.close()


class OpusFile:
    def __init__(self, file: BinaryIO, rate: int) -> None:
        self._file, self._stream = file, OggOpusStream(OpusEncoder(rate))

    def write(self, samples: NDArray[np.float32]) -> None:
        self._file.write(self._stream.push(samples))

    def close(self) -> None:
        self._file.write(self._stream.finish())
        self._file.close()


class Player:
    """A command that plays raw samples from its standard input."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def write(self, samples: NDArray[np.float32]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(pcm.encode(samples))
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.communicate()


FILES: dict[str, Callable[[BinaryIO, int], Sink]] = {".wav": WavFile, ".ogg": OpusFile, ".opus": OpusFile}


def open_sink(output: Path | None, rate: int) -> Sink:
    """A file for `output`, or the first player there is. Raises InvalidInput for an unknown suffix or no player."""
    if output is not None:
        if output.suffix not in FILES:
            raise InvalidInput(f"{output}: the name must end in {', '.join(FILES)}")
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            return FILES[output.suffix](output.open("wb"), rate)
        except OSError as error:
            raise InvalidInput(f"cannot write {output}: {error.strerror}") from error
    for command in PLAYERS:
        if shutil.which(command[0]):
            return Player([part.format(rate=rate) for part in command])
    names = ", ".join(command[0] for command in PLAYERS)
    raise InvalidInput(f"no player found ({names}): give a file to write with -o, for example -o speech.wav")
