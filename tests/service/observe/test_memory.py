"""Memory as the kernel tells it, of a machine that a test lays out, and of this one."""

import os
from pathlib import Path

import pytest

from oscine_service.observe import memory
from oscine_service.observe.memory import Memory, resident, tightest

GIB = 1 << 30


def lay(root: Path, **files: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)


@pytest.fixture
def processes(tmp_path: Path) -> Path:
    proc = tmp_path / "proc"
    lay(proc, meminfo=f"MemTotal: {16 << 20} kB\nMemFree: 1 kB\nMemAvailable: {6 << 20} kB\n")
    (proc / "self").mkdir()
    return proc


def test_a_machine_without_groups(processes: Path, tmp_path: Path) -> None:
    assert tightest(processes, tmp_path / "none") == Memory(used=10 * GIB, limit=16 * GIB)
    (processes / "meminfo").unlink()
    assert tightest(processes, tmp_path / "none") is None


@pytest.mark.parametrize(("limit", "free"), [(str(4 * GIB), 2 * GIB), ("max", 6 * GIB), (str(32 * GIB), 6 * GIB)])
def test_a_unit_of_systemd(processes: Path, tmp_path: Path, limit: str, free: int) -> None:
    (processes / "self/cgroup").write_text("0::/system.slice/oscine.service\n")
    used = str(3 * GIB)
    statistics = f"anon 1\ninactive_file {GIB}\n"
    lay(tmp_path / "cg", cgroup__controllers="memory\n")  # the root has no limit, and no file for it
    lay(tmp_path / "cg/system.slice", memory__max="max\n", memory__current=used, memory__stat=statistics)
    lay(tmp_path / "cg/system.slice/oscine.service", memory__max=limit, memory__current=used, memory__stat=statistics)
    found = tightest(processes, tmp_path / "cg")
    assert found is not None and found.free == free


def test_a_container_that_sees_its_own_root(processes: Path, tmp_path: Path) -> None:
    (processes / "self/cgroup").write_text("0::/../../kubepods/pod1\n")
    lay(tmp_path / "cg", memory__max=str(GIB), memory__current=str(GIB), memory__stat="inactive_file 0\n")
    assert tightest(processes, tmp_path / "cg") == Memory(GIB, GIB)


def test_groups_of_the_first_version(processes: Path, tmp_path: Path) -> None:
    (processes / "self/cgroup").write_text("5:cpu,cpuacct:/a\n4:memory:/outer/inner\n0::/\n")
    group = tmp_path / "cg/memory/outer"
    lay(
        group,
        memory__limit_in_bytes=str(2 * GIB),
        memory__usage_in_bytes=str(GIB),
        memory__stat="total_inactive_file 5",
    )
    unlimited = {"memory__limit_in_bytes": "9223372036854771712", "memory__usage_in_bytes": "7", "memory__stat": ""}
    lay(group / "inner", **unlimited)
    assert tightest(processes, tmp_path / "cg") == Memory(GIB - 5, 2 * GIB)


def test_this_machine_and_this_process() -> None:
    found = memory.tightest()
    assert found is not None and 0 < found.used <= found.limit
    held = resident(os.getpid())
    assert held is not None and 1 << 20 < held < found.limit
    assert resident(None) is None
    assert resident(2**22 + 1) is None  # no process has such a number
