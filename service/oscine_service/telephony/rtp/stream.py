"""A call's own stream of RTP: a `sink.Player` that a clock's thread takes packets from."""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oscine_service.audio import Format
from oscine_service.telephony.rtp import packet
from oscine_service.telephony.rtp.clock import PERIOD_NS
from oscine_service.telephony.rtp.codecs import Codec
from oscine_service.telephony.track import Track

AHEAD_S = 10.0
"""Of speech that may wait in a call."""
TELL_EVERY = 10
"""Ticks between two reports of how far the listener is."""


@dataclass(frozen=True, slots=True)
class Sent:
    """bytes: of payload. spoken: packets that held speech, the others being silence. skipped: ticks that were left
    out."""

    packets: int
    bytes: int
    spoken: int
    skipped: int


class Stream:
    """Every tick is a packet, of speech or of silence: the other side's buffer never runs dry, and devices between the
    two do not forget the call.

    payload_type: that stands for `codec` in this call. source: of the packets, 32 bits. send: sends a packet; called
    in the clock's thread.
    """

    def __init__(
        self, codec: Codec, format: Format, payload_type: int, source: int, send: Callable[[bytes], None]
    ) -> None:
        self.format = format
        self.tell: Callable[[], None] = lambda: None
        self.source = source
        self._codec = codec
        self._type = payload_type
        self._send = send
        self._lock = threading.Lock()
        self._track = Track(format)
        # Where both begin is not to be guessed (RFC 3550, section 5.1).
        self._sequence = secrets.randbits(16)
        self._first_timestamp = secrets.randbits(32)
        self._began_ns = time.monotonic_ns()
        self._due = 0
        self._speaking = False
        self._packets = self._bytes = self._spoken = self._skipped = 0
        self._ahead = round(AHEAD_S * format.sample_rate)
        self._room = asyncio.Event()
        self._clears = 0

    @property
    def given(self) -> int:
        return self._track.given

    @property
    def heard(self) -> int:
        """What has been sent."""
        return self._track.heard

    @property
    def sent(self) -> Sent:
        with self._lock:
            return Sent(self._packets, self._bytes, self._spoken, self._skipped)

    def began(self, at_ns: int) -> None:
        """When tick 0 is due, by the monotonic clock."""
        self._began_ns = at_ns

    def timestamp(self, at_ns: int) -> int:
        """Of the sound that is sent at that time of the monotonic clock."""
        return (self._first_timestamp + (at_ns - self._began_ns) * self._codec.step // PERIOD_NS) & 0xFFFFFFFF

    async def write(self, frames: Sequence[bytes], samples: int) -> None:
        clears = self._clears
        while self._track.ahead > self._ahead:
            self._room.clear()
            await self._room.wait()
        if clears == self._clears:
            with self._lock:
                self._track.write(frames, samples)

    async def point(self) -> None:
        with self._lock:
            self._track.point()

    async def flush(self) -> None:
        with self._lock:
            self._track.flush()
            self._track.point()

    async def clear(self) -> int:
        with self._lock:
            heard = self._track.clear()
        self._clears += 1
        self.changed()
        return heard

    def changed(self) -> None:
        """The listener is further on. In the event loop."""
        self._room.set()
        self.tell()

    def tick(self, number: int) -> bool:
        """As `clock.Member` has it."""
        with self._lock:
            frame, reached = self._track.next()
            said, speaking = frame is not None, self._speaking
            payload = self._codec.silence if frame is None else frame.data
            # The first packet of a talk spurt, and what comes behind a hole in time (RFC 3551, section 4.1).
            marker = (said and not speaking) or number != self._due
            self._skipped += number - self._due
            timestamp = self._first_timestamp + number * self._codec.step
            data = packet.write(self._type, self._sequence, timestamp, self.source, payload, marker)
            self._due, self._speaking = number + 1, said
            self._sequence += 1
            self._packets += 1
            self._bytes += len(payload)
            self._spoken += said
        self._send(data)
        return reached or (said and self._spoken % TELL_EVERY == 0) or (speaking and not said)
