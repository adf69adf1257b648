"""What kind of file system a folder is on. Linux; elsewhere nothing is known."""

import re
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_REMOTE = re.compile(r"nfs4?|cifs|smb3?|ceph|glusterfs|lustre|gpfs|beegfs|9p|virtiofs|afs|fuse\.(?!.*overlayfs).+")


@dataclass(frozen=True, slots=True)
class Mount:
    """options: as the kernel tells them, of the file system too."""

    point: Path
    kind: str
    options: frozenset[str]

    @property
    def remote(self) -> bool:
        """Whether other machines may write to it, as far as its kind tells."""
        return _REMOTE.fullmatch(self.kind) is not None


def of(folder: Path) -> Mount | None:
    """The mount that `folder`, or the nearest one above it that is there, is on."""
    try:
        table = _TABLE.read_text()
    except OSError:
        return None
    place = folder.resolve()
    above = [each for each in map(_read, table.splitlines()) if each is not None and place.is_relative_to(each.point)]
    # Of two at one point the later one is seen.
    return max(reversed(above), key=lambda each: len(each.point.parts), default=None)


def _read(line: str) -> Mount | None:
    """A line of proc_pid_mountinfo(5)."""
    before, dash, behind = line.partition(" - ")
    fields, rest = before.split(), behind.split()
    if not dash or len(fields) < 6 or len(rest) < 3:
        return None
    point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])
    return Mount(Path(point), rest[0], frozenset(f"{fields[5]},{rest[2]}".split(",")))
