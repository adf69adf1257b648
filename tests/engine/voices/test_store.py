import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from oscine_engine.errors import InvalidInput, StoreError, UnknownVoice
from oscine_engine.voices.prompt import VoicePrompt
from oscine_engine.voices.store import VoiceStore


def voice(name: str, seed: int = 0, tokens: int = 20) -> VoicePrompt:
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 2000, (tokens,), generator=random, dtype=torch.int32)
    mel = torch.randn(2 * tokens, 80, generator=random)
    return VoicePrompt(name, "en", "a test", "<|endofprompt|>", "hello", ids, ids.clone(), mel, torch.ones(192))


def same(one: VoicePrompt, other: VoicePrompt) -> bool:
    arrays = ("lm_speech_tokens", "flow_speech_tokens", "mel", "embedding")
    words = ("name", "language", "description", "prompt_text", "transcript")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in arrays) and all(
        getattr(one, name) == getattr(other, name) for name in words
    )


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "arrays").iterdir())


def test_a_voice_is_there_again_after_a_restart(tmp_path: Path) -> None:
    stored = VoiceStore(tmp_path).add(voice("ann"))
    store = VoiceStore(tmp_path)
    assert same(store.get("ann"), voice("ann"))
    assert store.list() == [stored]
    assert stored.seconds == 0.8
    assert files(tmp_path) == [f"{stored.digest}.safetensors"]


def test_a_voice_whose_models_have_the_very_same_ids_is_kept(tmp_path: Path) -> None:
    """As in files that CosyVoice wrote, whose tensors share memory."""
    shared = replace(voice("ann"), lm_speech_tokens=voice("ann").flow_speech_tokens)
    shared = replace(shared, flow_speech_tokens=shared.lm_speech_tokens)
    VoiceStore(tmp_path).add(shared)
    assert same(VoiceStore(tmp_path).get("ann"), shared)


def test_a_name_is_given_once_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    store.add(voice("ann"))
    with pytest.raises(InvalidInput, match="already"):
        store.add(voice("ann", seed=1))
    assert same(store.get("ann"), voice("ann"))
    store.add(voice("ann", seed=1), replace_it=True)
    assert same(store.get("ann"), voice("ann", seed=1))
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b", "x" * 65, "ä", "a\n"])
def test_names_that_are_none_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be called"):
        VoiceStore(tmp_path).add(voice(name))


def test_owners_see_their_own_and_everybodys(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    store.add(voice("ann", seed=1))
    store.add(voice("ann", seed=2), owner="acme")
    store.add(voice("bob", seed=3), owner="acme")
    store.add(voice("cat", seed=4), owner="other")
    assert [(v.owner, v.name) for v in store.list("acme")] == [("acme", "ann"), ("acme", "bob")]
    assert [(v.owner, v.name) for v in store.list()] == [("", "ann")]
    assert same(store.get("ann", "acme"), voice("ann", seed=2))
    assert same(store.get("ann", "other"), voice("ann", seed=1))
    for name, owner in (("bob", "other"), ("bob", ""), ("cat", "acme")):
        with pytest.raises(UnknownVoice):
            store.get(name, owner)
    with pytest.raises(UnknownVoice):
        store.remove("ann", "other")


def test_removing_deletes_the_arrays_once_nobody_has_them(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    one = replace(voice("one"), transcript="a secret nobody should find")
    store.add(one)
    store.add(replace(voice("two"), description="the same sound"))
    assert len(files(tmp_path)) == 1
    store.remove("one")
    assert same(store.get("two"), replace(voice("two"), description="the same sound"))
    store.remove("two")
    assert files(tmp_path) == []
    with pytest.raises(UnknownVoice):
        store.get("two")
    store.close()
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert b"a secret" not in left


def test_what_another_process_does_is_seen_at_once(tmp_path: Path) -> None:
    reader, writer = VoiceStore(tmp_path), VoiceStore(tmp_path)
    writer.add(voice("ann"))
    assert same(reader.get("ann"), voice("ann"))
    writer.add(voice("ann", seed=5), replace_it=True)
    assert same(reader.get("ann"), voice("ann", seed=5))
    writer.remove("ann")
    with pytest.raises(UnknownVoice):
        reader.get("ann")


def test_damage_is_told_and_never_served(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path, cached_bytes=0)
    path = tmp_path / "arrays" / f"{store.add(voice('ann')).digest}.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(StoreError, match="damaged"):
        VoiceStore(tmp_path).get("ann")
    path.unlink()
    with pytest.raises(StoreError, match="gone"):
        VoiceStore(tmp_path).get("ann")


def test_memory_is_bounded(tmp_path: Path) -> None:
    size = 4 * (20 + 20 + 40 * 80 + 192)
    store = VoiceStore(tmp_path, cached_bytes=3 * size)
    for seed in range(6):
        store.add(voice(f"v{seed}", seed))
    for seed in (0, 1, 2, 3, 4, 5, 0, 5):
        assert same(store.get(f"v{seed}"), voice(f"v{seed}", seed))
        assert store._cached_bytes == sum(size for _ in store._cached) <= 3 * size


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        VoiceStore(tmp_path / "file")
    (tmp_path / "blocked" / "voices.sqlite3").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"blocked.*must be able to write there"):
        VoiceStore(tmp_path / "blocked")
    with sqlite3.connect(tmp_path / "voices.sqlite3") as rows:
        rows.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="another version"):
        VoiceStore(tmp_path)


def test_a_full_disk_is_told_and_forgotten_once_there_is_room(tmp_path: Path) -> None:
    """SQLite undoes a change by itself where it has no room for it."""
    store = VoiceStore(tmp_path)
    store.add(voice("before"))
    (pages,) = store._rows.execute("PRAGMA page_count").fetchone()
    store._rows.execute(f"PRAGMA max_page_count = {pages}")
    wordy = replace(voice("wordy", 1), prompt_text="words " * 5000)
    for _ in range(2):
        with pytest.raises(StoreError, match="full; make room"):
            store.add(wordy)
    assert [each.name for each in store.list()] == ["before"]
    store._rows.execute(f"PRAGMA max_page_count = {pages + 100}")
    store.add(wordy)
    assert same(store.get("wordy"), wordy) and same(store.get("before"), voice("before"))


def test_many_threads_read_while_others_write(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path, cached_bytes=20_000)
    for seed in range(4):
        store.add(voice(f"v{seed}", seed))
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        other = VoiceStore(tmp_path, cached_bytes=20_000)
        while not done.is_set():
            for seed in range(4):
                try:
                    found = other.get(f"v{seed}")
                    if not any(same(found, voice(f"v{seed}", mark)) for mark in (seed, seed + 10)):
                        wrong.append(seed)
                except Exception as error:
                    wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(6):
        for seed in range(4):
            store.add(voice(f"v{seed}", seed + (10 if turn % 2 == 0 else 0)), replace_it=True)
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []


WRITER = """
import sys
from pathlib import Path
from oscine_engine.voices.store import VoiceStore
from tests.engine.voices.test_store import voice
store = VoiceStore(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 100000):
    store.add(voice(f"v{number}", number))
    print(number, flush=True)
    if number % 3 == 2:
        store.remove(f"v{number}")
        print(-number, flush=True)
"""


def killed(folder: Path, first: int, seconds: float) -> list[int]:
    """What a writer acknowledged before it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(first)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline())]
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in process.stdout.read().split()]
    process.wait()
    return acknowledged


def check_after_a_kill(folder: Path, told: list[int]) -> None:
    """All that was acknowledged is there and whole, and nothing else but what was under way."""
    store = VoiceStore(folder, cached_bytes=0)
    removed = {-number for number in told if number < 0}
    expected = {number for number in told if number >= 0} - removed
    found = {int(stored.name[1:]) for stored in store.list()}
    last = max(abs(number) for number in told)
    # The last one may be on its way out, and one more on its way in.
    assert expected - {last} <= found <= expected | {last, last + 1}
    assert not removed & found
    for number in random.Random(1).sample(sorted(found), min(40, len(found))):
        assert same(store.get(f"v{number}"), voice(f"v{number}", number))
    store.tidy()
    assert len(files(folder)) == len(found)


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    told = killed(tmp_path, 0, 0.05)
    check_after_a_kill(tmp_path, told)


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing_and_tear_nothing(tmp_path: Path) -> None:
    """Writers are forked, since a fresh interpreter takes a second; each is killed at a random moment of its writes."""
    draw = random.Random(7)
    told: list[int] = []
    store = VoiceStore(tmp_path)
    store.close()
    for round_ in range(200):
        reading, writing = os.pipe()
        first = 1 + max((abs(number) for number in told), default=-1)
        # A voice that was under way may be there without having been acknowledged.
        first += 1 if round_ else 0
        child = os.fork()
        if child == 0:
            os.close(reading)
            own = VoiceStore(tmp_path)
            for number in range(first, first + 1000):
                own.add(voice(f"v{number}", number))
                os.write(writing, f"{number}\n".encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            line = pipe.readline()
            time.sleep(draw.uniform(0.0, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            told += [int(number) for number in [line, *pipe.read().split()]]
    store = VoiceStore(tmp_path, cached_bytes=0)
    found = {int(stored.name[1:]) for stored in store.list()}
    assert set(told) <= found
    assert len(found - set(told)) <= 200
    for number in found:
        assert same(store.get(f"v{number}"), voice(f"v{number}", number))
    store.tidy()
    assert len(files(tmp_path)) == len(found)
