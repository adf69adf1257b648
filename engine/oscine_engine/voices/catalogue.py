"""What the voices of a store are called and whose they are: SQLite, no arrays, and so nothing heavy to import.

Names belong to an owner; the owner "" is everybody's. Somebody sees what is theirs and what is everybody's, and of two
voices of one name their own.
"""

import contextlib
import errno
import re
import sqlite3
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from oscine_engine.errors import InvalidInput, StoreError, UnknownVoice
from oscine_engine.voices.language import Language

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
BUSY_S = 30.0
"""A writer waits so long for another one."""
MOST_NAMED = 10
"""Voices that a message names."""
_VERSION = 1
_SCHEMA = """
CREATE TABLE voices (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    language TEXT NOT NULL,
    description TEXT NOT NULL,
    prompt_text TEXT NOT NULL,
    transcript TEXT NOT NULL,
    seconds REAL NOT NULL,
    created REAL NOT NULL,
    digest TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) WITHOUT ROWID;
CREATE INDEX voices_digest ON voices (digest);
"""
COLUMNS = "owner, name, language, description, prompt_text, transcript, seconds, created, digest, bytes"


@dataclass(frozen=True, slots=True)
class StoredVoice:
    """What a store knows of a voice without its arrays. seconds: of its reference. created: Unix time."""

    owner: str
    name: str
    language: Language
    description: str
    prompt_text: str
    transcript: str
    seconds: float
    created: float
    digest: str
    bytes: int


class Catalogue:
    """One folder of voices, which any number of processes may read and write. May be used from several threads.

    Raises StoreError for a folder that cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._rows = sqlite3.connect(
                folder / "voices.sqlite3", timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"the voice store {folder} cannot be used: {_why(error)}") from error

    def close(self) -> None:
        self._rows.close()

    def find(self, name: str, owner: str = "") -> StoredVoice:
        """The voice `name` as `owner` sees it. Raises UnknownVoice."""
        with self._reading():
            stored = self._row(owner, name) or (self._row("", name) if owner else None)
        if stored is None:
            raise UnknownVoice(unknown(name))
        return stored

    def names(self, owner: str, most: int) -> list[str]:
        """Of the first voices that `owner` sees, by name: a store may have very many."""
        with self._reading():
            rows = self._rows.execute(
                "SELECT DISTINCT name FROM voices WHERE owner IN (?, '') ORDER BY name LIMIT ?", (owner, most)
            ).fetchall()
        return [name for (name,) in rows]

    def list(self, owner: str = "") -> list[StoredVoice]:
        """What `owner` sees, by name."""
        with self._reading():
            rows = self._rows.execute(
                f"SELECT {COLUMNS} FROM voices WHERE owner = :owner OR (owner = '' AND name NOT IN "
                "(SELECT name FROM voices WHERE owner = :owner)) ORDER BY name",
                {"owner": owner},
            ).fetchall()
        return [StoredVoice(*row) for row in rows]

    def _prepare(self) -> None:
        self._rows.execute("PRAGMA journal_mode = WAL")
        self._rows.execute("PRAGMA synchronous = FULL")
        self._rows.execute("PRAGMA secure_delete = ON")
        (version,) = self._rows.execute("PRAGMA user_version").fetchone()
        if version == 0:
            with self._writing():
                (version,) = self._rows.execute("PRAGMA user_version").fetchone()
                if version == 0:
                    for statement in _SCHEMA.split(";"):
                        self._rows.execute(statement)
                    self._rows.execute(f"PRAGMA user_version = {_VERSION}")
        elif version != _VERSION:
            raise StoreError(
                f"the voice store {self._folder} was written by another version of this program (its format is "
                f"{version}, {_VERSION} is expected)"
            )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise StoreError(f"the voice store cannot be read: {error}") from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """SQLite's write lock, from now until the commit; what was changed is undone if this fails."""
        with self._lock:
            try:
                self._rows.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise StoreError(f"the voice store cannot be written to: {error}") from error
            try:
                yield
                self._rows.execute("COMMIT")
            except BaseException as error:
                # Where the disk is full or broken SQLite has undone it by itself, and another time would be an error.
                if self._rows.in_transaction:
                    self._rows.execute("ROLLBACK")
                if isinstance(error, OSError | sqlite3.Error):
                    raise StoreError(f"the voice could not be stored: {_why(error)}") from error
                raise

    def _source(self) -> str | None:
        """What this folder is a copy of; None for a store of its own. Whoever copies keeps the table."""
        table = self._rows.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'source'").fetchone()
        if table is None:
            return None
        row: tuple[str] | None = self._rows.execute("SELECT address FROM source").fetchone()
        return None if row is None else row[0]

    def _row(self, owner: str, name: str) -> StoredVoice | None:
        row = self._rows.execute(f"SELECT {COLUMNS} FROM voices WHERE owner = ? AND name = ?", (owner, name)).fetchone()
        return None if row is None else StoredVoice(*row)


def _why(error: OSError | sqlite3.Error) -> str:
    """In words, and what to do where that is known."""
    full = errno.ENOSPC if isinstance(error, OSError) else sqlite3.SQLITE_FULL
    code = error.errno if isinstance(error, OSError) else getattr(error, "sqlite_errorcode", None)
    if code == full:
        return "the disk of the voice store is full; make room on it, and send the recording again"
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        return f"{error}; whoever runs this must be able to write there"
    return str(error)


def check_name(name: str) -> None:
    """Raises InvalidInput for what no voice can be called."""
    if not NAME.fullmatch(name):
        raise InvalidInput(
            f"a voice cannot be called {name!r}; take 1 to 64 letters, digits, dots, dashes or underscores, a letter "
            "or digit first"
        )


def unknown(name: str, others: Collection[str] = ()) -> str:
    """others: voices that whoever asked may know of; some are named."""
    if not others:
        return f"there is no voice {name!r}"
    more = " and more" if len(others) > MOST_NAMED else ""
    return f"there is no voice {name!r}; there are {', '.join(islice(others, MOST_NAMED))}{more}"
