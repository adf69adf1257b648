"""When a machine looks at what is shared, and what it says of it."""

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from oscine_engine.errors import StoreError
from oscine_service.storage.bucket import Listed
from oscine_service.storage.copy import Copy
from oscine_service.storage.folder import Folder
from oscine_service.storage.reports import Report
from oscine_service.storage.shared import SharedVoices
from oscine_service.storage.watch import Watch
from tests.service.storage.voices import soon, voice

LONG_S = 20.0


class Large(Folder):
    """A folder whose list takes as long as somebody wants."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.place = path
        self.reading, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.broken = False

    def list(self, prefix: str) -> Mapping[str, Listed]:
        if self.broken:
            raise StoreError("no list today")
        self.reading.set()
        assert self.go_on.wait(LONG_S)
        return super().list(prefix)


@pytest.fixture
def large(tmp_path: Path) -> Large:
    (tmp_path / "shared").mkdir()
    return Large(tmp_path / "shared")


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path / "copy", "file:///shared")


def names(copy: Copy) -> list[str]:
    return [each.name for each in copy.list()]


def test_changes_are_seen_while_a_look_through_all_goes_on(large: Large, copy: Copy) -> None:
    shared = SharedVoices(Folder(large.place))
    shared.add(*voice("ann"))
    watch = Watch(SharedVoices(large), copy)
    assert watch.once() == Report(1)  # the first look is waited for
    large.go_on.clear()
    large.reading.clear()
    shared.add(*voice("bob"))
    assert watch.once() == Report(2) and large.reading.wait(LONG_S)
    shared.remove("ann")
    assert watch.once() == Report(1) and names(copy) == ["bob"]
    shared.add(*voice("cid"))
    shared.add(*voice("dan"))  # its sign is the one that is found
    assert watch.once() == Report(2) and names(copy) == ["bob", "dan"]
    large.go_on.set()
    soon(lambda: watch.once() == Report(3))
    assert names(copy) == ["bob", "cid", "dan"]


def test_a_look_that_fails_is_told_of_until_one_succeeds(large: Large, copy: Copy) -> None:
    shared = SharedVoices(Folder(large.place))
    shared.add(*voice("ann"))
    large.broken = True
    watch = Watch(SharedVoices(large), copy)
    assert watch.once() == Report(0, "no list today") == watch.once()
    large.broken = False
    soon(lambda: watch.once() == Report(1))
    large.broken = True
    shared.add(*voice("bob"))
    soon(lambda: watch.once() == Report(2, "no list today"))
    large.broken = False
    soon(lambda: watch.once() == Report(2))
