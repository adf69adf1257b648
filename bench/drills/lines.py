"""Two network namespaces with a line between them that delays and loses packets. The near end is this process's own.

By `tc netem` on a pair of veth where the kernel has it; else by a relay of our own between two TUN devices. Both carry
whole packets between two TCPs of the kernel's.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

NEAR, FAR = "10.77.0.1", "10.77.0.2"
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_HOLD_S = 900


@dataclass(frozen=True, slots=True)
class Weather:
    """What the line does, each way. delay, jitter: seconds. loss: share of packets."""

    name: str
    delay: float
    jitter: float
    loss: float


class Line(Protocol):
    by: str

    def set(self, weather: Weather) -> dict[str, int]:
        """From now on; tells what was carried and dropped since the last time, as far as that is known."""
        ...


@dataclass(frozen=True, slots=True)
class Far:
    """The other end. inside: a command that runs the one behind it there."""

    inside: tuple[str, ...]
    line: Line


@contextmanager
def far_away(seed: int = 0) -> Iterator[Far]:
    """Needs to be root, and in a network namespace that may be changed."""
    with ExitStack() as undo:
        holder = subprocess.Popen(["unshare", "--net", "sleep", str(_HOLD_S)])
        undo.callback(holder.wait)
        undo.callback(holder.kill)
        inside = ("nsenter", "--target", str(holder.pid), "--net")
        while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            if holder.poll() is not None:
                raise OSError("no network namespace can be made here")
            time.sleep(0.01)
        _run("ip", "link", "add", "drill-near", "type", "veth", "peer", "name", "drill-far")
        if subprocess.run(_netem(("tc",), "add", "drill-near", Weather("", 0, 0, 0)), capture_output=True).returncode:
            _run("ip", "link", "delete", "drill-near")
            line: Line = undo.enter_context(_relayed(seed))
        else:
            line = _Netem(inside)
        _run("ip", "link", "set", "drill-far", "netns", str(holder.pid))
        for at, name, address in (((), "drill-near", NEAR), (inside, "drill-far", FAR)):
            _run(*at, "ip", "address", "add", f"{address}/24", "dev", name)
            _run(*at, "ip", "link", "set", name, "up")
            _run(*at, "ip", "link", "set", "lo", "up")
        if isinstance(line, _Netem):
            line.begin()
        yield Far(inside, line)


class _Netem:
    by = "tc netem"

    def __init__(self, inside: tuple[str, ...]) -> None:
        self._inside = inside

    def begin(self) -> None:
        """The near end has its discipline already."""
        subprocess.run(_netem((*self._inside, "tc"), "add", "drill-far", Weather("", 0, 0, 0)), check=True)

    def set(self, weather: Weather) -> dict[str, int]:
        subprocess.run(_netem(("tc",), "change", "drill-near", weather), check=True)
        subprocess.run(_netem((*self._inside, "tc"), "change", "drill-far", weather), check=True)
        return {}


def _netem(tc: tuple[str, ...], verb: str, device: str, weather: Weather) -> list[str]:
    delay, jitter = (f"{1000 * each:g}ms" for each in (weather.delay, weather.jitter))
    how = ["delay", delay, jitter, "loss", f"{100 * weather.loss:g}%"]
    return [*tc, "qdisc", verb, "dev", device, "root", "netem", *how]


class _Relay:
    by = "a relay between two TUN devices (the kernel has no netem)"

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def set(self, weather: Weather) -> dict[str, int]:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(weather.delay, weather.jitter, weather.loss, file=self._process.stdin, flush=True)
        counts: dict[str, int] = json.loads(self._process.stdout.readline())
        return counts


@contextmanager
def _relayed(seed: int) -> Iterator[_Relay]:
    ends = [_tun(name) for name in ("drill-near", "drill-far")]
    command = [sys.executable, "-m", "bench.drills.relay", str(seed), *map(str, ends)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, pass_fds=ends) as process:
        for end in ends:
            os.close(end)
        assert process.stdin is not None
        try:
            yield _Relay(process)
        finally:
            process.stdin.close()


def _tun(name: str) -> int:
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return end


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
