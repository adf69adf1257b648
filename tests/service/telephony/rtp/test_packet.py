import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_service.telephony.rtp.packet import Malformed, Packet, is_rtcp, parse, write


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 127),
    st.integers(0, 1 << 20),
    st.integers(0, 1 << 40),
    st.integers(0, (1 << 32) - 1),
    st.binary(max_size=200),
    st.booleans(),
)
def test_what_is_written_is_read(
    kind: int, sequence: int, timestamp: int, source: int, payload: bytes, marker: bool
) -> None:
    data = write(kind, sequence, timestamp, source, payload, marker)
    assert parse(data) == Packet(kind, sequence & 0xFFFF, timestamp & 0xFFFFFFFF, source, payload, marker)


def test_every_byte_is_where_the_standard_has_it() -> None:
    data = write(8, 0x1234, 0x89ABCDEF, 0xDEADBEEF, b"\xd5\xd5", marker=True)
    assert data == bytes.fromhex("80 88 1234 89abcdef deadbeef d5d5")


def test_sources_extension_and_padding_are_passed_over() -> None:
    head = struct.pack("!BBHII", 0x80 | 0x20 | 0x10 | 2, 0, 1, 2, 3)
    extension = struct.pack("!HH", 0xBEDE, 1) + b"abcd"
    data = head + bytes(8) + extension + b"sound" + b"\0\0\3"
    assert parse(data) == Packet(0, 1, 2, 3, b"sound")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        write(0, 0, 0, 0, b"")[:-1],
        b"\x40" + write(0, 0, 0, 0, b"x")[1:],
        b"\x90" + write(0, 0, 0, 0, b"")[1:],
        b"\x90" + write(0, 0, 0, 0, b"\0\0\0\2abcd")[1:],
        b"\x8f" + write(0, 0, 0, 0, b"x")[1:],
        b"\xa0" + write(0, 0, 0, 0, b"\0")[1:],
        b"\xa0" + write(0, 0, 0, 0, b"\5")[1:],
    ],
    ids=["empty", "short", "version", "no extension", "half an extension", "no sources", "padded with nothing", "only"],
)
def test_what_is_no_packet_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse(data)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_are_a_packet_or_refused(data: bytes) -> None:
    try:
        packet = parse(data)
    except Malformed:
        return
    assert len(packet.payload) <= len(data) - 12


@pytest.mark.parametrize("marker", [False, True])
@pytest.mark.parametrize("kind", [0, 8, 96, 111, 127])
def test_a_packet_of_speech_is_none_of_rtcp(kind: int, marker: bool) -> None:
    # RFC 5761, section 4: payload types 64 to 95 are the ones to avoid.
    assert not is_rtcp(write(kind, 0, 0, 0, b"", marker))
