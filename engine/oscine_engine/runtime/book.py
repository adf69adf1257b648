"""The voices that a device can speak in, read for it: those that came with the model, those of a store, and those that
come with a request.

A voice of the model comes before one of the store with the same name. What was read of a store is kept while it is in
use and, in memory, for some time after; whether it is still there is asked of the store every time. What came with a
request is kept in memory likewise, by its content, and nowhere else.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from oscine_engine.errors import InvalidInput, UnknownVoice
from oscine_engine.lm.interleave import Prompt
from oscine_engine.port import HeardVoice, StreamOptions
from oscine_engine.voices.catalogue import MOST_NAMED, StoredVoice, unknown
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.store import VoiceStore

KEPT = 256
"""Voices of a store that are kept in memory."""
KEPT_COLD = 64
"""Voices that came with requests, likewise."""


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
Instruct = Callable[[str], Prompt]
"""What the language model reads before a text that is to be said as an instruction wants it."""
Register = Callable[[HeardVoice], VoicePrompt]
"""The voice of a recording. Takes some tenths of a second."""


class VoiceBook:
    """May be asked from any thread. `shipped` by name, the first is the default."""

    def __init__(
        self,
        shipped: Mapping[str, VoicePrompt],
        read: Read,
        store: VoiceStore | None = None,
        *,
        instruct: Instruct | None = None,
        register: Register | None = None,
    ) -> None:
        """instruct, register: None where this model takes no instructions, and no recordings."""
        self._shipped = shipped
        self._read = read
        self._store = store
        self._instruct = instruct
        self._register = register
        self._ready: dict[str, ReadyVoice] = {}
        self._stored: OrderedDict[StoredVoice, ReadyVoice] = OrderedDict()
        self._cold: OrderedDict[str, ReadyVoice] = OrderedDict()
        self._lock = threading.Lock()
        self._registering = threading.Lock()
        """One recording at a time: others speak on the same machine."""

    @property
    def ready(self) -> list[ReadyVoice]:
        """Those of the model, in order, once `read` was called."""
        return list(self._ready.values())

    def read(self) -> None:
        """Read every voice of the model."""
        for name, voice in self._shipped.items():
            self._ready[name] = self._read(name, voice)

    def waits(self, options: StreamOptions) -> bool:
        """Whether `speaking` may have to wait for a disk, or to compute for long."""
        return self._store is not None or options.reference is not None or options.instruction is not None

    def speaking(self, options: StreamOptions) -> ReadyVoice:
        """The voice that a stream asks for, in the form it is to speak in.

        Raises what `get` raises, and InvalidInput for a recording that makes no voice, and for what this model cannot
        do.
        """
        heard = options.reference
        voice = self.get(options.voice, options.owner) if heard is None else self._after(heard)
        if options.instruction is not None:
            if self._instruct is None:
                raise InvalidInput("instruction: this model takes none; leave it out")
            prompt = self._instruct(options.instruction)
            return replace(voice, whole=prompt, interleaved=prompt)
        crosses = options.cross_lingual
        if crosses is None:
            crosses = options.language is not None and options.language != voice.prompt.language
        # What is read as it comes has no words of the recording before it anyway.
        return replace(voice, whole=voice.interleaved) if crosses else voice

    def _after(self, heard: HeardVoice) -> ReadyVoice:
        """The voice of a recording, made once for all who send the same one."""
        if self._register is None:
            raise InvalidInput("reference: this service speaks after no recordings; name a voice instead")
        key = _digest(heard)
        if (known := self._known(key)) is not None:
            return known
        with self._registering:
            if (known := self._known(key)) is not None:
                return known
            ready = self._read(key, self._register(heard))
            with self._lock:
                self._cold[key] = ready
                while len(self._cold) > KEPT_COLD:
                    self._cold.popitem(last=False)
        return ready

    def _known(self, key: str) -> ReadyVoice | None:
        with self._lock:
            if (ready := self._cold.get(key)) is not None:
                self._cold.move_to_end(key)
            return ready

    def knows(self, heard: HeardVoice) -> bool:
        """Whether a recording is a voice already."""
        return self._known(_digest(heard)) is not None

    def get(self, name: str, owner: str = "") -> ReadyVoice:
        """The voice `name` as `owner` sees it. Raises UnknownVoice, and StoreError for a store that cannot be read."""
        if (ready := self._ready.get(name)) is not None:
            return ready
        if self._store is None:
            raise UnknownVoice(unknown(name, self._shipped))
        try:
            stored = self._store.find(name, owner)
        except UnknownVoice as error:
            others = dict.fromkeys([*self._shipped, *self._store.names(owner, MOST_NAMED + 1)])
            raise UnknownVoice(unknown(name, others)) from error
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


def _digest(heard: HeardVoice) -> str:
    """Names a recording by all that its voice depends on; no digest of a store looks like it."""
    told = hashlib.sha256(f"{heard.rate}\0{heard.language or ''}\0{heard.transcript}\0".encode())
    told.update(heard.samples.tobytes())
    return f"cold {told.hexdigest()}"
