import math

import numpy as np
import pytest
import soundfile

from oscine_codecs import mp3, pcm
from oscine_codecs.errors import CodecError, CodecMissing
from oscine_codecs.sndfile import FlacStream, Mp3Stream
from tests.codecs.decoders import by_ffmpeg, by_libsndfile, delay, needs_ffmpeg
from tests.codecs.signals import RATE, Samples, snr_db, voiced

MP3_PAIRS = [
    (rate, mp3.bitrates(rate)[place]) for rate in mp3.SAMPLE_RATES for place in (1, len(mp3.bitrates(rate)) // 2)
]


def streamed(stream: FlacStream | Mp3Stream, wave: Samples, block: int = 1000) -> bytes:
    return b"".join(stream.push(wave[at : at + block]) for at in range(0, len(wave), block)) + stream.finish()


def completed(stream: FlacStream | Mp3Stream, wave: Samples) -> bytes:
    file = bytearray(streamed(stream, wave))
    for place, right in stream.amended:
        file[place : place + len(right)] = right
    return bytes(file)


@pytest.mark.parametrize("samples", [1, 1151, 1152, 1153, 24001])
def test_flac_gives_back_every_sample(samples: int) -> None:
    wave = voiced(samples)
    file = completed(FlacStream(RATE), wave)
    heard, rate = by_libsndfile(file)
    assert (rate, pcm.encode(heard)) == (RATE, pcm.encode(wave))
    # Past the head, where the sizes of frames, the length and the checksum are unknown, a stream is no different.
    stream = streamed(FlacStream(RATE), wave)
    assert (stream[:12], stream[42:]) == (file[:12], file[42:])
    assert int.from_bytes(stream[21:26], "big") & 0xFFFFFFFFF == 0 and not any(stream[26:42])


@needs_ffmpeg
@pytest.mark.parametrize("rate", [8000, 44100])
def test_ffmpeg_has_nothing_to_say_about_a_streamed_flac(rate: int) -> None:
    wave = voiced(20000, rate=rate)
    assert pcm.encode(by_ffmpeg(streamed(FlacStream(rate), wave), "flac")) == pcm.encode(wave)


@needs_ffmpeg
def test_flac_comes_as_it_is_made_and_a_flush_brings_the_rest() -> None:
    stream, wave = FlacStream(RATE), voiced(5000)
    first = stream.push(wave)
    assert 5000 - len(by_ffmpeg(first, "flac")) <= FlacStream.BLOCK
    more = stream.flush()
    assert stream.total - 5000 <= FlacStream.BLOCK
    assert pcm.encode(by_ffmpeg(first + more, "flac")[:5000]) == pcm.encode(wave)
    assert stream.flush() == b"", "nothing new has come"
    after = stream.push(wave) + stream.finish()
    heard = by_ffmpeg(first + more + after, "flac")
    assert pcm.encode(heard) == pcm.encode(np.concatenate([wave, np.zeros(len(heard) - 10000, np.float32), wave]))


@pytest.mark.parametrize(("rate", "bitrate"), MP3_PAIRS)
def test_mp3_is_late_by_what_it_says_at_every_rate(rate: int, bitrate: int) -> None:
    wave = voiced(rate, rate=rate)
    wave[: rate // 10] = 0
    wave += np.random.default_rng(1).normal(0, 0.002, rate).astype(np.float32)
    wave[: rate // 12] = 0
    file = streamed(Mp3Stream(rate, bitrate), wave)
    heard, got = by_libsndfile(file)
    assert got == rate and delay(wave, heard) == mp3.DELAY
    sizes = {(frame.bitrate, frame.sample_rate) for frame in frames(file)}
    assert sizes == {(bitrate, rate)}
    assert b"Info" not in file and b"Xing" not in file and not file.startswith(b"ID3")


def frames(file: bytes) -> list[mp3.Header]:
    """The headers of all frames, one behind the other without a gap."""
    found, at = [], 0
    while at < len(file):
        found.append(mp3.header(file[at : at + 4]))
        at += found[-1].size
    assert at == len(file)
    return found


@pytest.mark.parametrize(("rate", "bitrate"), [(8000, 32000), (22050, 64000), (24000, 64000), (44100, 128000)])
def test_a_whole_mp3_says_what_is_sound(rate: int, bitrate: int) -> None:
    wave = voiced(rate, rate=rate)
    file = completed(Mp3Stream(rate, bitrate, whole=True), wave)
    heard, _ = by_libsndfile(file)
    assert len(heard) == len(wave) and delay(wave, heard) == 0
    assert snr_db(wave, heard) > 8
    assert file.count(b"Info") == 1


@pytest.mark.parametrize(("rate", "bitrate"), [(24000, 32000), (24000, 64000), (44100, 128000), (8000, 64000)])
def test_after_a_flush_all_mp3_can_be_decoded_and_the_stream_goes_on(rate: int, bitrate: int) -> None:
    stream, wave = Mp3Stream(rate, bitrate), voiced(rate // 2, rate=rate)
    start = stream.push(wave) + stream.flush()
    assert len(by_libsndfile(start)[0]) >= len(wave) + mp3.DELAY
    assert stream.total - len(wave) <= 9 * mp3.frame_samples(rate)
    assert stream.flush() == b"", "nothing new has come"
    second = stream.total
    heard, _ = by_libsndfile(start + stream.push(wave) + stream.finish())
    assert delay(wave, heard[second:]) == mp3.DELAY


@needs_ffmpeg
def test_ffmpeg_has_nothing_to_say_about_a_streamed_mp3() -> None:
    wave = voiced(RATE)
    heard = by_ffmpeg(streamed(Mp3Stream(RATE, 64000), wave), "mp3")
    assert delay(wave, heard) == mp3.DELAY and len(heard) >= RATE + mp3.DELAY


@pytest.mark.parametrize("make", [lambda: FlacStream(RATE), lambda: Mp3Stream(RATE, 64000)])
@pytest.mark.parametrize("block", [1, 999])
def test_how_samples_were_cut_does_not_change_a_byte(make: object, block: int) -> None:
    assert callable(make)
    wave = voiced(6000)
    assert streamed(make(), wave, block) == streamed(make(), wave, 6000)


@pytest.mark.parametrize(
    ("rate", "bitrate", "message"),
    [(24001, 64000, "takes sample rates 8000"), (24000, 65000, "24000 Hz has bit rates 8000"), (8000, 128000, "64000")],
)
def test_what_mp3_does_not_have_is_refused(rate: int, bitrate: int, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        Mp3Stream(rate, bitrate)


def test_bad_samples_are_refused_and_loud_ones_clipped() -> None:
    for stream in (FlacStream(RATE), Mp3Stream(RATE, 64000)):
        with pytest.raises(CodecError, match="NaN"):
            stream.push(np.array([math.nan]))
    heard, _ = by_libsndfile(completed(FlacStream(RATE), np.full(2000, 7.0, np.float32)))
    assert set(pcm.steps(heard).tolist()) == {32767}


@pytest.mark.parametrize(
    "data", [b"\xff\xf3\x94", b"RIFF", b"\xff\xf3\xf4\xc4", b"\xff\xeb\x94\xc4", b"\xff\xf3\x9c\xc4"]
)
def test_what_is_no_frame_is_told(data: bytes) -> None:
    if len(data) < 4:
        assert mp3.Frames().push(data, keep_info=False) == b""
    else:
        with pytest.raises(CodecError, match="not a header"):
            mp3.header(data)


def test_a_libsndfile_without_mp3_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soundfile, "available_formats", lambda: {"FLAC": ""})
    FlacStream(RATE)
    with pytest.raises(CodecMissing, match=r"libsndfile 1\.2"):
        Mp3Stream(RATE, 64000)
