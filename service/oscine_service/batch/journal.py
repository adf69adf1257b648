"""What of a list has been said already: `results.jsonl` beside the speech, an object a line; an id's last one counts.

An object is written once its file is there under its name. So whatever ends a run in between, what the journal tells of
is whole, and at worst a text is said again. Keys: `id`, `key` (a digest of all that decides how it sounds), `text`,
`voice` or `recording`, `file`, `seconds`, `segments`, `wall_s`, and `error` in place of the last four where it failed.
"""

import fcntl
import hashlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from oscine_engine.errors import InvalidInput

NAME = "results.jsonl"


def key(decisive: dict[str, Any]) -> str:
    """A digest of plain values."""
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


class Journal:
    """Of one folder, made where there is none, and of one run at a time.

    Raises InvalidInput for a folder that cannot be written to, or that another run writes into.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._entries: dict[str, dict[str, Any]] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")
            try:
                self._lock()
                self._read()
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            raise InvalidInput(f"cannot write to {folder}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def done(self, name: str, decided: str) -> dict[str, Any] | None:
        """What is told of the line `name` if it has been said as it would be now, and its file is still there."""
        entry = self._entries.get(name)
        if entry is None or entry.get("key") != decided or "error" in entry:
            return None
        return entry if (self._folder / entry["file"]).is_file() else None

    def add(self, entry: dict[str, Any]) -> None:
        self._entries[entry["id"]] = entry
        self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self._file.flush()

    def _lock(self) -> None:
        """Held as long as the file is open, however a run ends."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidInput(
                f"another run writes into {self._folder} just now: wait for its end, or take another folder"
            ) from error

    def _read(self) -> None:
        """A last line without an end is of a run that was killed: it is cut off, and its text said again."""
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self._path, len(whole))
        for number, row in enumerate(whole.splitlines(), 1):
            try:
                entry = json.loads(row)
                self._entries[entry["id"]] = entry
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidInput(
                    f"{self._path}, line {number}, was not written by this program; move it away"
                ) from error
