"""Voices that several machines share: whether their store can be read, written, and written as it has to be."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from oscine_engine.errors import StoreError
from oscine_service.doctor.finding import Finding, advice, fault, good
from oscine_service.storage import mounts
from oscine_service.storage.address import Address
from oscine_service.storage.bucket import Bucket, Taken, opened
from oscine_service.storage.copy import Copy
from oscine_service.storage.shared import SharedVoices

ABOUT = "voices"
REMEMBERED_S = 1
"""How long an NFS client may remember names, if others are to see a voice within two seconds."""


def examined(source: Address, copy: Path) -> Iterator[Finding]:
    """What is written to try it is deleted again."""
    try:
        with closing(opened(source)) as bucket:
            count = len(SharedVoices(bucket).listed())
            yield good(ABOUT, f"{count} in {source}")
            yield from _written(source, bucket)
    except StoreError as error:
        yield fault(ABOUT, str(error), "mend that, or leave out --voices; services go on with their copies meanwhile")
    if source.scheme == "file":
        yield from _mounted(source.folder)
    yield from _copied(source, copy)


def _written(source: Address, bucket: Bucket) -> Iterator[Finding]:
    """Whether a name is given once, which the bucket itself must see to."""
    key = f"probe/{uuid.uuid4().hex}"
    try:
        bucket.write(key, b"one", new=True)
        try:
            bucket.write(key, b"two", new=True)
        except Taken:
            return
        finally:
            bucket.delete(key)
    except StoreError as error:
        yield advice(ABOUT, f"none can be made here: {error}", "let this machine write, if voices are to be made on it")
        return
    yield fault(
        ABOUT,
        f"{source} writes over what is there though it is told not to: of two voices made at once under one name, one "
        "would be lost",
        "use a server that knows conditional writes (If-None-Match)",
    )


def _mounted(folder: Path) -> Iterator[Finding]:
    mount = mounts.of(folder)
    if mount is None:
        return
    if not mount.remote:
        yield advice(ABOUT, f"{folder} is on a disk of this machine ({mount.kind})", "mount what others mount, too")
    slow = [
        each for each in mount.options if each.startswith(("acdirmax=", "acregmax=")) and _seconds(each) > REMEMBERED_S
    ]
    if mount.kind.startswith("nfs") and "noac" not in mount.options and (slow or not _named(mount)):
        yield advice(
            ABOUT, f"{mount.point} remembers names for a minute, so that voices come late", "mount it with actimeo=1"
        )


def _copied(source: Address, copy: Path) -> Iterator[Finding]:
    mount = mounts.of(copy)
    if mount is not None and mount.remote:
        yield fault(ABOUT, f"their copy {copy} is on {mount.kind}", "--voices-copy with a folder of a local disk")
        return
    if not copy.exists():
        yield good(ABOUT, f"their copy will be made in {copy}")
        return
    try:
        with closing(Copy(copy, str(source))) as found:
            yield good(ABOUT, f"{found.count()} in their copy {copy}")
    except StoreError as error:
        yield fault(ABOUT, str(error), "give the service's user a folder of a local disk that it may write to")


def _seconds(option: str) -> int:
    return int(option.partition("=")[2])


def _named(mount: mounts.Mount) -> bool:
    """The kernel tells how long only where it is not a minute for folders."""
    return any(each.startswith("acdirmax=") for each in mount.options)
