"""A stream without a clock: what a tick sends, and what it counts as heard."""

import asyncio

import pytest

from oscine_service.audio import Encoding, Format
from oscine_service.telephony.rtp.clock import PERIOD_NS
from oscine_service.telephony.rtp.codecs import OPUS, PCMU, Codec
from oscine_service.telephony.rtp.packet import Packet, parse
from oscine_service.telephony.rtp.stream import AHEAD_S, TELL_EVERY, Stream


class Sound:
    """A stream, and the packets that it has sent."""

    def __init__(self, codec: Codec = PCMU, format: Format | None = None) -> None:
        self.packets: list[Packet] = []
        format = format or Format(Encoding.MULAW, 8000)
        self.stream = Stream(codec, format, 0, 7, lambda data: self.packets.append(parse(data)))
        self._number = 0

    def ticks(self, count: int = 1) -> list[bool]:
        told = []
        for _ in range(count):
            told.append(self.stream.tick(self._number))
            self._number += 1
        return told


async def test_half_a_frame_waits_for_its_rest_and_a_flush_fills_it_up() -> None:
    sound = Sound()
    await sound.stream.write([b"a" * 100], 100)
    sound.ticks()
    assert sound.packets[-1].payload == PCMU.silence and sound.stream.heard == 0
    await sound.stream.write([b"b" * 100], 100)
    sound.ticks()
    assert sound.packets[-1].payload == b"a" * 100 + b"b" * 60 and sound.stream.heard == 160
    await sound.stream.flush()
    sound.ticks()
    assert sound.packets[-1].payload == b"b" * 40 + b"\xff" * 120 and sound.stream.heard == 200
    assert sound.stream.given == 200


async def test_a_tick_tells_of_points_of_the_end_and_now_and_then() -> None:
    sound = Sound()
    assert sound.ticks(3) == [False, False, False]
    await sound.stream.write([bytes(160 * 3)], 480)
    await sound.stream.point()
    await sound.stream.write([bytes(160 * TELL_EVERY)], 160 * TELL_EVERY)
    told = sound.ticks(3 + TELL_EVERY + 2)
    assert [n for n, each in enumerate(told, 1) if each] == [3, TELL_EVERY, 3 + TELL_EVERY + 1]
    await sound.stream.point()
    assert sound.ticks() == [True]


async def test_a_hole_in_time_is_told_by_timestamp_and_marker_and_costs_no_speech() -> None:
    sound = Sound()
    await sound.stream.write([b"a" * 160 + b"b" * 160], 320)
    sound.ticks()
    sound._number += 10
    sound.ticks()
    first, second = sound.packets
    assert (first.payload[:1], second.payload[:1]) == (b"a", b"b")
    assert (second.sequence - first.sequence) % 65536 == 1
    assert (second.timestamp - first.timestamp) % 2**32 == 11 * 160 and second.marker
    assert sound.stream.sent.skipped == 10


async def test_opus_packets_are_counted_by_what_they_hold() -> None:
    sound = Sound(OPUS, Format(Encoding.OPUS, 16000))
    await sound.stream.write([b"one", b"two", b"three"], 320 + 100)
    sound.ticks()
    assert sound.stream.heard == 320
    # Who has heard all samples has heard all packets.
    sound.ticks()
    assert sound.stream.heard < 420
    sound.ticks(2)
    assert [each.payload for each in sound.packets] == [b"one", b"two", b"three", OPUS.silence]
    assert sound.stream.heard == sound.stream.given == 420


async def test_timestamps_lie_on_one_line_with_time() -> None:
    sound = Sound()
    sound.stream.began(5 * PERIOD_NS)
    sound.ticks(3)
    for number, packet in enumerate(sound.packets):
        assert sound.stream.timestamp((5 + number) * PERIOD_NS) == packet.timestamp
    assert (sound.stream.timestamp(5 * PERIOD_NS + PERIOD_NS // 2) - sound.packets[0].timestamp) % 2**32 == 80


async def test_a_position_goes_back_by_what_a_clear_drops() -> None:
    sound = Sound()
    told: list[int] = []
    sound.stream.tell = lambda: told.append(sound.stream.heard)
    await sound.stream.write([bytes(1000)], 1000)
    sound.ticks(2)
    assert await sound.stream.clear() == 320 == sound.stream.given
    assert told == [320]
    sound.ticks(2)
    assert sound.stream.heard == 320 and sound.packets[-1].payload == PCMU.silence


async def test_so_much_may_be_ahead_at_once() -> None:
    sound = Sound()
    most = round(8000 * AHEAD_S)
    await sound.stream.write([bytes(most)], most)
    await sound.stream.write([bytes(8000)], 8000)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await sound.stream.write([bytes(160)], 160)
    assert sound.stream.given == most + 8000
