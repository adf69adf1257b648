"""How much memory there is for this process and those beside it, as the kernel counts it. Linux; nothing elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_GROUPS = Path("/sys/fs/cgroup")
_PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. used: what cannot be had back without ending something; files that are only cached are not in it."""

    used: int
    limit: int

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)


def tightest(processes: Path = _PROCESSES, groups: Path = _GROUPS) -> Memory | None:
    """Of the machine and each control group around this process that has a limit, the one with the least left; None
    where the kernel does not say."""
    found = [*_machine(processes), *_limited(processes, groups)]
    return min(found, key=lambda each: each.free, default=None)


def resident(pid: int | None, processes: Path = _PROCESSES) -> int | None:
    """Bytes of a process that lie in memory; None for one that is gone."""
    if pid is None:
        return None
    try:
        fields = _named(processes / str(pid) / "status", ":")
        return int(fields["VmRSS"].split()[0]) << 10
    except (OSError, KeyError):  # a process that has ended has no memory, and then no folder
        return None


def _machine(processes: Path) -> Iterator[Memory]:
    try:
        lines = _named(processes / "meminfo", ":")
        total, available = (int(lines[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError):
        return
    yield Memory(total - available, total)


def _limited(processes: Path, groups: Path) -> Iterator[Memory]:
    """Version 2 of control groups first, then version 1, where a machine still has that."""
    try:
        lines = (processes / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from _upwards(groups, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _upwards(groups / "memory", path, *names)


def _upwards(root: Path, path: str, limit: str, used: str, cached: str) -> Iterator[Memory]:
    """Of a group and all that it is in, up to what this process sees as the root."""
    # In a container the path may be that of the host, which is not there: then the root is the container's own.
    inner = PurePosixPath(path.lstrip("/"))
    for part in (inner, *inner.parents):
        if ".." in part.parts:
            continue
        group = root / part
        try:
            most, taken = (group / limit).read_text().strip(), int((group / used).read_text())
            statistics = _named(group / "memory.stat", " ")
        except OSError:
            continue
        # Version 1 says "no limit" as a number that no machine has.
        if most != "max" and int(most) < 1 << 60:
            yield Memory(max(0, taken - int(statistics.get(cached, 0))), int(most))


def _named(path: Path, between: str) -> dict[str, str]:
    """Lines of a name and a value."""
    return dict(line.split(between, 1) for line in path.read_text().splitlines() if between in line)
