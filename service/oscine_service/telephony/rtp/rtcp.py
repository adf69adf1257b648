"""RTCP (RFC 3550, section 6): sender and receiver reports, what a source is called, and its end. No I/O."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from oscine_service.telephony.rtp.packet import Malformed

_SR, _RR, _SDES, _BYE = 200, 201, 202, 203
_CNAME = 1
_HEAD = struct.Struct("!BBH")
_SENDER = struct.Struct("!IQIII")
_BLOCK = struct.Struct("!IIIIII")
_SINCE_1900 = 2208988800
"""Seconds from the epoch of NTP to that of Unix."""
MAX_NAME = 255
"""Bytes of a source's canonical name."""


@dataclass(frozen=True, slots=True)
class Block:
    """How `source` is received. fraction: lost since the report before, of 256. lost: in all, negative with duplicates.
    highest: sequence number so far, with its cycles. jitter: in timestamp units. last: the middle 32 bits of the NTP
    time of the last sender report that came, 0 for none; since: that long ago, in 1/65536 s."""

    source: int
    fraction: int
    lost: int
    highest: int
    jitter: int
    last: int
    since: int


@dataclass(frozen=True, slots=True)
class SenderReport:
    """ntp: the time, as `ntp_time` has it, at which the stream is at `timestamp`. packets, bytes: sent so far, of
    payload."""

    source: int
    ntp: int
    timestamp: int
    packets: int
    bytes: int
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceiverReport:
    """Of somebody who sends nothing."""

    source: int
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Name:
    """The canonical name of a source."""

    source: int
    name: str


@dataclass(frozen=True, slots=True)
class Bye:
    """These sources have ended."""

    sources: tuple[int, ...]


Report: TypeAlias = SenderReport | ReceiverReport | Name | Bye


def ntp_time(unix_ns: int) -> int:
    """Nanoseconds of Unix time -> 64 bits: seconds since 1900, and 2**32ths of one."""
    seconds, rest = divmod(unix_ns, 1_000_000_000)
    return (seconds + _SINCE_1900) << 32 & 0xFFFFFFFF00000000 | (rest << 32) // 1_000_000_000


def middle(ntp: int) -> int:
    """Of an NTP time, 16 bits of seconds and 16 below: what reports refer to."""
    return ntp >> 16 & 0xFFFFFFFF


def round_trip_s(block: Block, ntp: int) -> float | None:
    """Seconds to the other side and back, of a block that came at `ntp`; None where it answers no report, or clocks
    make less than nothing of it."""
    if not block.last:
        return None
    units = (middle(ntp) - block.last - block.since) & 0xFFFFFFFF
    return None if units >= 1 << 31 else units / 65536


def write(reports: Sequence[Report]) -> bytes:
    """A compound packet: a report first, as every one begins, then the others."""
    return b"".join(_written(report) for report in reports)


def parse(data: bytes) -> list[Report]:
    """What is known of a compound packet; other kinds are passed over. Raises Malformed."""
    found: list[Report] = []
    if not data:
        raise Malformed("an RTCP packet cannot be empty")
    place = 0
    while place < len(data):
        if len(data) - place < _HEAD.size:
            raise Malformed("an RTCP packet is cut off in a head")
        first, kind, words = _HEAD.unpack_from(data, place)
        body = data[place + _HEAD.size : place + _HEAD.size + 4 * words]
        if first >> 6 != 2:
            raise Malformed(f"RTCP has version 2, got {first >> 6}")
        if len(body) < 4 * words:
            raise Malformed(f"an RTCP packet of {4 * words} bytes is cut off after {len(body)}")
        place += _HEAD.size + 4 * words
        found += _read(kind, first & 0x1F, body)
    return found


def _written(report: Report) -> bytes:
    match report:
        case SenderReport(blocks=blocks):
            sent = report.packets & 0xFFFFFFFF, report.bytes & 0xFFFFFFFF
            body = _SENDER.pack(report.source, report.ntp, report.timestamp & 0xFFFFFFFF, *sent)
            return _packet(_SR, len(blocks), body + b"".join(map(_block, blocks)))
        case ReceiverReport(blocks=blocks):
            return _packet(_RR, len(blocks), struct.pack("!I", report.source) + b"".join(map(_block, blocks)))
        case Name(name=name):
            told = name.encode()
            if len(told) > MAX_NAME:
                raise ValueError(f"a name has at most {MAX_NAME} bytes, got {len(told)}")
            item = struct.pack("!IBB", report.source, _CNAME, len(told)) + told
            # A list of items ends with a zero, and then goes on to the next 32 bits.
            return _packet(_SDES, 1, item + bytes(4 - len(item) % 4))
        case Bye(sources=sources):
            return _packet(_BYE, len(sources), struct.pack(f"!{len(sources)}I", *sources))


def _packet(kind: int, count: int, body: bytes) -> bytes:
    if count > 31:
        raise ValueError(f"an RTCP packet holds at most 31 of a kind, got {count}")
    return _HEAD.pack(2 << 6 | count, kind, len(body) // 4) + body


def _block(block: Block) -> bytes:
    lost = max(-(1 << 23), min((1 << 23) - 1, block.lost)) & 0xFFFFFF
    return _BLOCK.pack(
        block.source, block.fraction << 24 | lost, block.highest, block.jitter & 0xFFFFFFFF, block.last, block.since
    )


def _read(kind: int, count: int, body: bytes) -> Iterator[Report]:
    if kind == _SR:
        if len(body) < _SENDER.size:
            raise Malformed("a sender report is too short")
        source, ntp, timestamp, packets, sent = _SENDER.unpack_from(body)
        yield SenderReport(source, ntp, timestamp, packets, sent, _blocks(count, body[_SENDER.size :]))
    elif kind == _RR:
        if len(body) < 4:
            raise Malformed("a receiver report is too short")
        yield ReceiverReport(int.from_bytes(body[:4]), _blocks(count, body[4:]))
    elif kind == _SDES:
        yield from _names(count, body)
    elif kind == _BYE:
        if len(body) < 4 * count:
            raise Malformed("an RTCP packet names fewer sources than it says")
        yield Bye(struct.unpack_from(f"!{count}I", body))


def _blocks(count: int, body: bytes) -> tuple[Block, ...]:
    if len(body) < count * _BLOCK.size:
        raise Malformed(f"a report says that it has {count} blocks, and is too short for them")
    return tuple(_read_block(*_BLOCK.unpack_from(body, number * _BLOCK.size)) for number in range(count))


def _read_block(source: int, losses: int, highest: int, jitter: int, last: int, since: int) -> Block:
    lost = losses & 0xFFFFFF
    return Block(source, losses >> 24, lost - (1 << 24) if lost >> 23 else lost, highest, jitter, last, since)


def _names(count: int, body: bytes) -> Iterator[Name]:
    place = 0
    for _ in range(count):
        if len(body) - place < 4:
            raise Malformed("an RTCP packet describes fewer sources than it says")
        source = int.from_bytes(body[place : place + 4])
        place += 4
        while place < len(body) and body[place]:
            if len(body) - place < 2 or len(body) - place - 2 < (size := body[place + 1]):
                raise Malformed("what an RTCP packet says of a source is cut off")
            if body[place] == _CNAME:
                yield Name(source, body[place + 2 : place + 2 + size].decode(errors="replace"))
            place += 2 + size
        # The zero that ends it, and up to the next 32 bits.
        place += 4 - place % 4
