"""This machine's copy of a shared store: a folder that engines read as any store of their own, and nobody else writes.

Two kinds of processes write it: the one that looks after the copy, and those that change the shared store themselves
and want to see at once what they did. The first fetches, which takes time, and may then hold what the others have
undone meanwhile. So those count their changes (`writes`), each in the transaction that makes it, and what was fetched
before the count went up is fetched again.
"""

from collections.abc import Mapping
from pathlib import Path

from oscine_engine.errors import StoreError
from oscine_engine.voices.catalogue import StoredVoice
from oscine_engine.voices.shelf import Shelf
from oscine_service.storage.record import Id

_SCHEMA = """
CREATE TABLE IF NOT EXISTS source (address TEXT NOT NULL, writes INTEGER NOT NULL, complete INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS tags (
    owner TEXT NOT NULL, name TEXT NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (owner, name)
) WITHOUT ROWID;
"""


class Copy(Shelf):
    """Voices as they were when somebody last looked. May be used from several threads.

    source: what it is a copy of. Raises StoreError for a folder that has voices of its own, or of another source.
    """

    def __init__(self, folder: Path, source: str) -> None:
        super().__init__(folder)
        with self._writing():
            for statement in _SCHEMA.split(";"):
                self._rows.execute(statement)
            known = self._source()
            if known is None:
                if self._rows.execute("SELECT 1 FROM voices LIMIT 1").fetchone() is not None:
                    raise StoreError(
                        f"{folder} has voices of its own, which a copy of {source} would delete: name another folder "
                        "with --voices-copy"
                    )
                self._rows.execute("INSERT INTO source VALUES (?, 0, 0)", (source,))
            elif known != source:
                raise StoreError(
                    f"{folder} is a copy of {known} and not of {source}: name another folder with --voices-copy, or "
                    "delete that one"
                )

    @property
    def complete(self) -> bool:
        """Whether it has ever had all that its source has."""
        with self._reading():
            return bool(self._rows.execute("SELECT complete FROM source").fetchone()[0])

    def completed(self) -> None:
        with self._writing():
            self._rows.execute("UPDATE source SET complete = 1")

    @property
    def writes(self) -> int:
        """How often this machine has changed the source itself."""
        with self._reading():
            return self._writes()

    def tags(self) -> Mapping[Id, str]:
        """Of each voice's record, as it was copied."""
        with self._reading():
            rows = self._rows.execute("SELECT owner, name, tag FROM tags").fetchall()
        return {(owner, name): tag for owner, name, tag in rows}

    def count(self) -> int:
        with self._reading():
            return int(self._rows.execute("SELECT count(*) FROM voices").fetchone()[0])

    def has(self, digest: str) -> bool:
        """Whether some voice's arrays of that digest are here already."""
        return self._path(digest).exists()

    def take(self, stored: StoredVoice, packed: bytes | None, tag: str, *, fetched_at: int | None) -> bool:
        """Keep what the source has. packed: None where arrays with that digest are here already.

        fetched_at: `writes` before it was fetched; None for what this process has itself just written. Returns False,
        and changes nothing, if it has to be fetched again.
        """
        with self._writing():
            if fetched_at is None:
                self._written()
            elif self._writes() != fetched_at:
                return False
            if packed is not None:
                self._write(stored.digest, packed)
            elif not self.has(stored.digest):
                return False
            before = self._row(stored.owner, stored.name)
            self._enter(stored)
            self._rows.execute("INSERT OR REPLACE INTO tags VALUES (?, ?, ?)", (stored.owner, stored.name, tag))
        if before is not None and before.digest != stored.digest:
            self._forget(before.digest)
            self._overwrite()
        return True

    def drop(self, owner: str, name: str, *, fetched_at: int | None) -> bool:
        """Forget what the source has not, or no more. As `take`."""
        with self._writing():
            if fetched_at is None:
                self._written()
            elif self._writes() != fetched_at:
                return False
            before = self._row(owner, name)
            self._strike(owner, name)
            self._rows.execute("DELETE FROM tags WHERE owner = ? AND name = ?", (owner, name))
        if before is not None:
            self._forget(before.digest)
            self._overwrite()
        return True

    def check(self) -> int:
        """Forget the tags of voices whose arrays are not here whole, so that they are fetched again; tells how many.

        By their size: what was torn by a loss of power. Digests are looked at when arrays are read.
        """
        with self._writing():
            rows = self._rows.execute("SELECT owner, name, digest, bytes FROM voices").fetchall()
            torn = [(owner, name, digest) for owner, name, digest, size in rows if self._size(digest) != size]
            for owner, name, digest in torn:
                self._path(digest).unlink(missing_ok=True)
                self._rows.execute("DELETE FROM tags WHERE owner = ? AND name = ?", (owner, name))
        return len(torn)

    def _size(self, digest: str) -> int:
        try:
            return self._path(digest).stat().st_size
        except FileNotFoundError:
            return -1

    def _writes(self) -> int:
        return int(self._rows.execute("SELECT writes FROM source").fetchone()[0])

    def _written(self) -> None:
        self._rows.execute("UPDATE source SET writes = writes + 1")
