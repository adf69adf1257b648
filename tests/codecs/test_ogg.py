"""Files are judged by decoders that are not ours: libsndfile always, opusinfo and ffmpeg where installed."""

import io
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from oscine_codecs.errors import CodecError
from oscine_codecs.ogg import OggMuxer, OggOpusStream, checksum
from oscine_codecs.opus import OpusEncoder
from tests.codecs.decoders import needs_ffmpeg
from tests.codecs.signals import RATE, lag, snr_db, voiced


def ogg(wave: np.ndarray, block: int = 1000, bitrate: int = 64000, packets_per_page: int = 1) -> bytes:
    stream = OggOpusStream(OpusEncoder(bitrate=bitrate), packets_per_page=packets_per_page)
    parts = [stream.push(wave[at : at + block]) for at in range(0, len(wave), block)]
    return b"".join(parts) + stream.finish()


def pages(data: bytes) -> list[tuple[int, int, int, int, bytes]]:
    """(flags, granule, serial, sequence, body) of each page, by RFC 3533."""
    found = []
    at = 0
    while at < len(data):
        magic, version, flags, granule, serial, sequence, _, count = struct.unpack_from("<4sBBqIIIB", data, at)
        assert (magic, version) == (b"OggS", 0)
        size = sum(data[at + 27 : at + 27 + count])
        found.append((flags, granule, serial, sequence, data[at + 27 + count : at + 27 + count + size]))
        at += 27 + count + size
    return found


@pytest.mark.parametrize("packets_per_page", [1, 50])
@pytest.mark.parametrize("length", [0, 1, 167, 168, 169, 479, 480, 481, 24000, 54321])
def test_libsndfile_decodes_exactly_the_samples_in_place(length: int, packets_per_page: int) -> None:
    wave = voiced(length)
    heard, rate = soundfile.read(
        io.BytesIO(ogg(wave, packets_per_page=packets_per_page)), dtype="float32", always_2d=True
    )
    factor = rate // RATE  # libsndfile may decode at 48 kHz
    assert heard.shape == (length * factor, 1)
    if length >= 24000:
        aligned = heard[::factor, 0]
        assert abs(lag(wave, aligned, 48)) <= RATE // 1000
        assert snr_db(wave[480:], aligned[480:]) > 8


@pytest.mark.skipif(shutil.which("opusinfo") is None, reason="opusinfo (opus-tools) is not installed")
@pytest.mark.parametrize("packets_per_page", [1, 7, 50])
def test_opusinfo_finds_no_fault(tmp_path: Path, packets_per_page: int) -> None:
    path = tmp_path / "x.opus"
    path.write_bytes(ogg(voiced(54321), packets_per_page=packets_per_page))
    report = subprocess.run(["opusinfo", path], capture_output=True, text=True, check=True)
    text = report.stdout + report.stderr
    assert "WARNING" not in text
    assert "Playback length: 0m:02.263s" in text, text
    assert "Pre-skip: 312" in text


@needs_ffmpeg
def test_ffmpeg_decodes_exactly_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "x.opus"
    path.write_bytes(ogg(voiced(54321)))
    command = ["ffmpeg", "-v", "error", "-i", path, "-f", "s16le", "-ar", "48000", "-"]
    raw = subprocess.run(command, capture_output=True, check=True)
    assert not raw.stderr
    assert len(raw.stdout) == 54321 * 2 * 2


def test_page_order_flags_and_granules() -> None:
    found = pages(ogg(voiced(24001)))
    flags, granules, serials, sequence, bodies = zip(*found, strict=True)
    assert flags == (2, 0, *[0] * (len(found) - 3), 4)
    assert sequence == tuple(range(len(found)))
    assert len(set(serials)) == 1
    assert bodies[0].startswith(b"OpusHead\x01\x01")
    pre_skip, input_rate = struct.unpack_from("<HI", bodies[0], 10)
    assert (pre_skip, input_rate) == (312, 24000)
    assert bodies[1].startswith(b"OpusTags")
    assert granules[:-1] == (0, 0, *range(960, 960 * (len(found) - 2), 960))
    assert granules[-1] == pre_skip + 2 * 24001


def test_pages_come_as_soon_as_their_packet_is_full() -> None:
    stream = OggOpusStream(OpusEncoder())
    assert len(pages(stream.push(np.zeros(479, np.float32)))) == 2, "the headers come at once"
    assert len(pages(stream.push(np.zeros(1, np.float32)))) == 1
    assert stream.push(np.zeros(1, np.float32)) == b""


def test_how_samples_were_cut_does_not_change_the_file() -> None:
    wave = voiced(12345)
    assert ogg(wave, block=1) == ogg(wave, block=12345) == ogg(wave, block=997)


def test_checksum_against_bit_by_bit_division() -> None:
    data = np.random.default_rng(3).bytes(300)
    register = 0
    for byte in data:
        register ^= byte << 24
        for _ in range(8):
            register = ((register << 1) ^ (0x04C11DB7 if register & 0x80000000 else 0)) & 0xFFFFFFFF
    assert checksum(data) == register


def test_large_packets_share_pages_only_while_the_segment_table_has_room() -> None:
    muxer = OggMuxer(312, packets_per_page=50)
    big = bytes(1275)
    data = muxer.head() + b"".join(muxer.push(big) for _ in range(120)) + muxer.finish(big, 120 * 960)
    assert sum(len(body) for *_, body in pages(data)[2:]) == 121 * 1275


def test_the_end_must_lie_in_the_last_packet() -> None:
    muxer = OggMuxer(312)
    muxer.push(b"\x08")
    with pytest.raises(CodecError, match="outside its last packet"):
        muxer.finish(b"\x08", 4000)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="pre_skip"):
        OggMuxer(70000)
    with pytest.raises(ValueError, match="packets_per_page"):
        OggMuxer(312, packets_per_page=51)
    with pytest.raises(CodecError, match="too large"):
        OggMuxer(312).push(bytes(70000))
