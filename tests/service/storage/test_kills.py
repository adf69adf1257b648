"""Writers that are killed at any moment, and machines that share a real file system: what takes minutes."""

import os
import random
import signal
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from bench import bucket
from oscine_engine.errors import StoreError
from oscine_engine.voices.catalogue import StoredVoice
from oscine_engine.voices.shelf import Shelf
from oscine_service.storage import shared as sharing
from oscine_service.storage.address import Address
from oscine_service.storage.bucket import Bucket, opened
from oscine_service.storage.copy import Copy
from oscine_service.storage.mirror import Mirror
from oscine_service.storage.shared import SharedVoices
from tests.service.storage.voices import soon, voice

pytestmark = pytest.mark.slow
KILLS = 100


def arrays(number: int) -> bytes:
    """Some tens of kilobytes, other ones for each number."""
    return random.Random(number).randbytes(40_000)


def written(address: Address, first: int, told: int) -> None:
    """What a child does until it is killed: adds voices, deletes each third one, and tells of both once it is done."""
    shared = SharedVoices(opened(address))
    for number in range(first, first + 1000):
        shared.add(*voice(f"v{number}", data=arrays(number)))
        os.write(told, f"{number}\n".encode())
        if number % 3 == 0:
            shared.remove(f"v{number}")
            os.write(told, f"{-number}\n".encode())


def killed(address: Address, first: int, after_s: float) -> list[int]:
    """What a child acknowledged before it was killed. It opens the store itself: connections do not outlive a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            written(address, first, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = [pipe.readline()]
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return [int(line) for line in [*lines, *pipe.read().split()]]


def test_killed_writers_lose_nothing_they_acknowledged_and_tear_nothing(
    address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine copies all the while, and never has half a voice either."""
    draw, told = random.Random(7), [0]
    shared, copy = SharedVoices(opened(address)), Copy(tmp_path / "copy", str(address))
    # Forked before there are threads, which do not outlive a fork.
    parent, watching = os.getpid(), os.fork()
    if watching == 0:
        watch(address, tmp_path, parent)
    try:
        for _ in range(KILLS):
            first = 2 + max(abs(number) for number in told)
            told += killed(address, first, draw.uniform(0.0, 0.06))
    finally:
        (tmp_path / "done").touch()
        _, status = os.waitpid(watching, 0)
    assert status == 0, (tmp_path / "wrong").read_text()
    removed = {-number for number in told if number < 0}
    expected = {number for number in told if number > 0} - removed
    Mirror(shared, copy).look()
    found = {int(stored.name[1:]) for stored in shared.list()}
    # A voice that was under way, in or out, may be either: one for each kill.
    assert not removed & found
    assert len(expected - found) + len(found - expected) <= KILLS
    assert {number for number in expected - found if number % 3 != 0} == set()
    assert {int(stored.name[1:]) for stored in copy.list()} == found
    for number in found:
        assert shared.arrays(f"v{number}")[1] == copy.packed(copy.find(f"v{number}"))[1] == arrays(number)
    monkeypatch.setattr(sharing, "ABANDONED_S", -60.0)
    shared.tidy()
    assert len(opened(address).list("arrays/")) == len(found)
    copy.close()


def watch(address: Address, folder: Path, parent: int) -> NoReturn:
    """Being another machine until all is done: copies, and reads what was copied, as a service does."""
    status = 1
    try:
        copy = Copy(folder / "copy", str(address))
        mirror, reader = Mirror(SharedVoices(opened(address)), copy), Shelf(folder / "copy")
        while not (folder / "done").exists() and os.getppid() == parent:
            mirror.look()
            for stored in reader.list()[-20:]:
                # Raises for what is torn.
                reader.packed(stored)
        status = 0
    except BaseException:
        (folder / "wrong").write_text(traceback.format_exc())
    os._exit(status)


@pytest.fixture
def mounts(server: bucket.Server, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """One file system, mounted twice, as on two machines."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("needs /dev/fuse, and the right to mount")
    base = tmp_path / f"fuse-{os.getpid()}"
    with bucket.mounted(server, base / "one"), bucket.mounted(server, base / "two"):
        yield base / "one", base / "two"


def test_two_mounts_of_one_file_system_share_voices(mounts: tuple[Path, Path], tmp_path: Path) -> None:
    """A file system in userspace, whose clients remember names each on its own, as those of NFS do."""
    here, there = (SharedVoices(opened_at(folder)) for folder in mounts)
    here.add(*voice("zoe"))
    soon(lambda: there.last_change()[0] != "")
    copy = Copy(tmp_path / "copy", "file:///there")
    mirror = Mirror(there, copy)

    def seen() -> list[StoredVoice]:
        mirror.look()
        return copy.list()

    for number in range(8):
        stored, packed = voice("ann", data=arrays(number))
        here.add(stored, packed, replace_it=True)
        soon(lambda stored=stored: stored in seen())  # type: ignore[misc]
        assert copy.packed(copy.find("ann"))[1] == packed
    here.remove("ann")
    soon(lambda: [each.name for each in seen()] == ["zoe"])
    with pytest.raises(StoreError, match="is no folder"):
        opened_at(mounts[0] / "none")


def opened_at(folder: Path) -> Bucket:
    return opened(Address("file", "", str(folder)))
