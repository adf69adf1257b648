"""A disk that takes seconds for each write, under the voice store and the log."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc

from bench.client import connect
from bench.drills.listener import Listener, breaks, playing, told
from bench.drills.outcome import Outcome, Skipped
from bench.drills.store import MODEL_FLAGS, listed, recorded, unspoken
from bench.served import served
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub

DISK_MIB = 64
WRITES_A_SECOND = 5
SLOWED_S = 2.0
"""A first sound may take so much longer than before."""
CONTROL = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device")
"""Of the root group: the kernel's own threads write most of it, and belong to no other."""


class SlowDisk:
    """An ext4 on a loop device. folder: where it is mounted."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder = folder
        self._number = (Path("/sys/block") / Path(device).name / "dev").read_text().strip()

    def slow(self, writes_a_second: int) -> None:
        """0 lifts the limit."""
        CONTROL.write_text(f"{self._number} {writes_a_second}")


@contextmanager
def disk(mib: int) -> Iterator[SlowDisk]:
    """Raises Skipped where the kernel cannot slow a device down."""
    if not CONTROL.exists():
        raise Skipped(f"no {CONTROL}: a kernel with cgroup v1's blkio.throttle at the root is needed")
    with tempfile.TemporaryDirectory(prefix="oscine-drill-") as folder, ExitStack() as undo:
        image, mounted = Path(folder) / "image", Path(folder) / "disk"
        mounted.mkdir()
        with image.open("wb") as file:
            file.truncate(mib << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
        made = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
        if made.returncode:
            raise Skipped(f"no loop device can be had: {made.stderr.strip()}")
        device = made.stdout.strip()
        try:
            subprocess.run(["mount", device, str(mounted)], check=True)
            undo.callback(subprocess.run, ["umount", "--lazy", str(mounted)], check=True)
        finally:
            # Takes effect when it is no longer mounted, even where nobody is left to say so.
            subprocess.run(["losetup", "--detach", device], check=True)
        slow = SlowDisk(mounted, device)
        undo.callback(slow.slow, 0)
        yield slow


async def drill(short: bool) -> Outcome:
    found = Outcome()
    with disk(DISK_MIB) as under:
        flags = (*MODEL_FLAGS, "--voices", str(under.folder / "voices"))
        with served(*flags, log=under.folder / "log") as unit:
            async with connect(unit.grpc) as channel:
                await _slowed(found, channel, under, 4 if short else 8)
            under.slow(0)
    return found


async def _slowed(found: Outcome, channel: grpc.aio.Channel, under: SlowDisk, sentences: int) -> None:
    stub = SpeechServiceStub(channel)
    keeper = await recorded(channel)
    await keeper.make(channel, "first")
    quick_s = await _made(keeper.make(channel, "quick"))
    before = await Listener(stub, voice="quick", seed=3).hear()
    async with playing([Listener(stub, sentences, voice="first", seed=1)]) as calls:
        under.slow(WRITES_A_SECOND)
        slowed = time.monotonic()
        slow_s = [await _made(keeper.make(channel, f"slow-{number}")) for number in range(2)]
        during = await Listener(stub, voice="quick", seed=3).hear()
        for each in calls:
            await each.hear()
        still = breaks(calls, slowed)
    under.slow(0)
    freed = time.monotonic()
    await keeper.make(channel, "after")
    found.recovered(time.monotonic() - freed, 30.0)
    gone, mute = set(keeper.kept) - await listed(channel), await unspoken(channel, keeper.kept)
    found.lost += [f"{name} is gone" for name in gone] + mute
    found.keep(all(each.complete for each in calls), "a running call did not come whole")
    found.keep(during.complete, f"a new call ended with {during.status}: {during.details}")
    found.playing("a running call", still)
    found.in_time("the first sound of a new call", during.first_s, before.first_s + SLOWED_S)
    found.happened.append(
        f"{WRITES_A_SECOND} writes a second: a voice was acknowledged after {max(slow_s):.1f} s instead of "
        f"{quick_s:.1f}; of running calls {told(calls, slowed)}; a new one sounded after {during.first_s:.2f} s "
        f"(before: {before.first_s:.2f}); {len(keeper.kept)} voices acknowledged, {len(gone) + len(mute)} lost"
    )
    found.figures |= {"make_s": [round(quick_s, 2), *(round(each, 2) for each in slow_s)], "breaks_s": still}


async def _made(making: Awaitable[None]) -> float:
    began = time.monotonic()
    await making
    return time.monotonic() - began
