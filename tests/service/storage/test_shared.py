"""Voices in buckets of both kinds: names, owners, arrays, and what crashes leave behind."""

import os
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from oscine_engine.errors import InvalidInput, StoreError, UnknownVoice, VoiceExists
from oscine_service.storage import record as records
from oscine_service.storage.bucket import Bucket
from oscine_service.storage.folder import Folder
from oscine_service.storage.shared import ABANDONED_S, SharedVoices
from tests.service.storage.voices import voice


def keys(held: Bucket) -> list[str]:
    return sorted([*held.list("voices/"), *held.list("arrays/")])


def test_a_voice_is_kept_seen_by_its_owner_and_deleted(held: Bucket) -> None:
    shared = SharedVoices(held)
    everybodys, anns, bobs = voice("v"), voice("v", "ann/../b"), voice("w", "bob")
    for stored, packed in (everybodys, anns, bobs):
        shared.add(stored, packed)
    assert shared.list() == [everybodys[0]]
    assert shared.list("ann/../b") == [anns[0]] == [shared.find("v", "ann/../b")]
    assert shared.list("bob") == [everybodys[0], bobs[0]]
    assert shared.arrays("v", "bob") == everybodys
    with pytest.raises(UnknownVoice, match="w"):
        shared.find("w", "ann/../b")
    # Somebody else's is not deleted, nor everybody's by who only sees it.
    with pytest.raises(UnknownVoice):
        shared.remove("v", "bob")
    shared.remove("v", "ann/../b")
    assert shared.find("v", "ann/../b") == everybodys[0]
    assert len(keys(held)) == 4


def test_a_name_is_given_once_unless_it_is_to_be_replaced(held: Bucket) -> None:
    shared = SharedVoices(held)
    first, second = voice("ann", data=b"one"), voice("ann", data=b"two")
    shared.add(*first)
    before = shared.last_change()
    with pytest.raises(VoiceExists, match="already"):
        shared.add(*second)
    assert shared.last_change() == before and shared.arrays("ann") == first
    shared.add(*second, replace_it=True)
    assert shared.arrays("ann") == second
    assert shared.last_change() != before and shared.last_change()[1] == ("", "ann")
    assert len(keys(held)) == 2
    with pytest.raises(InvalidInput, match="cannot be called"):
        shared.add(*voice("../ann"))


def test_of_machines_that_give_one_name_at_once_one_does(held: Bucket) -> None:
    machines, start = [SharedVoices(held) for _ in range(5)], threading.Barrier(5)
    told: list[object] = []

    def add(number: int) -> None:
        one = voice("ann", data=f"{number}".encode())
        start.wait()
        try:
            machines[number].add(*one)
            told.append(one)
        except VoiceExists:
            told.append(None)

    writers = [threading.Thread(target=add, args=(number,)) for number in range(5)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    won = [each for each in told if each is not None]
    assert len(told) == 5 and won == [machines[0].arrays("ann")]
    assert len(keys(held)) == 2


def test_damage_is_told_and_never_given(tmp_path: Path) -> None:
    shared = SharedVoices(Folder(tmp_path))
    shared.add(*voice("ann"))
    (arrays,) = (path for path in tmp_path.rglob("*.safetensors"))
    arrays.write_bytes(b"other" + arrays.read_bytes()[5:])
    with pytest.raises(StoreError, match="damaged"):
        shared.arrays("ann")
    arrays.unlink()
    with pytest.raises(StoreError, match="gone; register"):
        shared.arrays("ann")
    shared.add(*voice("bob"))
    record = tmp_path / "voices" / "=" / "ann.json"
    whole = record.read_bytes()
    for data, says in [
        (whole[:-9], "damaged"),
        (whole.replace(b'"format": 1', b'"format": 2'), "another version"),
        (whole.replace(b'"seconds": 1.0', b'"seconds": "1"'), "damaged"),
        (whole.replace(b'"name": "ann"', b'"name": "bob"'), "damaged"),
        (whole.replace(b"arrays/=/", b"arrays/=bob/"), "damaged"),
        (b"[]", "damaged"),
        (b"[" * 100_000, "damaged"),
        (re.sub(rb'"digest": "', b'"digest": "../../../llm', whole), "no digest"),
        (re.sub(rb'"bytes": ', b'"bytes": 99999999999999999999', whole), "out of range"),
        (whole.replace(b'"seconds": 1.0', b'"seconds": NaN'), "damaged"),
        (whole.replace(b'"hello"', rb'"\ud800"'), "damaged"),
    ]:
        record.write_bytes(data)
        with pytest.raises(StoreError, match=says):
            shared.find("ann")
        assert [each.name for each in shared.list()] == ["bob"]
    # It can be replaced all the same, and deleted.
    shared.add(*voice("ann"), replace_it=True)
    assert shared.arrays("ann")[1] == voice("ann")[1]
    record.write_bytes(b"{")
    shared.remove("ann")
    assert [each.name for each in shared.list()] == ["bob"]


def test_what_is_no_voice_is_passed_over(tmp_path: Path) -> None:
    """What anybody may have put there who may write there; nothing of it keeps anybody waiting."""
    shared = SharedVoices(Folder(tmp_path))
    shared.add(*voice("ann"))
    for owner in (b"=%61", b"=\xff", b"=%ff"):
        folder = os.fsencode(tmp_path / "voices") + b"/" + owner
        os.mkdir(folder)
        with open(folder + b"/ann.json", "wb") as file:
            file.write((tmp_path / "voices/=/ann.json").read_bytes())
    os.mkfifo(tmp_path / "voices/=/bob.json")
    assert list(shared.listed()) == [("", "ann")]
    with pytest.raises(StoreError, match=r"no file; delete it"):
        shared.find("bob")
    assert [each.name for each in shared.list("a")] == ["ann"]


def test_arrays_that_a_crash_left_behind_go_after_an_hour_and_no_others(tmp_path: Path) -> None:
    held = Folder(tmp_path)
    shared = SharedVoices(held)
    shared.add(*voice("ann"))
    (kept,) = held.list("arrays/")
    left = [records.new(voice(name)[0]).arrays for name in ("ann", "bob", "cat")]
    for key in left:
        held.write(key, b"of nobody")
    for key in (kept, *left[:2]):
        seen = (tmp_path / key).stat().st_mtime - ABANDONED_S - 1
        os.utime(tmp_path / key, (seen, seen))
    assert shared.tidy() == 2
    # One may yet get its record.
    assert set(held.list("arrays/")) == {kept, left[2]}
    assert shared.arrays("ann")[1] == voice("ann")[1]


def test_what_a_record_holds_is_what_was_kept() -> None:
    stored, _ = voice("ann", "somebody", words="你好 “hello”\n")
    record = records.new(replace(stored, seconds=2.04))
    assert records.unpacked(records.packed(record), "somebody", "ann") == record
    assert records.id_of(records.key("a%2F/.b", "ann")) == ("a%2F/.b", "ann")
    assert records.id_of(record.arrays) == ("somebody", "ann")
    for key in ("changed", "voices/ann.json", "voices/=/../x.json", "voices/=/.x.json", "arrays/=/ann.safetensors"):
        assert records.id_of(key) is None
    with pytest.raises(StoreError, match="shorter"):
        records.key("长" * 40, "ann")
