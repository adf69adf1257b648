"""The other side of the calls: python -m bench.rtp.callers ADDRESS CALLS CODEC

Opens the calls and prints their names as a line of JSON; sends silence every 20 ms, as a telephone does, and notes what
comes until standard input is closed; then prints what it found. When a packet came is told by the kernel.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import threading
import time
import urllib.request
from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oscine_service.telephony.rtp.codecs import CODECS, Codec
from oscine_service.telephony.rtp.packet import is_rtcp, write
from oscine_service.telephony.rtp.sdp import parse

HOST = "127.0.0.1"
TYPES = {"PCMU": 0, "PCMA": 8, "opus": 111}
SO_TIMESTAMPNS = 35
_HEAD = struct.Struct("!BBHII")
_TIME = struct.Struct("qq")
ROOM = 1 << 20
"""Bytes that a socket may hold: a caller that is late is not to lose packets."""


@dataclass
class Caller:
    """came, sequences, timestamps, silent: of each packet, when by the wall clock in ns, its numbers, and whether it is
    silence. reports: that came."""

    socket: socket.socket
    silence: bytes
    came: array[int] = field(default_factory=lambda: array("q"))
    sequences: array[int] = field(default_factory=lambda: array("l"))
    timestamps: array[int] = field(default_factory=lambda: array("q"))
    silent: bytearray = field(default_factory=bytearray)
    reports: int = 0

    def take(self) -> None:
        """All that waits."""
        while True:
            try:
                data, told, _, _ = self.socket.recvmsg(2048, 64)
            except BlockingIOError:
                return
            if is_rtcp(data):
                self.reports += 1
                continue
            seconds, rest = _TIME.unpack_from(told[0][2])
            _, _, sequence, timestamp, _ = _HEAD.unpack_from(data)
            self.came.append(seconds * 1_000_000_000 + rest)
            self.sequences.append(sequence)
            self.timestamps.append(timestamp)
            self.silent.append(data[12:] == self.silence)


def open_call(address: str, codec: Codec, number: int) -> tuple[Caller, str]:
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
    taken.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    taken.bind((HOST, 0))
    taken.setblocking(False)
    kind = TYPES[codec.name]
    named = f"{codec.name}/{codec.clock_rate}" + (f"/{codec.channels}" if codec.channels > 1 else "")
    offer = (
        f"v=0\r\no=- 1 1 IN IP4 {HOST}\r\ns=-\r\nc=IN IP4 {HOST}\r\nt=0 0\r\n"
        f"m=audio {taken.getsockname()[1]} RTP/AVP {kind}\r\na=rtpmap:{kind} {named}\r\na=rtcp-mux\r\n"
    )
    name = f"caller-{number}"
    body = json.dumps({"offer": offer, "id": name}).encode()
    request = urllib.request.Request(f"http://{address}/v1/calls", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        answer = parse(json.load(response)["answer"]).media[0]
    taken.connect((HOST, answer.port))
    return Caller(taken, codec.silence), name


class Clocks:
    """The wall clock beside the one that only goes forward, from time to time: a wall clock is put right."""

    def __init__(self) -> None:
        self._wall: list[int] = []
        self._ahead: list[int] = []
        self.look()

    def look(self) -> None:
        wall, steady = time.time_ns(), time.monotonic_ns()
        self._wall.append(wall)
        self._ahead.append(steady - wall)

    def steady(self, wall: NDArray[np.int64]) -> NDArray[np.float64]:
        begin = self._wall[0]
        ahead = np.interp(wall - begin, np.array(self._wall) - begin, np.array(self._ahead) - self._ahead[0])
        found: NDArray[np.float64] = (wall - begin) + ahead
        return found


def found(caller: Caller, codec: Codec, clocks: Clocks) -> dict[str, Any]:
    """Of one call. late_ms: of each packet, behind the grid that its earliest packets lie on."""
    came = clocks.steady(np.array(caller.came, np.int64))
    sequences, timestamps = np.array(caller.sequences, np.int64), np.array(caller.timestamps, np.int64)
    steps = np.diff(timestamps) % (1 << 32)
    places = np.concatenate(([0], np.cumsum(steps))) / codec.clock_rate * 1e9
    off = (came - places) / 1e6
    tenth = max(1, len(off) // 10)
    spoken = np.flatnonzero(~np.array(caller.silent, bool))
    between = np.array(caller.silent, bool)[spoken[0] : spoken[-1] + 1] if spoken.size else np.zeros(0)
    return {
        "late_ms": (off - np.percentile(off, 1)).tolist(),
        "drift_ms": float(np.median(off[-tenth:]) - np.median(off[:tenth])),
        "packets": len(off),
        "out_of_sequence": int((np.diff(sequences) % (1 << 16) != 1).sum()),
        "off_the_clock": int((steps != codec.step).sum()),
        "spoken": int(spoken.size),
        "holes": int(between.sum()),
        "reports": caller.reports,
    }


def main() -> None:
    address, count, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    codec = next(each for each in CODECS if each.name == name)
    over = threading.Event()
    opened = [open_call(address, codec, number) for number in range(count)]
    callers = {caller.socket.fileno(): caller for caller, _ in opened}
    print(json.dumps([name for _, name in opened]), flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    poll = select.epoll()
    for number in callers:
        poll.register(number, select.EPOLLIN)
    clocks, begun, turn = Clocks(), time.monotonic(), 0
    cpu = time.process_time()
    while not over.is_set():
        for number, _ in poll.poll(max(0.0, begun + turn * 0.02 - time.monotonic())):
            callers[number].take()
        if time.monotonic() >= begun + turn * 0.02:
            for each, caller in enumerate(callers.values()):
                caller.socket.send(write(TYPES[name], turn, turn * codec.step, each + 1, codec.silence))
            turn += 1
            if turn % 50 == 0:
                clocks.look()
    clocks.look()
    each = [found(caller, codec, clocks) for caller in callers.values()]
    print(json.dumps({"calls": each, "cpu_s": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
