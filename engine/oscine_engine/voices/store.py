"""A store of voices on a disk of this machine, and in memory what was used of it lately."""

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import torch

from oscine_engine.voices.catalogue import StoredVoice
from oscine_engine.voices.packing import ARRAYS, pack, unpack
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.shelf import Shelf

CACHED_BYTES = 256 << 20
"""Of arrays that are kept in memory: some hundred voices."""


class VoiceStore(Shelf):
    """A shelf whose voices can be spoken in.

    Raises StoreError for a folder that cannot be used, and for voices whose files were damaged.
    """

    def __init__(self, folder: Path, *, cached_bytes: int = CACHED_BYTES) -> None:
        super().__init__(folder)
        self._cached: OrderedDict[str, VoicePrompt] = OrderedDict()
        """By digest, unused for longest first; names and words are of whoever asked first."""
        self._cached_bytes, self._most_bytes = 0, cached_bytes

    def add(self, voice: VoicePrompt, owner: str = "", *, replace_it: bool = False) -> StoredVoice:
        """Keep `voice` for good; it is there, whatever happens, once this returns.

        Raises InvalidInput for a name that is no name, and VoiceExists, unless `replace_it`, for one that the owner has
        given already.
        """
        stored, packed = pack(voice, owner)
        self.put(stored, packed, replace_it=replace_it)
        return stored

    def get(self, name: str, owner: str = "") -> VoicePrompt:
        """The voice `name` as `owner` sees it, ready to speak. Raises UnknownVoice."""
        return self.load(self.find(name, owner))

    def load(self, stored: StoredVoice) -> VoicePrompt:
        """The arrays of a voice that was found. Raises UnknownVoice if it has been removed since."""
        with self._lock:
            cached = self._cached.get(stored.digest)
            if cached is not None:
                self._cached.move_to_end(stored.digest)
        if cached is None:
            stored, packed = self.packed(stored)
            cached = unpack(stored, packed)
            self._keep(stored, cached)
        return replace(
            cached,
            name=stored.name,
            language=stored.language,
            description=stored.description,
            prompt_text=stored.prompt_text,
            transcript=stored.transcript,
        )

    def _forget(self, digest: str) -> bool:
        gone = super()._forget(digest)
        with self._lock:
            if gone and (cached := self._cached.pop(digest, None)) is not None:
                self._cached_bytes -= _size(cached)
        return gone

    def _keep(self, stored: StoredVoice, voice: VoicePrompt) -> None:
        with self._lock:
            if stored.digest not in self._cached:
                self._cached[stored.digest] = voice
                self._cached_bytes += _size(voice)
            while self._cached_bytes > self._most_bytes and len(self._cached) > 1:
                _, oldest = self._cached.popitem(last=False)
                self._cached_bytes -= _size(oldest)


def _size(voice: VoicePrompt) -> int:
    arrays: list[torch.Tensor] = [getattr(voice, name) for name in ARRAYS]
    return sum(array.numel() * array.element_size() for array in arrays)
