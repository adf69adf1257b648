"""API keys: one file of them, in which only their digests stand.

A key has 256 random bits, so that its SHA-256 gives nothing away and needs no salt and no slow hash. A running service
notices a changed file within a second; a file that cannot be read then leaves the keys as they were.
"""

import fcntl
import hashlib
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oscine_engine.errors import InvalidInput
from oscine_service.security.principal import Grant, Principal

log = logging.getLogger(__name__)

PREFIX = "osk_"
LOOK_S = 1.0
"""Between two looks at the file."""
EVERY_VOICE = 'name voices or patterns such as "team-*", or leave it out to allow every voice'
DEFAULT_GRANTS = (Grant.SPEAK, Grant.VOICES, Grant.TOKENS)


@dataclass(frozen=True, slots=True)
class Key:
    """What stands in the file of one key. sha256: its digest, in hexadecimal. created, expires: ISO 8601 with a zone.

    The rest as `Principal` has it. Raises InvalidInput for what is not legal.
    """

    name: str
    sha256: str
    owner: str = ""
    streams: int | None = None
    characters_per_minute: int | None = None
    voices: tuple[str, ...] = ()
    most_voices: int | None = None
    grants: tuple[str, ...] = DEFAULT_GRANTS
    created: str = ""
    expires: str | None = None

    def __post_init__(self) -> None:
        where = f"the key {self.name!r}"
        if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
            raise InvalidInput(f"{where} needs a name of printable characters")
        if not isinstance(self.sha256, str) or len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise InvalidInput(f"{where}: sha256 must be 64 hexadecimal digits")
        for name in ("streams", "characters_per_minute", "most_voices"):
            value = getattr(self, name)
            least = 0 if name == "most_voices" else 1
            if value is not None and (type(value) is not int or value < least):
                raise InvalidInput(f"{where}: {name} must be a whole number from {least} up")
        if not isinstance(self.owner, str):
            raise InvalidInput(f"{where}: owner must be a text")
        for name in ("voices", "grants"):
            value = getattr(self, name)
            # A text would count as a list of its characters, among which a * grants everything.
            if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
                raise InvalidInput(f"{where}: {name} must be a list of texts")
        if not all(pattern.strip() for pattern in self.voices):
            raise InvalidInput(f"{where}: voices: a pattern is empty; {EVERY_VOICE}")
        if unknown := set(self.grants) - set(Grant):
            raise InvalidInput(f"{where}: grants {', '.join(sorted(unknown))}: there are {', '.join(Grant)}")
        _ = self.expires_at

    @property
    def expires_at(self) -> float:
        """Seconds of the epoch; infinity for never."""
        if self.expires is None:
            return float("inf")
        try:
            when = datetime.fromisoformat(self.expires)
        except (TypeError, ValueError):
            raise InvalidInput(f"the key {self.name!r}: expires must be a date such as 2027-01-31T00:00:00Z") from None
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()

    @property
    def principal(self) -> Principal:
        return Principal(
            name=self.name,
            owner=self.owner,
            streams=self.streams,
            characters_per_minute=self.characters_per_minute,
            voices=self.voices,
            most_voices=self.most_voices,
            grants=frozenset(Grant(grant) for grant in self.grants),
        )


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def read(path: Path) -> dict[str, Key]:
    """By name. Raises InvalidInput for a file that cannot be read, or in which something is wrong."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidInput(
            f"the keys in {path} cannot be read: {error.strerror}; make one with: oscine keys add NAME --keys {path}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the file of keys {path} is not JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise InvalidInput(f'the file of keys {path} must be an object with a list: {{"keys": [...]}}')
    found: dict[str, Key] = {}
    by_digest: dict[str, str] = {}
    for entry in document["keys"]:
        key = _key(entry, path)
        if key.name in found:
            raise InvalidInput(f"{path}: two keys are called {key.name!r}")
        if (other := by_digest.setdefault(key.sha256, key.name)) != key.name:
            raise InvalidInput(f"{path}: {other!r} and {key.name!r} have the same sha256: whose key is it? remove one")
        found[key.name] = key
    return found


def _key(entry: Any, path: Path) -> Key:
    names = {each.name for each in fields(Key)}
    if not isinstance(entry, dict) or not {"name", "sha256"} <= entry.keys():
        raise InvalidInput(f"{path}: a key has a name, a sha256 and some of {', '.join(sorted(names))}")
    if unknown := set(entry) - names:
        raise InvalidInput(f"{path}: the key {entry['name']!r}: unknown: {', '.join(sorted(unknown))}")
    if entry.get("voices") == []:
        # None allowed is what it says, and any is what no list means.
        raise InvalidInput(f"{path}: the key {entry['name']!r}: voices: the list is empty; {EVERY_VOICE}")
    # Without an owner a key is its own, as `oscine keys add` has it; "" makes it one of everybody's.
    given = {"owner": entry["name"], **entry}
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        return Key(**values)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def write(path: Path, keys: Mapping[str, Key]) -> None:
    """Only its owner may read a new file; one that is there keeps its owner, group and mode, for the service may be
    another user than whoever changes it. Nobody ever finds half of it. Raises OSError."""
    document = {"keys": [_entry(key) for key in keys.values()]}
    before = path.stat() if path.exists() else None
    aside = path.with_name(path.name + ".new")
    aside.unlink(missing_ok=True)
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            if before is not None:
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            json.dump(document, file, indent=2, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        # What fails on an open file, as on a full disk, does not say which one.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _entry(key: Key) -> dict[str, Any]:
    """What is not the default, and what must be there."""
    defaults = asdict(Key("name", "0" * 64))
    always = ("name", "sha256", "owner")
    return {name: value for name, value in asdict(key).items() if value != defaults[name] or name in always}


@contextmanager
def changing(path: Path) -> Iterator[dict[str, Key]]:
    """The keys of a file, to be changed in the block; it is written when the block is left without an error, and made
    if it is not there. Whoever else changes it meanwhile waits. Raises InvalidInput and OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keys = read(path) if path.exists() else {}
        yield keys
        write(path, keys)


class KeyBook:
    """The keys of a file, as they are now."""

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        """clock: seconds of the epoch, for what expires. ticks: monotonic, for when to look again. Raises InvalidInput
        for a file that cannot be read."""
        self._path, self._clock, self._ticks = path, clock, ticks
        self.readable = True
        """Whether the file was, when it was looked at last; if not, the keys are those from before."""
        self._by_digest: dict[str, Key] = {}
        self._by_name: dict[str, Key] = {}
        self._seen, self._looked = self._stamp(), ticks()
        self._take(read(path))

    def find(self, key: str) -> Principal | None:
        """On whose behalf a key speaks; None for one that is not there, or has expired."""
        self.look()
        return self._living(self._by_digest.get(digest(key)))

    def named(self, name: str) -> Principal | None:
        """As `find`, by the name."""
        self.look()
        return self._living(self._by_name.get(name))

    def __len__(self) -> int:
        return len(self._by_name)

    def _living(self, key: Key | None) -> Principal | None:
        return key.principal if key is not None and self._clock() < key.expires_at else None

    def look(self) -> None:
        """Read the file again if it has changed; at most once a second."""
        if self._ticks() - self._looked < LOOK_S:
            return
        self._looked = self._ticks()
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._take(read(self._path))
            self.readable = True
            log.info("the keys have changed: there are %d", len(self))
        except InvalidInput as error:
            self.readable = False
            log.error("%s; the %d keys from before still count", error, len(self))

    def _take(self, keys: Mapping[str, Key]) -> None:
        self._by_name = dict(keys)
        self._by_digest = {key.sha256: key for key in keys.values()}

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            about = self._path.stat()
        except OSError:
            return None
        return about.st_mtime_ns, about.st_size, about.st_ino
