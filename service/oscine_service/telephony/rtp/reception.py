"""What came from the other side, for the reports about it (RFC 3550, appendices A.1, A.3 and A.8). No I/O."""

from oscine_service.telephony.rtp.rtcp import Block

_MAX_DROPOUT, _MAX_MISORDER = 3000, 100
_NEVER = 1 << 17
"""No sequence number is that high."""


class Reception:
    """clock_rate: of the timestamps, Hz. bytes: of payload."""

    def __init__(self, clock_rate: int) -> None:
        self._rate = clock_rate
        self.source: int | None = None
        self.packets = 0
        self.bytes = 0
        self._first = self._highest = 0
        self._cycles = 0
        self._suspect = _NEVER
        self._transit: float | None = None
        self._jitter = 0.0
        self._base = (0, 0)
        self._since = 0
        """Packets that came since the other side began to count."""
        self._report = (0, 0)
        self._report_at = 0.0

    def take(self, source: int, sequence: int, timestamp: int, size: int, now: float) -> None:
        """A packet with `size` bytes of payload came at `now`, in seconds of a clock that only goes forward."""
        if source != self.source:
            self._begin(source, sequence)
        self.packets += 1
        self.bytes += size
        self._count(sequence)
        transit = now * self._rate - timestamp
        if self._transit is not None:
            # Timestamps begin again after 2**32.
            difference = (transit - self._transit + (1 << 31)) % (1 << 32) - (1 << 31)
            self._jitter += (abs(difference) - self._jitter) / 16
        self._transit = transit

    def reported(self, ntp_middle: int, now: float) -> None:
        """A sender report came, of which `rtcp.middle` is `ntp_middle`."""
        self._report = (ntp_middle, 1)
        self._report_at = now

    @property
    def expected(self) -> int:
        """Packets, from the first to the highest number seen."""
        return self._cycles + self._highest - self._first + 1 if self.source is not None else 0

    @property
    def lost(self) -> int:
        """Of those; negative where some came twice."""
        return self.expected - self._since

    @property
    def jitter_s(self) -> float:
        return self._jitter / self._rate

    def block(self, now: float) -> Block | None:
        """What to report at `now`, for once; None while nothing has come."""
        if self.source is None:
            return None
        expected, got = self.expected - self._base[0], self._since - self._base[1]
        self._base = (self.expected, self._since)
        missing = max(0, expected - got)
        fraction = min(255, (missing << 8) // expected) if expected > 0 else 0
        last, there = self._report
        since = round((now - self._report_at) * 65536) & 0xFFFFFFFF if there else 0
        highest = (self._cycles + self._highest) & 0xFFFFFFFF
        return Block(self.source, fraction, self.lost, highest, int(self._jitter), last, since)

    def _begin(self, source: int, sequence: int) -> None:
        self.source = source
        self._transit = None
        self._restart(sequence)

    def _restart(self, sequence: int) -> None:
        self._first = self._highest = sequence
        self._cycles = self._since = 0
        self._base = (0, 0)
        self._suspect = _NEVER

    def _count(self, sequence: int) -> None:
        ahead = (sequence - self._highest) & 0xFFFF
        if ahead < _MAX_DROPOUT:
            if sequence < self._highest:
                self._cycles += 1 << 16
            self._highest = sequence
        elif ahead <= (1 << 16) - _MAX_MISORDER:
            # A jump: two in a row mean that the other side has begun again, one alone is a stray.
            if sequence == self._suspect:
                self._restart(sequence)
            else:
                self._suspect = (sequence + 1) & 0xFFFF
                return
        self._since += 1
