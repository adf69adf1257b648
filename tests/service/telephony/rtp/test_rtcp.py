import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_service.telephony.rtp import rtcp
from oscine_service.telephony.rtp.packet import Malformed, is_rtcp
from oscine_service.telephony.rtp.rtcp import Block, Bye, Name, ReceiverReport, SenderReport

WORD = st.integers(0, (1 << 32) - 1)
BLOCKS = st.lists(
    st.builds(Block, WORD, st.integers(0, 255), st.integers(-(1 << 23), (1 << 23) - 1), WORD, WORD, WORD, WORD),
    max_size=31,
).map(tuple)
REPORTS = st.one_of(
    st.builds(SenderReport, WORD, st.integers(0, (1 << 64) - 1), WORD, WORD, WORD, BLOCKS),
    st.builds(ReceiverReport, WORD, BLOCKS),
    st.builds(Name, WORD, st.text(max_size=60)),
    st.builds(Bye, st.lists(WORD, max_size=31).map(tuple)),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(REPORTS, min_size=1, max_size=4))
def test_what_is_written_is_read(reports: list[rtcp.Report]) -> None:
    data = rtcp.write(reports)
    assert len(data) % 4 == 0
    assert rtcp.parse(data) == reports


def test_every_byte_of_a_sender_report_is_where_the_standard_has_it() -> None:
    block = Block(0x01020304, 64, -2, 0x00010005, 7, 0xAABBCCDD, 65536)
    data = rtcp.write([SenderReport(0xDEADBEEF, 0x83AA7E80_80000000, 160, 3, 480, (block,)), Name(0xDEADBEEF, "ab")])
    assert data[:28].hex() == "81c8000cdeadbeef83aa7e8080000000000000a000000003000001e0"
    assert data[28:52].hex() == "0102030440fffffe0001000500000007aabbccdd00010000"
    assert data[52:].hex() == "81ca0003deadbeef0102" + b"ab".hex() + "00000000"
    assert is_rtcp(data)


@pytest.mark.parametrize("length", range(1, 10))
def test_a_name_of_any_length_fills_whole_words(length: int) -> None:
    data = rtcp.write([Name(1, "n" * length)])
    assert len(data) == 4 * (1 + struct.unpack_from("!H", data, 2)[0])
    assert data[-1] == 0


def test_the_epoch_of_ntp_is_1900() -> None:
    assert rtcp.ntp_time(0) == 2208988800 << 32
    assert rtcp.ntp_time(1_500_000_000) == (2208988801 << 32) + (1 << 31)
    assert rtcp.middle(0x11112222_33334444) == 0x22223333


def test_a_round_trip_is_what_the_other_side_did_not_hold() -> None:
    # The example of RFC 3550, section 6.4.1.
    block = Block(1, 0, 0, 0, 0, last=0xB7052000, since=0x00054000)
    assert rtcp.round_trip_s(block, 0xB7108000 << 16) == pytest.approx(6.125)


def test_clocks_that_make_less_than_nothing_tell_no_round_trip() -> None:
    assert rtcp.round_trip_s(Block(1, 0, 0, 0, 0, 1000, 100), 1050 << 16) is None
    assert rtcp.round_trip_s(Block(1, 0, 0, 0, 0, 0, 0), 1050 << 16) is None


def test_other_kinds_are_passed_over() -> None:
    feedback = struct.pack("!BBHII", 0x81, 206, 2, 1, 2)
    assert rtcp.parse(rtcp.write([ReceiverReport(5)]) + feedback + rtcp.write([Bye((5,))])) == [
        ReceiverReport(5),
        Bye((5,)),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        rtcp.write([ReceiverReport(1)])[:-1],
        b"\x00" + rtcp.write([ReceiverReport(1)])[1:],
        b"\x81" + rtcp.write([ReceiverReport(1)])[1:],
        struct.pack("!BBHI", 0x80, 200, 1, 1),
        struct.pack("!BBH", 0x80, 201, 0),
        struct.pack("!BBH", 0x81, 203, 0),
        struct.pack("!BBH", 0x81, 202, 0),
        struct.pack("!BBHIBB2x", 0x81, 202, 2, 1, 1, 200),
    ],
    ids=["empty", "half a head", "cut", "version", "blocks", "sender", "receiver", "bye", "names", "name"],
)
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        rtcp.parse(data)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_reports_or_refused(data: bytes) -> None:
    try:
        found = rtcp.parse(b"\x81" + data)
    except Malformed:
        return
    assert 4 * len(found) <= len(data) + 1


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="255"):
        rtcp.write([Name(1, "é" * 128)])
