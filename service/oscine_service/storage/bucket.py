"""What shared voices need of whatever holds them: whole objects by key, written at once or not at all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from oscine_engine.errors import StoreError
from oscine_service.storage.address import Address

MOST_BYTES = 1 << 26
"""Of an object that is read: a hundred times what a voice takes. Whoever may write to a bucket could fill the memory
otherwise."""
_PART_BYTES = 1 << 20


class Taken(Exception):
    """There is an object of that key already."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object. tag: of this content, another one for another content."""

    data: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list says of an object. modified: Unix time, by the clock of whoever holds it."""

    tag: str
    modified: float


class Bucket(Protocol):
    """May be used from several threads. What was written, or deleted, is so for every reader once the call returns.

    Keys are parts of letters, digits and `-._=%`, joined by slashes. Each raises StoreError for a bucket that cannot be
    reached or used, which says what to do.
    """

    def read(self, key: str) -> Found | None:
        """The whole object; None if there is none. Raises StoreError for more than MOST_BYTES."""

    def write(self, key: str, data: bytes, *, new: bool = False) -> str:
        """Keep an object for good, and return its tag. new: raises Taken, and changes nothing, if there is one."""

    def delete(self, key: str) -> None:
        """Whether or not it is there."""

    def list(self, prefix: str) -> Mapping[str, Listed]:
        """All objects whose keys begin so, by key."""

    def close(self) -> None: ...


def whole(read: Callable[[int], bytes], key: str) -> bytes:
    """The object `key`, of which `read` gives the next so many bytes. Raises StoreError for more than MOST_BYTES."""
    data = bytearray()
    while part := read(_PART_BYTES):
        data += part
        if len(data) > MOST_BYTES:
            raise StoreError(f"{key} in the shared voice store is too large for a voice; delete it")
    return bytes(data)


def opened(address: Address) -> Bucket:
    """Raises StoreError for what cannot be used at all. Nothing is asked of a server yet."""
    if address.scheme == "file":
        from oscine_service.storage.folder import Folder

        return Folder(address.folder)
    from oscine_service.storage.s3 import S3

    return S3(address)
