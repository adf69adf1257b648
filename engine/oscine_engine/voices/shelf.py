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

Arrays are bytes here, and nothing heavy is imported: what they hold is known to `packing`.
"""

import hashlib
import os
from pathlib import Path

from oscine_engine.errors import StoreError, UnknownVoice, VoiceExists
from oscine_engine.voices.catalogue import COLUMNS, Catalogue, StoredVoice, unknown


class Shelf(Catalogue):
    """A catalogue and the packed arrays of its voices.

    Raises StoreError for a folder that cannot be used, and for voices whose files were damaged.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._arrays = folder / "arrays"
        try:
            self._arrays.mkdir(exist_ok=True)
        except OSError as error:
            raise StoreError(f"the voice store {folder} cannot be used: {error}") from error

    def put(self, stored: StoredVoice, packed: bytes, *, replace_it: bool = False) -> None:
        """Keep a voice for good; it is there, whatever happens, once this returns.

        packed: arrays with the digest that `stored` names. Raises VoiceExists, unless `replace_it`, for a name that the
        owner has given already, and StoreError in a folder that is a copy of something else.
        """
        with self._writing():
            self._own()
            before = self._row(stored.owner, stored.name)
            if before is not None and not replace_it:
                raise VoiceExists(taken(stored.name))
            self._write(stored.digest, packed)
            self._enter(stored)
        if before is not None and before.digest != stored.digest:
            self._forget(before.digest)

    def remove(self, name: str, owner: str = "") -> None:
        """Delete a voice, its arrays with it unless another one has the very same.

        Raises UnknownVoice, and StoreError in a folder that is a copy of something else.
        """
        with self._writing():
            self._own()
            stored = self._row(owner, name)
            if stored is None:
                raise UnknownVoice(unknown(name))
            self._strike(owner, name)
        self._forget(stored.digest)
        self._overwrite()

    def packed(self, stored: StoredVoice) -> tuple[StoredVoice, bytes]:
        """A voice that was found, or what it was replaced by since, and its arrays.

        Raises UnknownVoice if it has been removed since.
        """
        try:
            packed = self._path(stored.digest).read_bytes()
        except FileNotFoundError as error:
            now = self.find(stored.name, stored.owner)
            if now.digest != stored.digest:
                return self.packed(now)
            raise StoreError(f"the file of voice {stored.name!r} is gone; register the voice again") from error
        except OSError as error:
            raise StoreError(f"voice {stored.name!r} cannot be read: {error}") from error
        if digest_of(packed) != stored.digest:
            raise StoreError(f"the file of voice {stored.name!r} is damaged; register the voice again")
        return stored, packed

    def tidy(self) -> int:
        """Delete files that no voice names, left behind by a crash; tells how many there were."""
        with self._writing():
            named = {digest for (digest,) in self._rows.execute("SELECT DISTINCT digest FROM voices")}
            left = [path for path in self._arrays.iterdir() if path.name.removesuffix(".safetensors") not in named]
            for path in left:
                path.unlink(missing_ok=True)
        return len(left)

    def _own(self) -> None:
        """Raises StoreError for a folder that something else is copied to: a change here would be undone."""
        if (source := self._source()) is not None:
            raise StoreError(f"{self._folder} is only a copy of {source}: name that as the voice store")

    def _path(self, digest: str) -> Path:
        return self._arrays / f"{digest}.safetensors"

    def _enter(self, stored: StoredVoice) -> None:
        values = [getattr(stored, name) for name in COLUMNS.split(", ")]
        marks = ", ".join("?" for _ in values)
        self._rows.execute(f"INSERT OR REPLACE INTO voices ({COLUMNS}) VALUES ({marks})", values)

    def _strike(self, owner: str, name: str) -> None:
        self._rows.execute("DELETE FROM voices WHERE owner = ? AND name = ?", (owner, name))

    def _write(self, digest: str, packed: bytes) -> None:
        """Only under the write lock, or a file could be taken for one that nobody wants."""
        path = self._path(digest)
        if path.exists():
            # Whoever renamed it may not have come to this.
            synchronise(self._arrays)
            return
        unfinished = self._arrays / f"{digest}.{os.getpid()}.unfinished"
        with unfinished.open("wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        synchronise(self._arrays)

    def _forget(self, digest: str) -> bool:
        """Delete the arrays unless some voice has them; whether they were deleted."""
        with self._writing():
            named = self._rows.execute("SELECT 1 FROM voices WHERE digest = ? LIMIT 1", (digest,)).fetchone()
            if named is None:
                self._path(digest).unlink(missing_ok=True)
                synchronise(self._arrays)
        return named is None

    def _overwrite(self) -> None:
        """What was deleted would stay in the log until it is full."""
        with self._lock:
            self._rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def digest_of(packed: bytes) -> str:
    """What arrays are called after."""
    return hashlib.sha256(packed).hexdigest()


def taken(name: str) -> str:
    return f"there is a voice {name!r} already; take another name, or replace it (--replace)"


def synchronise(folder: Path) -> None:
    """A rename lasts once its folder is on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
