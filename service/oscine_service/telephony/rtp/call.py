"""One call over RTP, from its answer to its end."""

import asyncio
import errno
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from oscine_service.telephony.rtp import answer, sdes
from oscine_service.telephony.rtp.clock import Clock
from oscine_service.telephony.rtp.offer import Offer
from oscine_service.telephony.rtp.packet import Malformed, is_rtcp, parse
from oscine_service.telephony.rtp.ports import Pair
from oscine_service.telephony.rtp.reception import Reception
from oscine_service.telephony.rtp.reports import Reports
from oscine_service.telephony.rtp.sending import sender
from oscine_service.telephony.rtp.srtp import Srtp
from oscine_service.telephony.rtp.stream import Stream
from oscine_service.telephony.sink import Sink, Sinks

log = logging.getLogger(__name__)

REFUSED_S = 10.0
"""For a machine that says that nobody listens there."""
BYE_S = 5.0
"""For something to come behind the other side's goodbye, which it may also say of one source among others."""
LOOK_S = 1.0


class Call:
    """Takes over the pair of ports, and closes it. public: the address that is answered. patience_s: for the other side
    to send anything, reports included, or for somebody to speak.

    `start` puts it up, `run` ends with it. Raises CodecMissing for SRTP that there is no library for.
    """

    def __init__(self, name: str, offer: Offer, pair: Pair, *, public: str, owner: str, patience_s: float) -> None:
        self._offer = offer
        self._pair = pair
        self._patience = patience_s
        source, called = secrets.randbits(32), secrets.token_urlsafe(12)
        ours = sdes.answered(offer.crypto) if offer.crypto is not None else None
        self._srtp = Srtp(ours, offer.crypto) if ours is not None and offer.crypto is not None else None
        self.answer = answer.write(
            offer,
            address=public,
            port=pair.port,
            rtcp_port=pair.port if offer.peer.mux else pair.port + 1,
            source=source,
            name=called,
            session=secrets.randbits(62),
            crypto=ours,
        )
        self.stream = Stream(offer.codec, offer.format, offer.payload_type, source, self._send)
        self.sink = Sink((name,), self.stream, kind="rtp", owner=owner, hang_up=self.hang_up, details=self.details)
        self._reception = Reception(offer.codec.clock_rate)
        self._reports = Reports(self.stream, self._reception, called, offer.codec.clock_rate)
        self._out: Callable[[bytes], int] = lambda data: errno.ENOTCONN
        self._clock: Clock | None = None
        self._over = asyncio.Event()
        self._why = "it was hung up"
        self._came_at = self._spoke_at = time.monotonic()
        self._refused: tuple[float, float] | None = None
        """The first and the last time, since something came."""
        self._unsent = self._strange = 0
        self._transports: list[asyncio.DatagramTransport] = []

    def hang_up(self, why: str = "it was hung up") -> None:
        """End it, if it has not ended."""
        if not self._over.is_set():
            self._why = why
            self._over.set()

    async def start(self, clock: Clock, sinks: Sinks, until: ExitStack) -> None:
        """Put it up, until the stack is left. Raises what `Sinks.up` raises, and OSError for an address that cannot be
        sent to."""
        until.callback(self._pair.close)
        peer, loop = self._offer.peer, asyncio.get_running_loop()
        until.enter_context(sinks.up(self.sink))
        self._pair.rtp.connect((peer.address, peer.port))
        if self._pair.rtcp is not None:
            self._pair.rtcp.connect((peer.rtcp_address, peer.rtcp_port))
        # Many take no reports: that nobody listens at their port says nothing of the speech.
        for socket, refused in ((self._pair.rtp, self.refused), (self._pair.rtcp, lambda: None)):
            if socket is None:
                continue
            # A number of its own: loops differ in when they close what they were given.
            transport, _ = await loop.create_datagram_endpoint(partial(_Incoming, self, refused), sock=socket.dup())
            self._transports.append(transport)
            until.callback(transport.close)
        until.callback(self._report, last=True)
        self._out = sender(self._pair.rtp)
        self._clock = clock
        self.stream.began(clock.add(self.stream))
        # The clock lets go of the call first: no packet may come behind the goodbye, or meet a closed socket.
        until.callback(clock.remove, self.stream)

    async def run(self) -> None:
        """Until it has ended."""
        due = time.monotonic() + self._reports.interval_s() / 2
        while not self._over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_S, max(0.0, due - time.monotonic()))):
                    await self._over.wait()
            now = time.monotonic()
            if now >= due:
                self._report()
                due = now + self._reports.interval_s()
            if self.sink.turns:
                self._spoke_at = now
            if (why := self._forlorn(now)) is not None:
                self.hang_up(why)
        log.info("call %s over RTP has ended: %s; %s", self.sink.name, self._why, self.details())

    def details(self) -> dict[str, Any]:
        """What is known of it, for people."""
        offer, there, sent, reception = self._offer, self._reports.there, self.stream.sent, self._reception
        return {
            "codec": offer.codec.name,
            "encrypted": self._srtp is not None,
            "port": self._pair.port if not self._over.is_set() else None,
            "to": f"{offer.peer.address} {offer.peer.port}",
            "sent": {
                "packets": sent.packets,
                "bytes": sent.bytes,
                "spoken": sent.spoken,
                "skipped": sent.skipped,
                "unsent": self._unsent,
            },
            "received": {
                "packets": reception.packets,
                "bytes": reception.bytes,
                "lost": reception.lost,
                "jitter_ms": round(1000 * reception.jitter_s, 3),
                "strange": self._strange,
            },
            "reported": {
                "reports": there.reports,
                "lost": there.lost,
                "fraction_lost": round(there.fraction, 4),
                "jitter_ms": round(1000 * there.jitter_s, 3),
                "round_trip_ms": None if there.round_trip_s is None else round(1000 * there.round_trip_s, 3),
            },
        }

    def came(self, data: bytes, *, rtcp: bool) -> None:
        """A datagram of the other side."""
        now = time.monotonic()
        try:
            if self._srtp is not None:
                data = self._srtp.came(data, rtcp=rtcp)
            if rtcp:
                self._reports.came(data)
            else:
                packet = parse(data)
                self._reports.bye = False
                if packet.payload_type == self._offer.payload_type:
                    size = len(packet.payload)
                    self._reception.take(packet.source, packet.sequence, packet.timestamp, size, now)
        except Malformed as error:
            self._strange += 1
            log.debug("call %s: %s", self.sink.name, error)
            return
        self._came_at, self._refused = now, None

    def refused(self) -> None:
        """The other machine says that nobody takes the speech that was sent."""
        now = time.monotonic()
        first, last = self._refused or (now, now)
        # In between it was taken.
        self._refused = (now if now - last > BYE_S else first), now

    def _forlorn(self, now: float) -> str | None:
        """Why nobody is there any more, if that is so."""
        if self._clock is None or self.stream not in self._clock:
            return "a fault of the service"
        if self._reports.bye and now - self._came_at > BYE_S:
            return "the other side said goodbye"
        if self._refused is not None and now - self._refused[1] < BYE_S and now - self._refused[0] > REFUSED_S:
            return f"nobody listens at {self._offer.peer.address} port {self._offer.peer.port}"
        if now - max(self._came_at, self._spoke_at) > self._patience:
            return f"nothing came from the other side for {self._patience:g} s, and nobody spoke"
        return None

    def _send(self, packet: bytes) -> None:
        """In the clock's thread."""
        failed = self._out(packet if self._srtp is None else self._srtp.speech(packet))
        if failed:
            self._unsent += 1
        if failed == errno.ECONNREFUSED:
            self.refused()

    def _report(self, *, last: bool = False) -> None:
        packet = self._reports.write(last=last)
        self._transports[-1].sendto(packet if self._srtp is None else self._srtp.report(packet))


class _Incoming(asyncio.DatagramProtocol):
    def __init__(self, call: Call, refused: Callable[[], None]) -> None:
        self._call = call
        self._refused = refused

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._call.came(data, rtcp=is_rtcp(data))

    def error_received(self, exc: Exception) -> None:
        if isinstance(exc, ConnectionRefusedError):
            self._refused()
