"""`python -m oscine_service.voices`: the process in which a service reads recordings. Nobody else needs to start it.

What somebody uploads goes through decoders and models here, and not beside calls: a file that breaks a decoder breaks
this process alone. Ends when its standard input closes.
"""

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

from oscine_codecs.errors import CodecError
from oscine_engine.errors import InternalError, InvalidInput, OscineError
from oscine_service.signals import leave_to_service
from oscine_service.voices import frames
from oscine_service.voices.library import MAX_AUDIO_BYTES, MAX_AUDIO_S

if TYPE_CHECKING:
    from oscine_engine.config import FrontEnd
    from oscine_engine.voices.encoders import Encoders
    from oscine_engine.voices.store import VoiceStore
    from oscine_service.storage.voice_store import SharedVoiceStore


GIVEN_UP_S = 90


class _Maker:
    """Makes and deletes voices of one store. The models are loaded with the first recording."""

    def __init__(self, store: "VoiceStore | SharedVoiceStore", model: Path | None) -> None:
        self._store, self._model = store, model
        self._loaded: tuple[Encoders, FrontEnd] | None = None

    def add(self, asked: frames.Fields, audio: bytes) -> frames.Fields:
        from oscine_codecs import files as audio_files
        from oscine_engine.voices.registration import Reference, register

        owner, replace = asked.pop("owner"), asked.pop("replace")
        try:
            with _quiet():
                samples, rate = audio_files.decode(audio, max_bytes=MAX_AUDIO_BYTES, max_seconds=MAX_AUDIO_S)
        except CodecError as error:
            raise InvalidInput(str(error)) from error
        encoders, front_end = self._load()
        voice = register(samples, rate, Reference(**asked), encoders, front_end)
        return asdict(self._store.add(voice, owner, replace_it=replace))

    def remove(self, asked: frames.Fields, audio: bytes) -> frames.Fields:
        self._store.remove(asked["name"], asked["owner"])
        return {}

    def _load(self) -> "tuple[Encoders, FrontEnd]":
        if self._loaded is None:
            import torch

            from oscine_engine.checkpoint import layout
            from oscine_engine.checkpoint.configuration import read_config
            from oscine_engine.voices.encoders import Encoders

            torch.set_num_threads(1)
            files = layout.find(self._model)
            self._loaded = Encoders(*files.encoders()), read_config(files).text.front_end
        return self._loaded


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oscine_service.voices")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--source", help="what the store is a copy of")
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    leave_to_service()
    # Calls come first: recordings are read with what they leave of the machine.
    os.nice(10)
    asks, answers = _own_pipes()
    maker: _Maker | None = None
    while len(head := asks.read(frames.HEAD.size)) == frames.HEAD.size:
        text, data = frames.lengths(head)
        asked, audio = frames.fields(asks.read(text)), asks.read(data)
        verb = {"add": _Maker.add, "remove": _Maker.remove}[asked.pop("verb")]
        # Whoever waits for this gives up before; nobody might be left who would end a process that hangs.
        signal.alarm(GIVEN_UP_S)
        try:
            if maker is None:
                maker = _Maker(_store(options.store, options.source), options.model)
            answer = verb(maker, asked, audio)
        except OscineError as error:
            answer = {"error": [error.code, error.message]}
        except Exception:  # a recording that some library cannot stand must not take the next one with it
            traceback.print_exc()
            answer = {"error": [InternalError.code, "the recording could not be read; the service's log says why"]}
        finally:
            signal.alarm(0)
        try:
            answers.write(frames.pack(answer))
            answers.flush()
        except BrokenPipeError:
            # The service was killed meanwhile: it promised nobody what this has done.
            break
    return 0


def _store(folder: Path, source: str | None) -> "VoiceStore | SharedVoiceStore":
    if source is None:
        from oscine_engine.voices.store import VoiceStore

        store = VoiceStore(folder)
        store.tidy()
        return store
    from oscine_service.storage import address
    from oscine_service.storage.bucket import opened
    from oscine_service.storage.copy import Copy
    from oscine_service.storage.shared import SharedVoices
    from oscine_service.storage.voice_store import SharedVoiceStore

    return SharedVoiceStore(SharedVoices(opened(address.read(source))), Copy(folder, source))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what a decoder prints by itself of a broken file: whoever sent that is told."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _own_pipes() -> "tuple[IO[bytes], IO[bytes]]":
    """The pipes from and to the service, which stay free of what a library or a child may read or print."""
    asks, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return asks, answers


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    # A service that stops waits for this, and to take down what the models loaded is seconds of a busy machine.
    os._exit(status)
