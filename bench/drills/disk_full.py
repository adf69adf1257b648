"""The disk of the voice store, and of the log, runs full under running calls, and has room again later."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from bench.client import connect
from bench.drills.listener import Listener, breaks, playing, told
from bench.drills.outcome import Outcome
from bench.drills.store import MODEL_FLAGS, Keeper, listed, recorded, unspoken
from bench.served import served
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

DISK_MIB = 8
AGAIN_S = 30.0
BLOCK = 4096


@contextmanager
def small_disk(mib: int) -> Iterator[Path]:
    """A file system of so many MiB, in memory."""
    with tempfile.TemporaryDirectory(prefix="oscine-drill-") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> Path:
    """Take all that is free, to the last block."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        for block in (1 << 20, BLOCK, 1):
            try:
                while True:
                    file.write(bytes(block))
            except OSError:
                continue
    return filler


async def drill(short: bool) -> Outcome:
    found = Outcome()
    with small_disk(DISK_MIB) as disk:
        flags = (*MODEL_FLAGS, "--voices", str(disk / "voices"))
        with served(*flags, log=disk / "log") as unit:
            async with connect(unit.grpc) as channel:
                keeper = await _running_full(found, channel, disk, 4 if short else 8)
            fill(disk)
            os.kill(unit.pid, signal.SIGKILL)
        # Started on a disk that is full: what is there is spoken.
        with served(*flags, log=disk / "log") as unit:
            async with connect(unit.grpc) as channel:
                found.keep(set(keeper.kept) <= await listed(channel), "started on a full disk, it lists too few voices")
                found.lost += await unspoken(channel, keeper.kept[:1])
                (disk / "filler").unlink()
                freed = time.monotonic()
                await keeper.make(channel, "after")
                found.recovered(time.monotonic() - freed, AGAIN_S)
                found.keep(set(keeper.kept) == await listed(channel), "voices are there that nobody was told of")
                gone, mute = set(keeper.kept) - await listed(channel), await unspoken(channel, keeper.kept)
                found.lost += [f"{name} is gone" for name in gone] + mute
    found.happened.append(
        f"killed and started again on the full disk it spoke in what it had; with room again a voice was made in "
        f"{found.recovered_s:.1f} s; {len(keeper.kept)} voices acknowledged, {len(gone) + len(mute)} lost"
    )
    return found


async def _running_full(found: Outcome, channel: grpc.aio.Channel, disk: Path, sentences: int) -> Keeper:
    keeper = await recorded(channel)
    stub = SpeechServiceStub(channel)
    await keeper.make(channel, "before")
    async with playing([Listener(stub, sentences, voice="before", seed=seed) for seed in range(2)]) as calls:
        fill(disk)
        full = time.monotonic()
        refusals = []
        for number in range(3):
            try:
                await keeper.make(channel, f"full-{number}")
            except grpc.aio.AioRpcError as error:
                refusals.append(f"{error.code().name}: {error.details()}")
        # The log cannot be written either; calls leave lines in it.
        new = await Listener(stub, voice="before", seed=7).hear()
        for each in calls:
            await each.hear()
        still = breaks(calls, full)
    found.keep(len(refusals) == 3, "a voice was acknowledged that had no room on the disk")
    found.keep(all("full" in each for each in refusals), f"a refusal does not say that the disk is full: {refusals}")
    found.keep(all(each.complete for each in calls), "a running call did not come whole")
    found.keep(new.complete, f"a new call on a full disk ended with {new.status}: {new.details}")
    found.playing("a running call", still)
    (disk / "filler").unlink()
    freed = time.monotonic()
    await keeper.make(channel, "room")
    again_s = time.monotonic() - freed
    found.in_time("the first voice with room again", again_s, AGAIN_S)
    found.happened.append(
        f"store and log full: {len(refusals)} of 3 recordings refused ({refusals[0] if refusals else 'none'}); of "
        f"running calls {told(calls, full)}; a new one ended with {new.status}; with room again a voice was made in "
        f"{again_s:.1f} s by the same service"
    )
    found.figures |= {"refusals": refusals, "again_s": round(again_s, 2), "breaks_s": still}
    return keeper
