"""Voices that outlive the process: what they are called in SQLite, what they sound like in files.

    voices.sqlite3                     a row a voice: owner, name, words, and the digest of its arrays
    arrays/<sha256>.safetensors        the arrays, named after their content, never changed

What was acknowledged is there after any crash, and nobody ever reads half a voice:

* A writer holds SQLite's write lock from before it writes a file until the row that names it is committed, so there is
  one writer at a time, and whoever finds a file that no row names may delete it while holding the lock.
* A file is written under another name, synchronised and renamed; then its folder is synchronised; then the row is
  committed, with SQLite synchronising too. A row therefore never names a file that is not whole.
* To remove a voice its row goes first. A crash in between leaves a file that no row names, which `tidy` deletes.
* Readers take no lock (SQLite's write-ahead log) and check the digest of what they read.
"""

import hashlib
import os
import time
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from oscine_engine.errors import InvalidInput, StoreError, UnknownVoice, VoiceExists
from oscine_engine.voices.catalogue import COLUMNS, Catalogue, StoredVoice, check_name, unknown
from oscine_engine.voices.prompt import VoicePrompt

CACHED_BYTES = 256 << 20
"""Of arrays that are kept in memory: some hundred voices."""
_ARRAYS = ("lm_speech_tokens", "flow_speech_tokens", "mel", "embedding")
_TOKEN_RATE = 25


class VoiceStore(Catalogue):
    """A catalogue and the arrays of its voices.

    Raises StoreError for a folder that cannot be used, and for voices whose files were damaged.
    """

    def __init__(self, folder: Path, *, cached_bytes: int = CACHED_BYTES) -> None:
        super().__init__(folder)
        self._arrays = folder / "arrays"
        try:
            self._arrays.mkdir(exist_ok=True)
        except OSError as error:
            raise StoreError(f"the voice store {folder} cannot be used: {error}") from error
        self._cached: OrderedDict[str, VoicePrompt] = OrderedDict()
        """By digest, unused for longest first; names and words are of whoever asked first."""
        self._cached_bytes, self._most_bytes = 0, cached_bytes

    def add(self, voice: VoicePrompt, owner: str = "", *, replace_it: bool = False) -> StoredVoice:
        """Keep `voice` for good; it is there, whatever happens, once this returns.

        Raises InvalidInput for a name that is no name, and VoiceExists, unless `replace_it`, for one that the owner has
        given already.
        """
        check_name(voice.name)
        # Copies: CosyVoice gives both its models the very same ids, and no file may hold shared memory.
        packed = save({name: getattr(voice, name).clone(memory_format=torch.contiguous_format) for name in _ARRAYS})
        digest = hashlib.sha256(packed).hexdigest()
        stored = StoredVoice(
            owner=owner,
            name=voice.name,
            language=voice.language,
            description=voice.description,
            prompt_text=voice.prompt_text,
            transcript=voice.transcript,
            seconds=voice.flow_speech_tokens.numel() / _TOKEN_RATE,
            created=time.time(),
            digest=digest,
            bytes=len(packed),
        )
        with self._writing():
            before = self._row(owner, voice.name)
            if before is not None and not replace_it:
                raise VoiceExists(f"there is a voice {voice.name!r} already; remove it first, or take another name")
            self._write(digest, packed)
            values = [getattr(stored, name) for name in COLUMNS.split(", ")]
            marks = ", ".join("?" for _ in values)
            self._rows.execute(f"INSERT OR REPLACE INTO voices ({COLUMNS}) VALUES ({marks})", values)
        if before is not None and before.digest != digest:
            self._forget(before.digest)
        return stored

    def remove(self, name: str, owner: str = "") -> None:
        """Delete a voice, its arrays with it unless another one has the very same. Raises UnknownVoice."""
        with self._writing():
            stored = self._row(owner, name)
            if stored is None:
                raise UnknownVoice(unknown(name))
            self._rows.execute("DELETE FROM voices WHERE owner = ? AND name = ?", (owner, name))
        self._forget(stored.digest)
        with self._lock:
            # What was deleted would stay in the log until it is full.
            self._rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")

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
            cached = self._read(stored)
            self._keep(stored, cached)
        return replace(
            cached,
            name=stored.name,
            language=stored.language,
            description=stored.description,
            prompt_text=stored.prompt_text,
            transcript=stored.transcript,
        )

    def tidy(self) -> int:
        """Delete files that no voice names, left behind by a crash; tells how many there were."""
        with self._writing():
            named = {digest for (digest,) in self._rows.execute("SELECT DISTINCT digest FROM voices")}
            left = [path for path in self._arrays.iterdir() if path.name.removesuffix(".safetensors") not in named]
            for path in left:
                path.unlink(missing_ok=True)
        return len(left)

    def _path(self, digest: str) -> Path:
        return self._arrays / f"{digest}.safetensors"

    def _write(self, digest: str, packed: bytes) -> None:
        """Only under the write lock, or a file could be taken for one that nobody wants."""
        path = self._path(digest)
        if path.exists():
            # Whoever renamed it may not have come to this.
            _synchronise(self._arrays)
            return
        unfinished = self._arrays / f"{digest}.{os.getpid()}.unfinished"
        with unfinished.open("wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        _synchronise(self._arrays)

    def _forget(self, digest: str) -> None:
        """Delete the arrays unless some voice has them."""
        with self._writing():
            named = self._rows.execute("SELECT 1 FROM voices WHERE digest = ? LIMIT 1", (digest,)).fetchone()
            if named is None:
                self._path(digest).unlink(missing_ok=True)
                _synchronise(self._arrays)
        with self._lock:
            if named is None and (cached := self._cached.pop(digest, None)) is not None:
                self._cached_bytes -= _size(cached)

    def _read(self, stored: StoredVoice) -> VoicePrompt:
        try:
            packed = self._path(stored.digest).read_bytes()
        except FileNotFoundError as error:
            if self.find(stored.name, stored.owner).digest != stored.digest:
                return self.get(stored.name, stored.owner)
            raise StoreError(f"the file of voice {stored.name!r} is gone; register the voice again") from error
        except OSError as error:
            raise StoreError(f"voice {stored.name!r} cannot be read: {error}") from error
        if hashlib.sha256(packed).hexdigest() != stored.digest:
            raise StoreError(f"the file of voice {stored.name!r} is damaged; register the voice again")
        try:
            arrays = load(packed)
            return VoicePrompt(
                stored.name,
                stored.language,
                stored.description,
                stored.prompt_text,
                stored.transcript,
                **{name: arrays[name] for name in _ARRAYS},
            )
        except (SafetensorError, KeyError, InvalidInput) as error:  # written by something else
            raise StoreError(f"the file of voice {stored.name!r} holds no voice: {error}; register it again") from error

    def _keep(self, stored: StoredVoice, voice: VoicePrompt) -> None:
        with self._lock:
            if stored.digest not in self._cached:
                self._cached[stored.digest] = voice
                self._cached_bytes += _size(voice)
            while self._cached_bytes > self._most_bytes and len(self._cached) > 1:
                _, oldest = self._cached.popitem(last=False)
                self._cached_bytes -= _size(oldest)


def _size(voice: VoicePrompt) -> int:
    arrays: list[torch.Tensor] = [getattr(voice, name) for name in _ARRAYS]
    return sum(array.numel() * array.element_size() for array in arrays)


def _synchronise(folder: Path) -> None:
    """A rename lasts once its folder is on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
