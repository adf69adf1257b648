import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.errors import InvalidInput
from oscine_service.audio import Encoding
from oscine_service.telephony.rtp import sdes
from oscine_service.telephony.rtp.answer import write
from oscine_service.telephony.rtp.codecs import OPUS, PCMA, PCMU
from oscine_service.telephony.rtp.offer import Direction, Offer, Peer, read
from oscine_service.telephony.rtp.sdp import parse
from tests.service.telephony.rtp.offers import offer, opus

KEY = base64.b64encode(bytes(range(30))).decode()


def answered(text: str) -> list[str]:
    made = write(read(text), address="192.0.2.7", port=16384, rtcp_port=16385, source=77, name="n", session=5)
    assert made.endswith("\r\n")
    return made.split("\r\n")[:-1]


def test_a_telephone_is_understood() -> None:
    found = read(offer())
    assert (found.codec, found.payload_type, found.events) == (PCMU, 0, 101)
    assert found.peer == Peer("127.0.0.1", 40000, "127.0.0.1", 40001, mux=False)
    assert found.hears is Direction.SENDRECV and found.crypto is None
    assert (found.format.encoding, found.format.sample_rate) == (Encoding.MULAW, 8000)


def test_the_first_codec_that_there_is_here_is_taken() -> None:
    assert read(offer(formats="18 8 0")).codec is PCMA
    assert read(offer(formats="96 0", maps=["96 AMR/8000"])).codec is PCMU
    assert read(offer(formats="0 111", maps=["111 OPUS/48000/2"])).codec is PCMU
    found = read(offer(formats="111 0", maps=["111 OPUS/48000/2"]))
    assert (found.codec, found.payload_type) == (OPUS, 111)


def test_a_number_that_says_nothing_by_itself_is_what_its_line_says() -> None:
    found = read(offer(formats="97", maps=["97 PCMA/8000/1"]))
    assert (found.codec, found.payload_type) == (PCMA, 97)
    # Number 0 that stands for something else is not PCMU.
    with pytest.raises(InvalidInput, match="L16/8000"):
        read(offer(formats="0", maps=["0 L16/8000"]))


@pytest.mark.parametrize(
    ("parameters", "rate", "bitrate"),
    [
        ("", 24000, 32000),
        ("useinbandfec=1; maxplaybackrate=16000", 16000, 32000),
        ("maxplaybackrate=48000;maxaveragebitrate=20000", 24000, 20000),
        ("maxplaybackrate=4000;maxaveragebitrate=500", 8000, 6000),
        ("maxplaybackrate=lots;stereo", 24000, 32000),
    ],
)
def test_opus_is_made_as_the_other_side_wishes(parameters: str, rate: int, bitrate: int) -> None:
    found = read(opus(parameters=parameters))
    assert (found.format.sample_rate, found.format.bitrate) == (rate, bitrate)
    assert found.codec.step == 960 and found.codec.clock_rate == 48000


def test_reports_go_where_the_other_side_wants_them() -> None:
    assert read(offer("a=rtcp:5555")).peer == Peer("127.0.0.1", 40000, "127.0.0.1", 5555, mux=False)
    assert read(offer("a=rtcp:5555 IN IP4 10.0.0.9")).peer == Peer("127.0.0.1", 40000, "10.0.0.9", 5555, mux=False)
    assert read(offer("a=rtcp:5555", "a=rtcp-mux")).peer == Peer("127.0.0.1", 40000, "127.0.0.1", 40000, mux=True)


def test_an_address_below_the_audio_counts_more() -> None:
    assert read(offer("c=IN IP4 10.1.2.3")).peer.address == "10.1.2.3"
    assert read(offer(address="::1")).peer.address == "::1"


def test_the_second_audio_is_taken_where_the_first_cannot_be() -> None:
    text = offer(formats="18", maps=[]) + "m=video 4000 RTP/AVP 96\r\nm=audio 6000 RTP/AVP 8\r\na=mid:b\r\n"
    found = read(text)
    assert (found.index, found.codec, found.peer.port) == (2, PCMA, 6000)
    lines = answered(text)
    assert [line for line in lines if line.startswith("m=")] == [
        "m=audio 0 RTP/AVP 18",
        "m=video 0 RTP/AVP 96",
        "m=audio 16384 RTP/AVP 8",
    ]
    assert lines[lines.index("m=audio 16384 RTP/AVP 8") + 1] == "a=mid:b"


def test_what_is_answered_is_understood_and_complete() -> None:
    lines = answered(offer("a=recvonly"))
    assert lines[:5] == ["v=0", "o=- 5 1 IN IP4 192.0.2.7", "s=-", "c=IN IP4 192.0.2.7", "t=0 0"]
    assert lines[5:] == [
        "m=audio 16384 RTP/AVP 0 101",
        "a=rtpmap:0 PCMU/8000",
        "a=rtpmap:101 telephone-event/8000",
        "a=fmtp:101 0-15",
        "a=ptime:20",
        "a=sendonly",
        "a=ssrc:77 cname:n",
    ]
    assert parse("\r\n".join(lines)).media[0].address == "192.0.2.7"


def test_opus_is_answered_with_two_channels_and_what_is_in_them() -> None:
    lines = answered(opus("a=rtcp-mux", parameters="maxplaybackrate=8000"))
    assert "a=rtpmap:111 opus/48000/2" in lines
    assert "a=fmtp:111 sprop-stereo=0; sprop-maxcapturerate=8000" in lines
    assert "a=rtcp-mux" in lines and "a=sendrecv" in lines


def secured(*lines: str) -> Offer:
    return read(offer(*lines, protocol="RTP/SAVP"))


def test_the_first_keys_that_can_be_used_are() -> None:
    found = secured(
        f"a=crypto:1 F8_128_HMAC_SHA1_80 inline:{KEY}",
        f"a=crypto:2 AES_CM_128_HMAC_SHA1_80 inline:{KEY}|2^31|1:4",
        f"a=crypto:3 AES_CM_128_HMAC_SHA1_80 inline:{KEY} UNENCRYPTED_SRTP",
        f"a=crypto:4 AES_CM_128_HMAC_SHA1_32 inline:{KEY}|2^31",
    )
    assert found.crypto == sdes.Crypto("4", "AES_CM_128_HMAC_SHA1_32", bytes(range(30)))
    assert KEY not in repr(found.crypto) and "0x" not in repr(found.crypto)
    ours = sdes.answered(found.crypto)
    assert (ours.tag, ours.suite, len(ours.key)) == ("4", "AES_CM_128_HMAC_SHA1_32", 30)
    assert ours.key != found.crypto.key
    assert sdes.choose([ours.line]) == ours
    text = write(found, address="::1", port=2, rtcp_port=9, source=1, name="n", session=1, crypto=ours)
    assert f"a=crypto:{ours.line}\r\n" in text and "a=rtcp:9\r\n" in text and "IN IP6 ::1" in text


@pytest.mark.parametrize(
    "line",
    [
        "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:dG9vIHNob3J0",
        "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:!!!",
        "a=crypto:1",
        f"a=crypto:1 AES_CM_128_HMAC_SHA1_80 outline:{KEY}",
        f"a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{KEY};inline:{KEY}",
    ],
)
def test_keys_that_cannot_be_used_are_refused_and_not_told(line: str) -> None:
    with pytest.raises(InvalidInput, match="AES_CM_128_HMAC_SHA1_80") as caught:
        secured(line)
    assert KEY not in str(caught.value)


def test_encryption_without_keys_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a=crypto"):
        secured()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "v=0"),
        ("hello", "v=0"),
        ("v=0\r\nwhat", "line 2"),
        ("v=0\r\nm=audio x RTP/AVP 0", "line 2"),
        ("v=0\r\nm=audio 70000 RTP/AVP 0", "line 2"),
        ("v=0\r\nc=IN IP4", "line 2"),
        ("v=0\r\nm=video 4000 RTP/AVP 96", "no audio"),
        (offer(port=0), "no audio"),
        ("v=0\r\nm=audio 4000 RTP/AVP 0", "c= line"),
        (offer(address="0.0.0.0"), "0.0.0.0"),
        (offer(address="224.1.1.1"), "224.1.1.1"),
        (offer(address="pbx.example"), "names are not looked up"),
        (offer("a=sendonly"), "sendonly"),
        (offer("a=inactive"), "inactive"),
        (offer("a=maxptime:10"), "20 ms"),
        (offer("a=rtcp:none"), "a=rtcp:PORT"),
        (offer(port=65535), "a=rtcp-mux"),
        (offer("a=mid:\ud800"), "surrogate"),
        (offer("a=mid:a\rm=audio 1 RTP/AVP 0"), "neither CR nor NUL"),
        (offer("a=mid:a\0"), "neither CR nor NUL"),
        (offer(formats="18 9", maps=["18 G729/8000", "9 G722/8000"]), "G729/8000, G722/8000"),
        (offer(formats="400"), "payload type"),
        (offer(maps=["0"]), "a=rtpmap"),
        (offer(protocol="UDP/TLS/RTP/SAVPF"), "a=crypto"),
        ("v=0\r\n" + "m=video 0 RTP/AVP 0\r\n" * 33, "32 media"),
        ("v=0\r\na=" + "x" * 70000, "65536"),
    ],
)
def test_an_offer_that_cannot_be_answered_is_refused_with_what_to_do(text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(text)
    assert told in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(offer().split("\r\n")) | st.text(max_size=20), max_size=12))
def test_any_lines_are_an_offer_or_refused(lines: list[str]) -> None:
    try:
        found = read("\r\n".join(["v=0", *lines]))
    except InvalidInput:
        return
    assert found.peer.port and found.codec in (PCMU, PCMA, OPUS)
