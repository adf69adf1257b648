"""A folder of a shared file system as a bucket: NFS, CephFS, a FUSE mount."""

import contextlib
import os
import stat
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from oscine_engine.errors import StoreError
from oscine_engine.voices.shelf import synchronise
from oscine_service.storage.bucket import Found, Listed, Taken, whole

_UNFINISHED = ".unfinished-"
_LEFT_S = 3600.0
"""A file that was written for so long belongs to nobody any more."""


class Folder:
    """An object is a file, written aside, synchronised and renamed: readers find all of it or none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if not folder.is_dir():
            raise StoreError(_no_folder(folder))

    def read(self, key: str) -> Found | None:
        with self._named():
            try:
                # Opening asks a server what is there now, where looking at names may be answered from memory.
                with open(self._folder / key, "rb", opener=_at_once) as file:
                    seen = os.fstat(file.fileno())
                    if not stat.S_ISREG(seen.st_mode):
                        raise StoreError(f"{self._folder / key} is no file; delete it")
                    return Found(whole(file.read, key), _tag(seen))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def write(self, key: str, data: bytes, *, new: bool = False) -> str:
        if not self._folder.is_dir():
            raise StoreError(_no_folder(self._folder))
        path = self._folder / key
        aside = path.with_name(f"{_UNFINISHED}{uuid.uuid4().hex}")
        with self._named():
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with aside.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                if new:
                    _link(aside, path)
                else:
                    aside.replace(path)
                tag = _tag(path.stat())
            finally:
                aside.unlink(missing_ok=True)
            synchronise(path.parent)
        return tag

    def delete(self, key: str) -> None:
        path = self._folder / key
        with self._named(), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
            synchronise(path.parent)

    def list(self, prefix: str) -> Mapping[str, Listed]:
        with self._named():
            return dict(self._walk(self._folder / prefix))

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _walk(self, folder: Path) -> Iterator[tuple[str, Listed]]:
        try:
            entries = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(Path(entry.path))
                    continue
                seen = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # deleted since
                continue
            if not stat.S_ISREG(seen.st_mode):
                continue
            if not entry.name.startswith(_UNFINISHED):
                yield Path(entry.path).relative_to(self._folder).as_posix(), Listed(_tag(seen), seen.st_mtime)
            elif seen.st_mtime < time.time() - _LEFT_S:
                Path(entry.path).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"the shared voice store {self._folder} cannot be used: {error.strerror or error}; see that it is "
                "mounted, has room, and may be written to by this user"
            ) from error


def _no_folder(folder: Path) -> str:
    return f"the shared voice store {folder} is no folder; mount the file system, then: mkdir {folder}"


def _at_once(path: str, flags: int) -> int:
    """Opens a pipe, too, without waiting for somebody to write to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _tag(seen: os.stat_result) -> str:
    """A file that took the place of another one is another file, even of the same size at the same time."""
    return f"{seen.st_ino:x}-{seen.st_mtime_ns:x}-{seen.st_size:x}"


def _link(aside: Path, path: Path) -> None:
    """Give the file its name, unless that is taken: the one such step that NFS does at once, too. Raises Taken."""
    try:
        os.link(aside, path)
    except FileExistsError as error:
        raise Taken from error
