"""A shared store as those see it who make and delete voices: like a store on a disk, but everybody's."""

from collections.abc import Sequence

from oscine_engine.voices.catalogue import StoredVoice
from oscine_engine.voices.packing import pack, unpack
from oscine_engine.voices.prompt import VoicePrompt
from oscine_service.storage.copy import Copy
from oscine_service.storage.shared import SharedVoices


class SharedVoiceStore:
    """copy: of this machine, which is to show at once what was done here; None if nobody reads one here."""

    def __init__(self, shared: SharedVoices, copy: Copy | None = None) -> None:
        self._shared, self._copy = shared, copy

    def add(self, voice: VoicePrompt, owner: str = "", *, replace_it: bool = False) -> StoredVoice:
        """As `VoiceStore.add`, and everybody else sees it in two seconds at most. Raises StoreError, too, where what is
        shared cannot be reached; the voice may then be there or not."""
        stored, packed = pack(voice, owner)
        if self._copy is not None:
            self._shared.require(self._copy.count())
        tag = self._shared.add(stored, packed, replace_it=replace_it)
        if self._copy is not None:
            self._copy.take(stored, packed, tag, fetched_at=None)
        return stored

    def remove(self, name: str, owner: str = "") -> None:
        """As `VoiceStore.remove`."""
        self._shared.remove(name, owner)
        if self._copy is not None:
            self._copy.drop(owner, name, fetched_at=None)

    def find(self, name: str, owner: str = "") -> StoredVoice:
        return self._shared.find(name, owner)

    def list(self, owner: str = "") -> Sequence[StoredVoice]:
        return self._shared.list(owner)

    def get(self, name: str, owner: str = "") -> VoicePrompt:
        return unpack(*self._shared.arrays(name, owner))

    def tidy(self) -> int:
        return self._shared.tidy()
