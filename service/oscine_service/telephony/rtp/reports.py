"""What a call's two sides tell each other of what they send and receive."""

import random
import time
from dataclasses import dataclass

from oscine_service.telephony.rtp import rtcp
from oscine_service.telephony.rtp.reception import Reception
from oscine_service.telephony.rtp.stream import Stream

INTERVAL_S = 5.0


@dataclass(slots=True)
class There:
    """How the other side said that it receives us. fraction: lost lately, 0 to 1. lost: packets in all."""

    reports: int = 0
    fraction: float = 0.0
    lost: int = 0
    jitter_s: float = 0.0
    round_trip_s: float | None = None


class Reports:
    """name: the canonical name of our source. clock_rate: of timestamps, Hz."""

    def __init__(self, stream: Stream, reception: Reception, name: str, clock_rate: int) -> None:
        self.there = There()
        self.bye = False
        """The other side has said that its source ends, and nothing came since."""
        self._stream = stream
        self._reception = reception
        self._name = rtcp.Name(stream.source, name)
        self._rate = clock_rate

    @staticmethod
    def interval_s() -> float:
        """To the next report: by chance, lest those of many calls fall together (RFC 3550, section 6.3.1)."""
        return INTERVAL_S * random.uniform(0.5, 1.5)

    def write(self, *, last: bool = False) -> bytes:
        """A report of now; `last`: and that our source ends."""
        now, unix = time.monotonic_ns(), time.time_ns()
        sent, source = self._stream.sent, self._stream.source
        block = self._reception.block(now / 1e9)
        report = rtcp.SenderReport(
            source,
            rtcp.ntp_time(unix),
            self._stream.timestamp(now),
            sent.packets,
            sent.bytes,
            () if block is None else (block,),
        )
        return rtcp.write([report, self._name, *([rtcp.Bye((source,))] if last else [])])

    def came(self, data: bytes) -> None:
        """A compound packet of the other side. Raises Malformed."""
        now, ntp = time.monotonic(), rtcp.ntp_time(time.time_ns())
        found = rtcp.parse(data)
        self.bye = any(isinstance(each, rtcp.Bye) for each in found)
        for report in found:
            if isinstance(report, rtcp.SenderReport):
                self._reception.reported(rtcp.middle(report.ntp), now)
            if isinstance(report, rtcp.SenderReport | rtcp.ReceiverReport):
                for block in report.blocks:
                    if block.source == self._stream.source:
                        self._heard(block, ntp)

    def _heard(self, block: rtcp.Block, ntp: int) -> None:
        there = self.there
        there.reports += 1
        there.fraction, there.lost = block.fraction / 256, block.lost
        there.jitter_s = block.jitter / self._rate
        trip = rtcp.round_trip_s(block, ntp)
        there.round_trip_s = there.round_trip_s if trip is None else trip
