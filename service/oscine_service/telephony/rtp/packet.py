"""RTP packets (RFC 3550, section 5.1): bytes <-> fields. No I/O."""

import struct
from dataclasses import dataclass

_HEAD = struct.Struct("!BBHII")
HEAD_BYTES = _HEAD.size
_VERSION = 2 << 6
MAX_BYTES = 1460
"""Of a packet that is sent: it fits into one datagram of Ethernet, over IPv6 and encrypted, too."""


class Malformed(ValueError):
    """Bytes that are no packet; whoever receives packets leaves them out and counts them."""


@dataclass(frozen=True, slots=True)
class Packet:
    """payload_type: 0 to 127. sequence: 16 bits. timestamp, source: 32 bits. marker: the first of a talk spurt."""

    payload_type: int
    sequence: int
    timestamp: int
    source: int
    payload: bytes
    marker: bool = False


def write(payload_type: int, sequence: int, timestamp: int, source: int, payload: bytes, marker: bool = False) -> bytes:
    """The fields of a `Packet`; of sequence and timestamp the low bits count."""
    kind = payload_type | 0x80 if marker else payload_type
    return _HEAD.pack(_VERSION, kind, sequence & 0xFFFF, timestamp & 0xFFFFFFFF, source) + payload


def parse(data: bytes) -> Packet:
    """Contributing sources and a header extension are passed over, padding is left out. Raises Malformed."""
    if len(data) < HEAD_BYTES:
        raise Malformed(f"an RTP packet has at least {HEAD_BYTES} bytes, got {len(data)}")
    first, kind, sequence, timestamp, source = _HEAD.unpack_from(data)
    if first >> 6 != 2:
        raise Malformed(f"RTP has version 2, got {first >> 6}")
    start = HEAD_BYTES + 4 * (first & 0x0F)
    if first & 0x10:
        if len(data) < start + 4:
            raise Malformed("the header extension of an RTP packet is cut off")
        start += 4 + 4 * int.from_bytes(data[start + 2 : start + 4])
    end = len(data)
    if first & 0x20:
        padding = data[-1]
        if not padding:
            raise Malformed("an RTP packet says that it is padded, with nothing")
        end -= padding
    if end < start:
        raise Malformed("the parts of an RTP packet are longer than it is")
    return Packet(kind & 0x7F, sequence, timestamp, source, data[start:end], bool(kind & 0x80))


def is_rtcp(data: bytes) -> bool:
    """Which of the two a packet is that came on a port of both (RFC 5761, section 4)."""
    return len(data) > 1 and 192 <= data[1] <= 223
