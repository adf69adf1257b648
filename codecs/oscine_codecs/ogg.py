"""Ogg Opus files and streams (RFC 3533 pages, RFC 7845 mapping), written page by page as packets come."""

import struct
import zlib

import numpy.typing as npt

from oscine_codecs.errors import CodecError
from oscine_codecs.opus import OpusEncoder
from oscine_codecs.stream import OpusStream

_CONTINUES_NOT, _FIRST, _LAST = 0, 2, 4
_MAX_SEGMENTS = 255
_REVERSED_BITS = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))
_PACKET_TICKS = 960  # 20 ms in the 48 kHz units of granule positions
VENDOR = b"oscine"


def checksum(page: bytes) -> int:
    """Ogg's CRC-32: polynomial 0x04c11db7, most significant bit first, from zero.

    zlib's CRC has the same polynomial but reads bits in the other order and inverts at both ends.
    """
    mirrored = zlib.crc32(page.translate(_REVERSED_BITS), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_REVERSED_BITS), "big")


def _lacing(packet: bytes) -> bytes:
    whole, rest = divmod(len(packet), 255)
    return b"\xff" * whole + bytes([rest])


class OggMuxer:
    """Packets of 20 ms -> pages. `pre_skip` is in 48 kHz units, `sample_rate` what the encoder was fed (informative).

    Each page takes up to `packets_per_page` packets: 1 keeps latency lowest, 50 saves a quarter of the bytes in files.
    """

    def __init__(self, pre_skip: int, sample_rate: int = 24000, *, serial: int = 1, packets_per_page: int = 1) -> None:
        if not 0 <= pre_skip <= 0xFFFF:
            raise ValueError(f"pre_skip must fit 16 bits, got {pre_skip}")
        if not 1 <= packets_per_page <= 50:
            raise ValueError(
                f"packets_per_page must be 1 to 50, so that a page spans at most 1 s, got {packets_per_page}"
            )
        self.pre_skip = pre_skip
        self._sample_rate = sample_rate
        self._serial = serial
        self._packets_per_page = packets_per_page
        self._pending: list[bytes] = []
        self._packets = 0
        self._pages = 0

    def head(self) -> bytes:
        """The identification and comment pages; send them before anything else."""
        identification = struct.pack("<8sBBHIhB", b"OpusHead", 1, 1, self.pre_skip, self._sample_rate, 0, 0)
        comments = struct.pack(f"<8sI{len(VENDOR)}sI", b"OpusTags", len(VENDOR), VENDOR, 0)
        return self._page([identification], _FIRST, 0) + self._page([comments], _CONTINUES_NOT, 0)

    def push(self, packet: bytes) -> bytes:
        """Add one packet that is not the stream's last; return the bytes now ready, often none."""
        ready = self._make_room(packet)
        self._pending.append(packet)
        if len(self._pending) == self._packets_per_page:
            ready += self._drain()
        return ready

    def flush(self) -> bytes:
        """The packets that wait for a page to fill, on a page of their own, if there are any."""
        return self._drain() if self._pending else b""

    def finish(self, packet: bytes, samples_48k: int) -> bytes:
        """Add the last packet and close. `samples_48k` is the stream's true length, pre-skip excluded, at 48 kHz;
        it must lie within the last packet, since decoders cut there and nowhere earlier."""
        ready = self._make_room(packet)
        end = self.pre_skip + samples_48k
        before = (self._packets + len(self._pending)) * _PACKET_TICKS
        if not before <= end <= before + _PACKET_TICKS:
            raise CodecError(
                f"the stream would end at {end}, outside its last packet ({before} to {before + _PACKET_TICKS})"
            )
        self._pending.append(packet)
        return ready + self._page(self._pending, _LAST, end)

    def _make_room(self, packet: bytes) -> bytes:
        """Drain first if this packet's lacing would overflow the page's segment table."""
        segments = sum(len(_lacing(each)) for each in (*self._pending, packet))
        return self._drain() if segments > _MAX_SEGMENTS else b""

    def _drain(self) -> bytes:
        self._packets += len(self._pending)
        page = self._page(self._pending, _CONTINUES_NOT, self._packets * _PACKET_TICKS)
        self._pending = []
        return page

    def _page(self, packets: list[bytes], flags: int, granule: int) -> bytes:
        lacing = b"".join(map(_lacing, packets))
        if not 0 < len(lacing) <= _MAX_SEGMENTS:
            raise CodecError(
                f"an Ogg page takes 1 to {_MAX_SEGMENTS} segments, got {len(lacing)}; the packet is too large"
            )
        start = struct.pack("<4sBBqII", b"OggS", 0, flags, granule, self._serial, self._pages)
        rest = bytes([len(lacing)]) + lacing + b"".join(packets)
        self._pages += 1
        return start + struct.pack("<I", checksum(start + bytes(4) + rest)) + rest


class OggOpusStream:
    """One stream's samples -> an Ogg Opus file: `push` blocks of any size, then `finish` once.

    The file decodes to exactly the samples pushed. The headers come with the first bytes returned.
    """

    def __init__(self, encoder: OpusEncoder, *, serial: int = 1, packets_per_page: int = 1) -> None:
        self._opus = OpusStream(encoder)
        self._muxer = OggMuxer(encoder.pre_skip, encoder.sample_rate, serial=serial, packets_per_page=packets_per_page)
        self._head = self._muxer.head()

    @property
    def total(self) -> int:
        """Samples of the stream so far."""
        return self._opus.total

    def push(self, block: npt.ArrayLike) -> bytes:
        """Float samples [n] -> the bytes now ready (with whole pages only)."""
        return self._take_head() + b"".join(self._muxer.push(packet.data) for packet in self._opus.push(block))

    def flush(self) -> bytes:
        """Add the least silence that makes all of `total` decodable now; the stream goes on after it."""
        packets = b"".join(self._muxer.push(packet.data) for packet in self._opus.flush())
        return self._take_head() + packets + self._muxer.flush()

    def finish(self) -> bytes:
        """The last pages, trimmed to the exact sample."""
        *tail, last = self._opus.finish()
        length = self.total * 48000 // self._opus.encoder.sample_rate
        pages = b"".join(self._muxer.push(packet.data) for packet in tail)
        return self._take_head() + pages + self._muxer.finish(last.data, length)

    def close(self) -> None:
        """Nothing is held but memory."""

    def _take_head(self) -> bytes:
        head, self._head = self._head, b""
        return head
