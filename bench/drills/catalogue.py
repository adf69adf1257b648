"""Which drills there are, what was promised for each, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drill:
    """name: of the module that has its `drill`. limit_s: it is ended after so long, whatever it waits for. root: only
    root can carry it out."""

    name: str
    title: str
    promise: str
    limit_s: float
    root: bool = False


DRILLS = (
    Drill(
        "engine_killed",
        "Engine killed",
        "its calls end with UNAVAILABLE and a hint, those of other engines play on, new ones find another engine "
        "within 5 s; alone it is back within 60 s",
        540,
    ),
    Drill(
        "service_killed",
        "Service killed",
        "callers are told within 1 s, no process is left behind, started again it speaks within 60 s, every "
        "acknowledged voice is there and whole",
        540,
    ),
    Drill(
        "disk_full",
        "Disk of store and log full",
        "calls go on and new ones are taken, also after a restart; a voice that has no room is refused in words; with "
        "room again all works without a restart; no acknowledged voice is lost",
        540,
        root=True,
    ),
    Drill(
        "slow_disk",
        "Slow disk under store and log",
        "calls play on, new ones sound within 2 s of their usual time; voices are acknowledged late, and only when "
        "they are kept",
        540,
        root=True,
    ),
    Drill(
        "clock_jump",
        "Clock jumps a day ahead, two back",
        "calls play on, no engine is taken for dead, new calls are taken; tokens expire by the clock there is",
        540,
    ),
    Drill(
        "overload",
        "Five times the load for two minutes",
        "whoever is admitted hears all without a break; the others are refused within 2 s and told when to come; "
        "memory stays; 5 s later all is as before",
        540,
    ),
    Drill(
        "flood",
        "Flood of clients without a key",
        "nobody is let in; calls with a key play on and new ones sound within 3 s; memory grows by 64 MiB at most; "
        "connections are given back",
        540,
    ),
    Drill(
        "bad_network",
        "Late and lost packets, a dead line",
        "calls come whole and play on, first sounds within 5 s; after 2 s of a dead line they go on where they stopped",
        540,
        root=True,
    ),
)
