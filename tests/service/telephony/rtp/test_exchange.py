"""Calls over RTP on real sockets: what is sent, where, when it stops, and what is left."""

import asyncio
import gc
import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise

import numpy as np
import pytest
from pylibsrtp import Policy, Session

from oscine_codecs import g711
from oscine_engine.errors import InvalidInput, Overloaded, Unavailable
from oscine_service.audio import Format, writer
from oscine_service.telephony.errors import CallTaken, HungUp
from oscine_service.telephony.rtp import rtcp, sdes
from oscine_service.telephony.rtp.codecs import OPUS, PCMA, PCMU
from oscine_service.telephony.rtp.exchange import Place
from oscine_service.telephony.rtp.packet import Packet, parse, write
from oscine_service.telephony.rtp.rtcp import Block, Bye, Name, ReceiverReport, SenderReport
from oscine_service.telephony.sink import Turn
from tests.service.telephony.rtp.offers import offer, opus
from tests.service.telephony.rtp.telephones import HOST, taking, telephone, understood


def assert_exact(packets: list[Packet], step: int) -> None:
    """One number after the other, and a step for each; a machine that stood still may have left steps out."""
    assert {(b.sequence - a.sequence) % 65536 for a, b in pairwise(packets)} == {1}
    steps = [(b.timestamp - a.timestamp) % 2**32 for a, b in pairwise(packets)]
    assert all(each and each % step == 0 for each in steps) and steps.count(step) > len(steps) // 2


SPOKEN = g711.MULAW.encode(0.5 * np.sin(np.arange(4000) * 0.3).astype(np.float32))


async def test_a_call_is_one_unbroken_stream_of_silence_and_of_what_is_said() -> None:
    async with taking() as (calls, sinks), telephone() as phone:
        made = await calls.answer(offer(phone.reports_to, port=phone.port), None, "")
        await phone.has(5)
        async with sinks.turn(made.name) as turn:
            assert (turn.format.encoding, turn.format.sample_rate) == (PCMU.encoding, 8000)
            for start in range(0, len(SPOKEN), 333):
                piece = SPOKEN[start : start + 333]
                await turn.write([piece], len(piece))
            await turn.flush()
            while turn.heard < len(SPOKEN):
                await turn.change()
        await phone.more(5)
    packets = phone.packets
    silence = PCMU.silence
    assert phone.spoken(silence)[: len(SPOKEN)] == SPOKEN
    assert set(phone.spoken(silence)[len(SPOKEN) :]) <= {g711.MULAW.silence}
    assert {len(each.payload) for each in packets} == {160}
    assert {each.payload_type for each in packets} == {0} and len({each.source for each in packets}) == 1
    assert_exact(packets, 160)
    # Marked is what follows silence, or a hole.
    for before, packet in pairwise(packets):
        begins = packet.payload != silence and before.payload == silence
        assert packet.marker == (begins or (packet.timestamp - before.timestamp) % 2**32 != 160)


async def test_an_answer_names_the_port_that_packets_come_from() -> None:
    async with taking() as (calls, _), telephone() as phone:
        made = await calls.answer(offer(phone.reports_to, port=phone.port), "me", "")
        assert made.name == "me"
        media = understood(made.sdp).media[0]
        assert media.address == HOST and media.formats == ("0", "101") and media.port % 2 == 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken, pytest.raises(OSError, match="in use"):
            taken.bind((HOST, media.port))


async def test_what_is_not_heard_is_dropped_at_once_and_the_position_told() -> None:
    async with taking() as (calls, sinks), telephone() as phone:
        made = await calls.answer(offer(phone.reports_to, port=phone.port), None, "")
        async with sinks.turn(made.name) as turn:
            await turn.write([SPOKEN * 4], 4 * len(SPOKEN))
            while not turn.heard:
                await turn.change()
            heard = await turn.clear()
        await phone.more(5)
        assert 0 < heard < 4 * len(SPOKEN) and heard % 160 == 0
        said = phone.spoken(PCMU.silence)
        assert len(said) == heard and said == (SPOKEN * 4)[:heard]
        assert phone.packets[-1].payload == PCMU.silence
        # What is said next begins whole: nothing is left of the half frame that waited.
        async with sinks.turn(made.name) as turn:
            await turn.write([SPOKEN], len(SPOKEN))
            await turn.flush()
            while turn.heard < len(SPOKEN):
                await turn.change()
        await phone.more(2)
        assert phone.spoken(PCMU.silence)[heard:] == SPOKEN


async def test_more_than_a_listener_may_have_ahead_waits() -> None:
    async with taking() as (calls, sinks), telephone() as phone:
        made = await calls.answer(offer(phone.reports_to, port=phone.port), None, "")
        async with sinks.turn(made.name) as turn:
            await turn.write([bytes(11 * 8000)], 11 * 8000)
            more = asyncio.create_task(turn.write([SPOKEN], len(SPOKEN)))
            await asyncio.sleep(0.1)
            assert not more.done()
            await turn.clear()
            await more
        await phone.more(3)
        # A clear drops what waited to be given, too.
        assert phone.packets[-1].payload == PCMU.silence


async def test_opus_goes_in_packets_of_its_own_with_a_clock_of_48_kHz() -> None:
    async with taking() as (calls, sinks), telephone() as phone:
        made = await calls.answer(opus(phone.reports_to, port=phone.port), None, "")
        async with sinks.turn(made.name) as turn:
            encoder = writer(turn.format)
            blocks = [encoder.push(0.3 * np.ones(24000, np.float32)), encoder.finish()]
            sent = [frame for block in blocks if block is not None for frame in block.frames]
            for block in filter(None, blocks):
                await turn.write(block.frames, block.samples)
            await turn.flush()
            assert turn.written == 24000
            while turn.heard < 24000:
                await turn.change()
        await phone.more(3)
    packets = phone.packets
    assert [each.payload for each in packets if each.payload != OPUS.silence] == sent
    assert_exact(packets, 960)
    assert {each.payload_type for each in packets} == {111}


async def test_both_kinds_of_packets_share_a_port_where_that_is_wished() -> None:
    async with taking() as (calls, sinks), telephone() as phone:
        made = await calls.answer(offer("a=rtcp-mux", port=phone.port), None, "")
        assert understood(made.sdp).media[0].has("rtcp-mux")
        await phone.has(3)
        sinks.find(made.name).hang_up()
        async with asyncio.timeout(10):
            while not any(isinstance(each, Bye) for each in phone.reports):
                await asyncio.sleep(0.01)
    assert {type(each) for each in phone.reports} == {SenderReport, Name, Bye}


async def test_reports_tell_what_was_sent_and_are_read() -> None:
    async with taking() as (calls, sinks), telephone() as phone:
        made = await calls.answer(offer(phone.reports_to, port=phone.port), None, "")
        there = understood(made.sdp).media[0]
        await phone.has(3)
        for number in range(100, 104):
            phone.rtp.sendto(write(0, number, 160 * number, 99, bytes(160)), (HOST, there.port))
        # Keys that are pressed are no speech, and what is no packet is nothing.
        phone.rtp.sendto(write(101, 104, 0, 99, bytes(4)), (HOST, there.port))
        phone.rtp.sendto(b"noise", (HOST, there.port))
        ours = phone.packets[0].source
        block = Block(ours, 64, 7, 1234, 80, 0, 0)
        phone.rtcp.sendto(rtcp.write([ReceiverReport(99, (block,)), Name(99, "me")]), (HOST, there.port + 1))
        sink = sinks.find(made.name)
        async with asyncio.timeout(10):
            while not sink.details()["reported"]["reports"] or sink.details()["received"]["strange"] < 1:
                await asyncio.sleep(0.01)
        details = sink.details()
        assert details["received"] | {"jitter_ms": 0} == {
            "packets": 4,
            "bytes": 640,
            "lost": 0,
            "jitter_ms": 0,
            "strange": 1,
        }
        assert details["reported"] == {
            "reports": 1,
            "lost": 7,
            "fraction_lost": 0.25,
            "jitter_ms": 10.0,
            "round_trip_ms": None,
        }
        sink.hang_up()
        async with asyncio.timeout(10):
            while not phone.reports:
                await asyncio.sleep(0.01)
    report, name, bye = phone.reports[-3:]
    assert isinstance(report, SenderReport) and isinstance(name, Name) and isinstance(bye, Bye)
    assert report.source == ours == name.source and bye.sources == (ours,)
    assert report.packets == len(phone.packets) and report.bytes == 160 * len(phone.packets)
    assert f"cname:{name.name}" in made.sdp
    assert [(each.source, each.lost, each.highest) for each in report.blocks] == [(99, 0, 103)]
    # The time of the report lies on the line of the stream's timestamps, behind the last packet and before the next.
    ahead = (report.timestamp - phone.packets[-1].timestamp) % 2**32
    assert ahead < 8000
    assert abs((report.ntp >> 32) - 2208988800 - time.time()) < 60


async def test_a_call_that_is_hung_up_leaves_nothing() -> None:
    async with taking() as (calls, sinks), telephone() as phone:
        # What is made once, such as a selector's own files, is there.
        made = await calls.answer(offer(phone.reports_to, port=phone.port), None, "")
        await phone.has(1)
        sinks.find(made.name).hang_up()
        await asyncio.sleep(0.2)
        gc.collect()
        files, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        for _ in range(20):
            made = await calls.answer(offer(phone.reports_to, port=phone.port), None, "")
            sinks.find(made.name).hang_up()
        async with asyncio.timeout(20):
            while list(sinks) or len(asyncio.all_tasks()) > tasks:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= files
        count = len(phone.raw)
        await asyncio.sleep(0.1)
        assert len(phone.raw) == count


async def ended(turn: Turn) -> None:
    """Wait for what a call ends with."""
    while True:
        await turn.change()


async def test_whoever_speaks_is_told_that_the_call_has_ended() -> None:
    async with taking() as (calls, sinks), telephone() as phone:
        made = await calls.answer(offer(phone.reports_to, port=phone.port), None, "")
        async with sinks.turn(made.name) as turn:
            await turn.write([SPOKEN], len(SPOKEN))
            sinks.find(made.name).hang_up()
            with pytest.raises(HungUp):
                await ended(turn)


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are looked after more often."""
    monkeypatch.setattr("oscine_service.telephony.rtp.call.LOOK_S", 0.1)


@pytest.mark.usefixtures("looking")
async def test_a_side_that_sends_nothing_is_missed_and_one_that_reports_is_not() -> None:
    place = Place(HOST, patience_s=1.5)
    async with taking(place) as (calls, sinks), telephone() as silent, telephone() as alive:
        await calls.answer(offer(silent.reports_to, port=silent.port), "silent", "")
        made = await calls.answer(offer(alive.reports_to, port=alive.port), "alive", "")
        port = understood(made.sdp).media[0].port + 1
        async with asyncio.timeout(20):
            while any(sink.name == "silent" for sink in sinks):
                alive.rtcp.sendto(rtcp.write([ReceiverReport(1)]), (HOST, port))
                await asyncio.sleep(0.05)
        assert [sink.name for sink in sinks] == ["alive"]


@pytest.mark.usefixtures("looking")
async def test_somebody_who_says_goodbye_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oscine_service.telephony.rtp.call.BYE_S", 0.2)
    async with taking() as (calls, sinks), telephone() as phone:
        made = await calls.answer(offer(phone.reports_to, port=phone.port), None, "")
        port = understood(made.sdp).media[0].port + 1
        phone.rtcp.sendto(rtcp.write([ReceiverReport(1), Bye((1,))]), (HOST, port))
        async with asyncio.timeout(20):
            while list(sinks):
                await asyncio.sleep(0.01)


@pytest.mark.usefixtures("looking")
async def test_a_port_where_nobody_listens_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oscine_service.telephony.rtp.call.REFUSED_S", 0.2)
    async with taking() as (calls, sinks), telephone() as phone:
        port = phone.port
    async with taking() as (calls, sinks):
        made = await calls.answer(offer(port=port - port % 2), None, "")
        sink = sinks.find(made.name)
        # Even while somebody speaks.
        async with sinks.turn(made.name) as turn, asyncio.timeout(20):
            await turn.write([bytes(80000)], 80000)
            with pytest.raises(HungUp):
                await ended(turn)
        assert sink.over


@pytest.mark.usefixtures("looking")
async def test_who_takes_no_reports_is_spoken_to_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oscine_service.telephony.rtp.call.REFUSED_S", 0.2)
    monkeypatch.setattr("oscine_service.telephony.rtp.reports.INTERVAL_S", 0.05)
    async with taking() as (calls, sinks), telephone() as phone:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
            closed.bind((HOST, 0))
            nobody = f"a=rtcp:{closed.getsockname()[1]}"
        made = await calls.answer(offer(nobody, port=phone.port), None, "")
        await phone.has(75)
        assert not sinks.find(made.name).over


async def test_ports_run_out_and_come_back() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((HOST, 0))
        first = probe.getsockname()[1] // 2 * 2
    async with taking(Place(HOST, ports=(first, first + 3))) as (calls, sinks), telephone() as phone:
        text = offer(phone.reports_to, port=phone.port)
        made = [await calls.answer(text, None, "") for _ in range(2)]
        assert {understood(each.sdp).media[0].port for each in made} == {first, first + 2}
        with pytest.raises(Overloaded, match="--rtp-ports"):
            await calls.answer(text, None, "")
        sinks.find(made[0].name).hang_up()
        async with asyncio.timeout(10):
            while len(list(sinks)) > 1:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert understood((await calls.answer(text, None, "")).sdp).media[0].port == (
            understood(made[0].sdp).media[0].port
        )


@contextmanager
def files(spare: int) -> Iterator[None]:
    """So many more may be open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    held = []
    try:
        with suppress(OSError):
            while True:
                held.append(os.dup(0))
        for _ in range(spare):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in held:
            os.close(each)


@pytest.mark.parametrize("spare", range(4))
async def test_files_run_out_and_come_back(spare: int) -> None:
    async with taking() as (calls, sinks), telephone() as phone:
        text = offer(phone.reports_to, port=phone.port)
        with files(spare):
            for _ in range(2):
                with pytest.raises(Overloaded, match="ulimit -n"):
                    await calls.answer(text, None, "")
        assert not list(sinks)
        await calls.answer(text, None, "")


async def test_a_name_that_is_taken_costs_no_port() -> None:
    async with taking() as (calls, _), telephone() as phone:
        text = offer(phone.reports_to, port=phone.port)
        await calls.answer(text, "one", "")
        files = len(os.listdir("/proc/self/fd"))
        with pytest.raises(CallTaken, match="one"):
            await calls.answer(text, "one", "")
        assert len(os.listdir("/proc/self/fd")) == files


async def test_an_address_of_the_other_kind_is_refused() -> None:
    async with taking() as (calls, _):
        with pytest.raises(InvalidInput, match="IPv4"):
            await calls.answer(offer(address="::1"), None, "")
    with pytest.raises(InvalidInput, match="--rtp-host"):
        async with taking(Place("192.0.2.1")):
            pass


async def test_a_service_that_stops_says_goodbye_and_takes_no_more() -> None:
    async with telephone() as phone:
        async with taking() as (calls, _):
            await calls.answer(offer(phone.reports_to, port=phone.port), None, "")
            await phone.has(1)
        with pytest.raises(Unavailable):
            await calls.answer(offer(port=phone.port), None, "")
        async with asyncio.timeout(10):
            while not phone.reports:
                await asyncio.sleep(0.01)
        assert isinstance(phone.reports[-1], Bye)


@pytest.mark.parametrize(
    ("suite", "profile"),
    [
        ("AES_CM_128_HMAC_SHA1_80", Policy.SRTP_PROFILE_AES128_CM_SHA1_80),
        ("AES_CM_128_HMAC_SHA1_32", Policy.SRTP_PROFILE_AES128_CM_SHA1_32),
    ],
)
async def test_an_encrypted_call_is_read_with_our_key_and_reads_with_theirs(suite: str, profile: int) -> None:
    theirs = sdes.Crypto("1", suite, bytes(range(30)))
    async with taking() as (calls, sinks), telephone() as phone:
        text = offer(phone.reports_to, f"a=crypto:{theirs.line}", port=phone.port, protocol="RTP/SAVP")
        made = await calls.answer(text, None, "")
        media = understood(made.sdp).media[0]
        ours = sdes.choose(media.all("crypto"))
        assert media.protocol == "RTP/SAVP"
        sending = Session(Policy(key=theirs.key, ssrc_type=Policy.SSRC_ANY_OUTBOUND, srtp_profile=profile))
        phone.rtp.sendto(sending.protect(write(0, 1, 0, 99, bytes(160))), (HOST, media.port))
        phone.rtp.sendto(write(0, 2, 160, 99, bytes(160)), (HOST, media.port))
        report = rtcp.write([ReceiverReport(99), Name(99, "x")])
        phone.rtcp.sendto(sending.protect_rtcp(report), (HOST, media.port + 1))
        async with sinks.turn(made.name) as turn:
            await turn.write([SPOKEN], len(SPOKEN))
            await turn.flush()
            while turn.heard < len(SPOKEN):
                await turn.change()
        received = sinks.find(made.name).details()["received"]
        assert (received["packets"], received["strange"]) == (1, 1)
        sinks.find(made.name).hang_up()
        async with asyncio.timeout(10):
            while not phone.reports_raw:
                await asyncio.sleep(0.01)
    reading = Session(Policy(key=ours.key, ssrc_type=Policy.SSRC_ANY_INBOUND, srtp_profile=profile))
    packets = [parse(reading.unprotect(each)) for each in phone.raw]
    assert b"".join(each.payload for each in packets if each.payload != PCMU.silence) == SPOKEN
    assert isinstance(rtcp.parse(reading.unprotect_rtcp(phone.reports_raw[0]))[0], SenderReport)


async def test_a_law_is_spoken_in_its_own_silence() -> None:
    async with taking() as (calls, sinks), telephone() as phone:
        made = await calls.answer(offer(phone.reports_to, port=phone.port, formats="8"), None, "")
        assert sinks.find(made.name).player.format == Format(PCMA.encoding, 8000)
        await phone.has(2)
    assert {each.payload for each in phone.packets} == {b"\xd5" * 160}
