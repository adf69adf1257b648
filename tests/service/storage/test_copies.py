"""A machine's copy of shared voices: brought up to date, and never made to show what its own machine has undone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oscine_engine.errors import StoreError, UnknownVoice
from oscine_engine.voices.shelf import Shelf
from oscine_service.storage.address import Address
from oscine_service.storage.bucket import Bucket, Found
from oscine_service.storage.copy import Copy
from oscine_service.storage.folder import Folder
from oscine_service.storage.mirror import Looked, Mirror
from oscine_service.storage.shared import SharedVoices
from tests.service.storage.voices import voice


class Slow(Folder):
    """A folder in which something happens while it is being read: once, after the record of "ann" was read."""

    meanwhile: Callable[[], object] | None = None

    def read(self, key: str) -> Found | None:
        found = super().read(key)
        if key == "voices/=/ann.json" and (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            meanwhile()
        return found


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "arrays").iterdir())


def test_a_copy_follows_its_source(held: Bucket, tmp_path: Path) -> None:
    shared, copy = SharedVoices(held), Copy(tmp_path / "copy", "s3://here")
    mirror = Mirror(shared, copy)
    assert not copy.complete
    shared.add(*voice("ann"))
    shared.add(*voice("ann", "ann", b"her own", "a secret"))
    shared.add(*voice("bob"))
    assert mirror.look() == Looked(3, 0) and mirror.look() == Looked(0, 0)
    assert copy.complete
    assert [copy.packed(each) for each in copy.list("ann")] == [
        (shared.find("ann", "ann"), b"her own"),
        (shared.find("bob"), voice("bob")[1]),
    ]
    shared.add(*voice("bob", data=b"another"), replace_it=True)
    shared.remove("ann", "ann")
    assert mirror.look() == Looked(2, 0)
    assert copy.packed(copy.find("bob")) == (shared.find("bob"), b"another")
    assert copy.find("ann", "ann").owner == ""
    assert files(tmp_path / "copy") == sorted(f"{each.digest}.safetensors" for each in copy.list())
    copy.close()
    # What is deleted for everybody is not left on any disk.
    on_disk = b"".join(path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file())
    assert b"a secret" not in on_disk and b"her own" not in on_disk


def test_what_this_machine_has_changed_meanwhile_is_not_undone(tmp_path: Path) -> None:
    """The mirror has read a record; before it writes it down, the same machine deletes the voice, or replaces it."""
    (tmp_path / "shared").mkdir()
    held = Slow(tmp_path / "shared")
    shared, copy = SharedVoices(held), Copy(tmp_path / "copy", "file:///x")
    here = Copy(tmp_path / "copy", "file:///x")
    mirror = Mirror(shared, copy)

    def deleted() -> None:
        shared.remove("ann")
        here.drop("", "ann", fetched_at=None)

    def replaced() -> None:
        new = voice("ann", data=b"new")
        here.take(*new, shared.add(*new, replace_it=True), fetched_at=None)

    shared.add(*voice("ann"))
    held.meanwhile = deleted
    mirror.look()
    with pytest.raises(UnknownVoice):
        copy.find("ann")
    shared.add(*voice("ann"))
    held.meanwhile = replaced
    mirror.look()
    assert copy.packed(copy.find("ann"))[1] == b"new"
    assert mirror.look() == Looked(0, 0)


def test_a_voice_that_is_replaced_while_it_is_fetched_is_fetched_again(tmp_path: Path) -> None:
    """By another machine, which deletes the arrays that the record read before names."""
    (tmp_path / "shared").mkdir()
    held = Slow(tmp_path / "shared")
    shared, copy = SharedVoices(held), Copy(tmp_path / "copy", "file:///x")
    shared.add(*voice("ann"))
    held.meanwhile = lambda: shared.add(*voice("ann", data=b"new"), replace_it=True)
    assert Mirror(shared, copy).look() == Looked(1, 0)
    assert copy.packed(copy.find("ann"))[1] == b"new"


def test_one_bad_voice_keeps_no_other_one_from_being_copied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "shared").mkdir()
    shared, copy = SharedVoices(Folder(tmp_path / "shared")), Copy(tmp_path / "copy", "file:///x")
    for name in ("ann", "bob", "cat"):
        shared.add(*voice(name))
    (tmp_path / "shared" / "voices" / "=" / "ann.json").write_text("{")
    next((tmp_path / "shared" / "arrays" / "=").glob("bob.*")).unlink()
    mirror = Mirror(shared, copy)
    assert mirror.look() == Looked(1, 2)
    assert [each.name for each in copy.list()] == ["cat"] and copy.complete
    assert "'ann' is damaged" in caplog.text and "'bob' changes all the time, or its arrays are gone" in caplog.text
    # Told once, and mended once it can be.
    told = len(caplog.records)
    assert mirror.look() == Looked(0, 2) and len(caplog.records) == told == 2 == mirror.failing
    shared.add(*voice("ann"), replace_it=True)
    assert mirror.look() == Looked(1, 1) and len(copy.list()) == 2 and mirror.failing == 1
    shared.remove("bob")
    assert mirror.look() == Looked(0, 0) and mirror.failing == 0


def test_a_store_that_is_gone_is_not_taken_for_one_without_voices(tmp_path: Path) -> None:
    """A file system that is not mounted any more: its folder is there, with nothing in it."""
    (tmp_path / "shared").mkdir()
    shared, copy = SharedVoices(Folder(tmp_path / "shared")), Copy(tmp_path / "copy", "file:///x")
    shared.add(*voice("ann"))
    Mirror(shared, copy).look()
    (tmp_path / "shared").rename(tmp_path / "gone")
    (tmp_path / "shared").mkdir()
    with pytest.raises(StoreError, match="is empty, though 1 of its voices"):
        Mirror(shared, copy).look()
    assert [each.name for each in copy.list()] == ["ann"]
    (tmp_path / "shared").rmdir()
    with pytest.raises(StoreError, match="is no folder"):
        shared.add(*voice("bob"))
    (tmp_path / "gone").rename(tmp_path / "shared")
    shared.remove("ann")
    assert Mirror(shared, copy).look() == Looked(1, 0) and copy.list() == []


def test_arrays_that_were_torn_are_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    shared, copy = SharedVoices(Folder(tmp_path / "shared")), Copy(tmp_path / "copy", "file:///x")
    for name in ("ann", "bob"):
        shared.add(*voice(name))
    Mirror(shared, copy).look()
    torn = tmp_path / "copy" / "arrays" / f"{copy.find('ann').digest}.safetensors"
    torn.write_bytes(torn.read_bytes()[:3])
    assert copy.check() == 1 and copy.check() == 1
    assert Mirror(shared, copy).look() == Looked(1, 0)
    assert copy.packed(copy.find("ann"))[1] == voice("ann")[1] and copy.check() == 0


def test_a_folder_is_a_copy_of_one_source_or_has_voices_of_its_own(tmp_path: Path) -> None:
    Shelf(tmp_path / "own").put(*voice("ann"))
    with pytest.raises(StoreError, match=r"voices of its own.*--voices-copy"):
        Copy(tmp_path / "own", "s3://a")
    assert [each.name for each in Shelf(tmp_path / "own").list()] == ["ann"]
    Shelf(tmp_path / "own").remove("ann")
    Copy(tmp_path / "copy", "s3://a").close()
    with pytest.raises(StoreError, match="is a copy of s3://a and not of s3://b"):
        Copy(tmp_path / "copy", "s3://b")
    # What is done to a copy alone would be undone.
    for change in (lambda shelf: shelf.put(*voice("bob")), lambda shelf: shelf.remove("bob")):
        with pytest.raises(StoreError, match="only a copy of s3://a: name that"):
            change(Shelf(tmp_path / "copy"))
    assert str(Address("s3", "a", "")) == "s3://a"
