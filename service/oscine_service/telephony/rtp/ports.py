"""UDP ports of calls: pairs of them, an even one for RTP and the next for RTCP (RFC 3550, section 11)."""

import errno
import ipaddress
import socket
from dataclasses import dataclass

from oscine_engine.errors import InvalidInput, Overloaded

RETRY_S = 5.0
_TRIES = 100
"""To find a pair, where the system picks."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Bound sockets that do not block. rtcp: None where both share one port."""

    rtp: socket.socket
    rtcp: socket.socket | None

    @property
    def port(self) -> int:
        port: int = self.rtp.getsockname()[1]
        return port

    def close(self) -> None:
        self.rtp.close()
        if self.rtcp is not None:
            self.rtcp.close()


def check_files(error: OSError) -> None:
    """Raises Overloaded for what the system says to a process that has too many files open, sockets included."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise Overloaded("no file is free for another call: end one, or raise ulimit -n", RETRY_S) from error


def check_host(host: str) -> None:
    """Raises InvalidInput for what is not a literal address of this machine."""
    try:
        ipaddress.ip_address(host)
        _bound(host, 0).close()
    except (ValueError, OSError) as error:
        raise InvalidInput(
            f"cannot take packets of calls at {host!r}: {error}; give --rtp-host an address of this machine"
        ) from error


class Ports:
    """host: an address that `check_host` takes, or raises InvalidInput for. first, last: the range; 0 and 0 let the
    system pick."""

    def __init__(self, host: str, first: int = 0, last: int = 0) -> None:
        self.host = host
        self._range = (first + first % 2, last)
        self._next = self._range[0]
        check_host(host)

    def take(self, *, mux: bool) -> Pair:
        """Raises Overloaded while none is free."""
        for port in self._candidates():
            try:
                rtp = _bound(self.host, port)
            except OSError as error:
                check_files(error)
                continue
            if mux:
                return Pair(rtp, None)
            number = rtp.getsockname()[1]
            try:
                if number % 2 == 0:
                    return Pair(rtp, _bound(self.host, number + 1))
            except OSError as error:
                rtp.close()
                check_files(error)
            rtp.close()
        raise Overloaded("no port is free for another call: end one, or give more with --rtp-ports", RETRY_S)

    def _candidates(self) -> list[int]:
        """In turn, so that a port rests after a call: late packets of that must not come to the next."""
        first, last = self._range
        if not last:
            return [0] * _TRIES
        pairs = list(range(first, last, 2))
        start = pairs.index(self._next) if self._next in pairs else 0
        self._next = pairs[(start + 1) % len(pairs)]
        return pairs[start:] + pairs[:start]


def _bound(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made
