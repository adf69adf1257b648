"""The voices that a device can speak in, read for it: those that came with the model, and those of a store.

A voice of the model comes before one of the store with the same name. What was read of a store is kept while it is in
use and, in memory, for some time after; whether it is still there is asked of the store every time.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oscine_engine.errors import UnknownVoice
from oscine_engine.lm.interleave import Prompt
from oscine_engine.voices.catalogue import StoredVoice
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.store import VoiceStore

KEPT = 256
"""Voices of a store that are kept in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadyVoice:
    """One voice before sentences. key: of what the flow computes for it, the same for the same sound.

    prompt: its flow prompt cut to the chunk grid. whole, interleaved: what the language model reads before sentences
    that are read whole, and before those read as they come. loudness: of its speech, in dBFS.
    """

    key: str
    prompt: VoicePrompt
    whole: Prompt
    interleaved: Prompt
    loudness: float

    @property
    def name(self) -> str:
        return self.prompt.name

    @property
    def tokens(self) -> int:
        """Speech tokens of the flow's prompt."""
        return self.prompt.flow_speech_tokens.numel()


Read = Callable[[str, VoicePrompt], ReadyVoice]
"""(key, voice) -> the voice read. Tokenises, so it is not for the loop's thread."""


class VoiceBook:
    """May be asked from any thread. `shipped` by name, the first is the default."""

    def __init__(self, shipped: Mapping[str, VoicePrompt], read: Read, store: VoiceStore | None = None) -> None:
        self._shipped = shipped
        self._read = read
        self._store = store
        self._ready: dict[str, ReadyVoice] = {}
        self._stored: OrderedDict[StoredVoice, ReadyVoice] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def ready(self) -> list[ReadyVoice]:
        """Those of the model, in order, once `read` was called."""
        return list(self._ready.values())

    def read(self) -> None:
        """Read every voice of the model."""
        for name, voice in self._shipped.items():
            self._ready[name] = self._read(name, voice)

    @property
    def waits(self) -> bool:
        """Whether `get` may have to wait for a disk."""
        return self._store is not None

    def get(self, name: str) -> ReadyVoice:
        """Raises UnknownVoice, and StoreError for a store that cannot be read."""
        if (ready := self._ready.get(name)) is not None:
            return ready
        if self._store is None:
            raise UnknownVoice(f"there is no voice {name!r}; this model has {', '.join(self._shipped)}")
        stored = self._store.find(name)
        with self._lock:
            if (ready := self._stored.get(stored)) is not None:
                self._stored.move_to_end(stored)
                return ready
        ready = self._read(stored.digest, self._store.load(stored))
        with self._lock:
            self._stored[stored] = ready
            while len(self._stored) > KEPT:
                self._stored.popitem(last=False)
        return ready
