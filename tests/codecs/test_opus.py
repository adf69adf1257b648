import ctypes.util
import functools
import gc

import numpy as np
import pytest

from oscine_codecs import opus
from oscine_codecs.errors import CodecError, CodecMissing
from oscine_codecs.opus import OpusDecoder, OpusEncoder
from oscine_codecs.stream import OpusStream
from tests.codecs.signals import RATE, lag, snr_db, voiced


def decode_all(packets: list[bytes], rate: int = RATE) -> np.ndarray:
    decoder = OpusDecoder(rate)
    return np.concatenate([decoder.decode(packet) for packet in packets])


@pytest.mark.parametrize("length", [1, 323, 324, 325, 479, 480, 481, 24000, 31415])
def test_packets_decode_to_the_exact_samples_after_the_lookahead(length: int) -> None:
    wave = voiced(length)
    stream = OpusStream(OpusEncoder(bitrate=64000))
    packets = [packet for at in range(0, length, 777) for packet in stream.push(wave[at : at + 777])] + stream.finish()

    assert sum(packet.length for packet in packets) == stream.total == length
    assert [packet.start for packet in packets if packet.length] == list(range(0, length, 480))
    lookahead = stream.encoder.lookahead
    heard = decode_all([packet.data for packet in packets])[lookahead:]
    assert 0 <= len(heard) - length < 480, "padding must be the least that carries the last sample"
    if length >= 24000:
        assert abs(lag(wave, heard[:length], 48)) <= 2
        assert snr_db(wave[480:], heard[480:length]) > 8


def test_the_last_samples_are_audible() -> None:
    """A click 5 samples before the end needs the padding that pushes it through the encoder's delay."""
    wave = voiced(4795)
    wave[-200:] = 0.8 * np.sin(np.arange(200) * 0.3)
    stream = OpusStream(OpusEncoder(bitrate=64000))
    packets = stream.push(wave) + stream.finish()
    heard = decode_all([packet.data for packet in packets])[stream.encoder.lookahead :][: len(wave)]
    assert np.sqrt(np.mean(heard[-100:] ** 2)) > 0.4


def test_flush_makes_everything_decodable_and_the_stream_goes_on() -> None:
    wave = voiced(5000)
    stream = OpusStream(OpusEncoder(bitrate=64000))
    packets = stream.push(wave) + stream.flush()
    assert len(packets) * 480 == stream.total
    assert 0 <= stream.total - 5000 - stream.encoder.lookahead < 480
    assert stream.flush() == []
    more = stream.push(wave) + stream.finish()
    assert more[0].start == len(packets) * 480
    assert stream.total == sum(packet.length for packet in packets + more)


def test_pre_skip_is_in_48_khz_units() -> None:
    at_24, at_48 = OpusEncoder(24000), OpusEncoder(48000)
    assert at_24.pre_skip == 2 * at_24.lookahead
    assert at_48.pre_skip == at_48.lookahead > 0


@pytest.mark.parametrize("rate", opus.SAMPLE_RATES)
def test_all_rates(rate: int) -> None:
    wave = voiced(rate, rate=rate)
    stream = OpusStream(OpusEncoder(rate, bitrate=64000))
    packets = stream.push(wave) + stream.finish()
    heard = decode_all([packet.data for packet in packets], rate)[stream.encoder.lookahead :][:rate]
    assert abs(lag(wave, heard, rate // 500)) <= rate // 1000


def test_bitrate_is_obeyed() -> None:
    def coded_bits(bitrate: int) -> int:
        stream = OpusStream(OpusEncoder(bitrate=bitrate))
        return 8 * sum(len(packet.data) for packet in stream.push(voiced(10 * RATE)) + stream.finish())

    assert coded_bits(16000) < 10 * 16000 * 1.4
    assert 10 * 48000 * 0.6 < coded_bits(48000) < 10 * 48000 * 1.3
    assert OpusEncoder(bitrate=40000).bitrate == 40000


def test_fec_reaches_libopus() -> None:
    assert OpusEncoder(fec=True, packet_loss=20).fec
    assert not OpusEncoder().fec


def test_encoders_share_nothing() -> None:
    frames = voiced(4800).reshape(-1, 480)
    alone = OpusEncoder()
    expected = [alone.encode(frame) for frame in frames]
    first, second = OpusEncoder(), OpusEncoder()
    got = []
    for frame in frames:
        got.append(first.encode(frame))
        second.encode(-frame[::-1])
    assert got == expected


@pytest.mark.parametrize("length", [0, 1, 479, 481, 960])
def test_only_whole_frames_reach_the_encoder(length: int) -> None:
    with pytest.raises(CodecError, match=f"480 samples, got {length}"):
        OpusEncoder().encode(np.zeros(length, np.float32))


def test_samples_beyond_full_scale_are_clipped_and_nan_is_refused() -> None:
    loud = OpusEncoder().encode(np.full(480, 40.0, np.float32))
    assert loud == OpusEncoder().encode(np.ones(480, np.float32))
    with pytest.raises(CodecError, match="NaN"):
        OpusEncoder().encode(np.full(480, np.nan, np.float32))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sample_rate": 22050}, "24000"),
        ({"bitrate": 100}, "6000 to 510000"),
        ({"complexity": 11}, "0 to 10"),
        ({"packet_loss": 101}, "0 to 100"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(CodecError, match=message):
        OpusEncoder(**settings)


def test_corrupt_and_empty_packets_raise_with_libopus_text() -> None:
    with pytest.raises(CodecError, match="corrupted stream"):
        OpusDecoder().decode(b"\xff\xff\xff")
    with pytest.raises(CodecError, match="empty"):
        OpusDecoder().decode(b"")


def test_a_lost_packet_is_concealed_in_time() -> None:
    wave = voiced(9600)
    encoder, decoder = OpusEncoder(), OpusDecoder()
    packets = [encoder.encode(frame) for frame in wave.reshape(-1, 480)]
    heard = [decoder.conceal() if at == 10 else decoder.decode(packet) for at, packet in enumerate(packets)]
    assert [len(part) for part in heard] == [480] * 20
    assert np.abs(heard[10]).max() > 0.01


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    for cached in (opus.available, opus._opuslib):
        monkeypatch.setattr(opus, cached.__name__, functools.cache(cached.__wrapped__))
    assert not opus.available()
    with pytest.raises(CodecMissing, match="apt-get install libopus0"):
        OpusEncoder()


def test_states_are_freed() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    def churn(count: int) -> None:
        for _ in range(count):
            OpusEncoder()
            OpusDecoder()
        gc.collect()

    churn(200)
    before = resident()
    churn(2000)  # about 25 kB each: a leak would be some 100 MB
    assert resident() - before < 2000


def test_many_frames_at_once_are_what_they_are_one_by_one() -> None:
    wave = voiced(480 * 25)
    together, alone = OpusEncoder(), OpusEncoder()
    assert together.encode_all(wave) == [alone.encode(frame) for frame in wave.reshape(-1, 480)]
    assert together.encode_all(wave[:0]) == []
    with pytest.raises(CodecError, match="480 samples each"):
        together.encode_all(wave[:481])
