"""Every format there is, by decoders that are not ours, and the positions that clients count by."""

import io
import itertools
import math

import numpy as np
import pytest
import soundfile

from oscine_codecs import pcm
from oscine_codecs.g711 import ALAW, MULAW
from oscine_codecs.ogg import OggMuxer
from oscine_engine.errors import InvalidInput
from oscine_service.audio import SAMPLE_RATE, Block, Container, Encoding, Format, Positions, Writer, whole, writer
from oscine_service.audio.formats import CONTAINERS, bitrates, default_bitrate, rates
from tests.codecs.decoders import FFMPEG, by_ffmpeg, by_libsndfile, delay
from tests.codecs.signals import Samples, voiced

EVERY = [(encoding, container) for encoding in Encoding for container in CONTAINERS[encoding]]
RUNNABLE = [each for each in EVERY if each[0] is not Encoding.AAC or FFMPEG is not None]
FORMATS = [
    Format(encoding, rate, 0, container)
    for encoding, container in RUNNABLE
    for rate in ((8000, 24000) if encoding is Encoding.AAC else (8000, 24000, 48000))
]
LATE = {Encoding.MP3: 1105, Encoding.AAC: 1024}
"""Samples by which decoders that are told of no delay are late."""


def name(format: Format) -> str:
    return f"{format.encoding}-{format.container}-{format.sample_rate}"


def blocks(sink: Writer, wave: Samples, sizes: list[int]) -> list[Block]:
    """`wave` written in pieces of `sizes`, over and over, to its end."""
    found, at = [], 0
    for size in itertools.cycle(sizes):
        if at >= len(wave):
            break
        found.append(sink.push(wave[at : at + size]))
        at += size
    found.append(sink.finish())
    return [block for block in found if block is not None]


def contiguous(found: list[Block]) -> int:
    """Where the last block ends, if each begins where the one before ended."""
    end = 0
    for block in found:
        assert block.start == end
        end += block.samples
    return end


def at(sample_rate: int, file: bytes) -> Samples:
    """Opus may be decoded at a multiple of the rate that its head tells of."""
    samples, rate = by_libsndfile(file)
    return samples[:: rate // sample_rate]


def heard(format: Format, frames: list[bytes], samples: int, pre_skip: int) -> Samples:
    """What a client hears: `frames` decoded, with what the protocol tells (raw Opus) or nothing but the bytes."""
    data = b"".join(frames)
    match format.encoding, format.container:
        case Encoding.OPUS, Container.RAW:
            muxer = OggMuxer(pre_skip, format.sample_rate)
            *body, last = frames
            length = samples * 48000 // format.sample_rate
            file = muxer.head() + b"".join(map(muxer.push, body)) + muxer.finish(last, length)
            return at(format.sample_rate, file)
        case Encoding.OPUS, _:
            return at(format.sample_rate, data)
        case Encoding.FLAC, _:
            return by_ffmpeg(data, "flac")
        case Encoding.AAC, _:
            return by_ffmpeg(data, "aac")
        case Encoding.MP3, _:
            return by_libsndfile(data)[0]
        case _, Container.WAV:
            samples_read, rate = by_libsndfile(data)
            assert rate == format.sample_rate
            return samples_read
        case Encoding.MULAW, _:
            return MULAW.decode(data)
        case Encoding.ALAW, _:
            return ALAW.decode(data)
        case Encoding.PCM_F32, _:
            return np.frombuffer(data, "<f4")
        case _:
            return pcm.decode(data)


@pytest.mark.parametrize("format", FORMATS, ids=name)
def test_what_is_heard_is_what_was_said(format: Format) -> None:
    if format.encoding is Encoding.FLAC and FFMPEG is None:
        pytest.skip("ffmpeg is not installed")
    wave = voiced(SAMPLE_RATE // 2) + np.random.default_rng(1).normal(0, 0.01, SAMPLE_RATE // 2).astype(np.float32)
    sink = writer(format)
    found = blocks(sink, wave, [7672, 1, 480, 0])
    end = contiguous(found)
    assert end == format.sample_rate // 2
    got = heard(format, [frame for block in found for frame in block.frames], end, sink.pre_skip)
    said = voiced(format.sample_rate // 2, rate=format.sample_rate)
    late = LATE.get(format.encoding, 0)
    assert abs(delay(said, got) - late) <= (format.sample_rate // 2000 if format.encoding is Encoding.OPUS else 2)
    assert len(got) >= end + late
    if not late:
        assert len(got) == end


@pytest.mark.parametrize("format", FORMATS, ids=name)
def test_a_flush_brings_all_of_it_and_the_stream_goes_on(format: Format) -> None:
    if format.encoding in (Encoding.FLAC, Encoding.AAC) and FFMPEG is None:
        pytest.skip("ffmpeg is not installed")
    wave, sink = voiced(7001), writer(format)
    early = [block for block in (sink.push(wave), sink.flush()) if block is not None]
    sent = contiguous(early)
    now = -(-len(wave) * format.sample_rate // SAMPLE_RATE)
    assert sent >= now
    if format.encoding is not Encoding.OPUS or format.container is not Container.RAW:
        got = heard(format, [frame for block in early for frame in block.frames], sent, sink.pre_skip)
        assert len(got) >= now
    assert sink.flush() is None, "nothing new has come"
    found = early + [block for block in (sink.push(wave), sink.finish()) if block is not None]
    assert contiguous(found) == sent + now


@pytest.mark.parametrize("format", FORMATS, ids=name)
def test_nothing_is_nothing(format: Format) -> None:
    sink = writer(format)
    assert [sink.push(np.zeros(0, np.float32)), sink.flush(), sink.finish()] == [None] * 3
    sink.close()
    sink.close()
    assert whole(format, np.zeros(0, np.float32)) == b""


@pytest.mark.parametrize("rate", rates(Encoding.PCM16))
def test_files_of_every_rate_say_which_it_is_and_last_as_long(rate: int) -> None:
    wave = voiced(SAMPLE_RATE)
    for encoding, container in RUNNABLE:
        if encoding in (Encoding.PCM16, Encoding.MULAW, Encoding.FLAC, Encoding.MP3) and (
            container is Container.WAV or encoding in (Encoding.FLAC, Encoding.MP3)
        ):
            file = whole(Format(encoding, rate, 0, container), wave)
            info = soundfile.info(io.BytesIO(file))
            assert (info.samplerate, info.frames, info.channels) == (rate, rate, 1)
            for head in (b"RIFF", b"fLaC", b"ID3"):
                assert file.count(head) == file.startswith(head)


@pytest.mark.parametrize("format", [Format(Encoding.OPUS, 24000, 0, Container.OGG), Format(Encoding.ALAW, 8000)])
def test_a_whole_stream_that_has_no_head_to_fill_in_is_that_stream(format: Format) -> None:
    wave = voiced(5001)
    assert whole(format, wave) == b"".join(f for block in blocks(writer(format), wave, [999]) for f in block.frames)


def test_a_wav_with_an_odd_number_of_bytes_is_padded_as_riff_wants() -> None:
    file = whole(Format(Encoding.MULAW, 24000, 0, Container.WAV), voiced(1001))
    assert len(file) % 2 == 0 and int.from_bytes(file[4:8], "little") + 8 == len(file)


def test_a_telephone_s_silence_is_silent() -> None:
    block = writer(Format(Encoding.ALAW, 8000)).push(np.zeros(4800, np.float32))
    assert block is not None and set(block.frames[0]) == {0xD5}


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 24000, 44100, 48000])
def test_positions_lie_on_each_other_and_nothing_runs_backwards(rate: int) -> None:
    positions = Positions(rate)
    made = sent = 0
    marks = [(0, 0, 0)]
    for size, silence in [(1000, 0), (480, 7), (0, 0), (7, 300), (4801, 0), (3, 0), (1, 1)]:
        made += size
        begin = sent + math.ceil(size * rate / SAMPLE_RATE)
        sent = begin + (silence if size else 0)
        positions.flushed(made, sent)
        if size:
            marks.append((made, begin, sent))
    for made, begin, end in marks:
        assert positions.made(begin) == positions.made(end) == made
        assert positions.sent(made) == begin
    walk = [positions.made(sample) for sample in range(sent + 100)]
    # Never further on than the time that went by.
    assert all(0 <= later - earlier <= SAMPLE_RATE // rate + 1 for earlier, later in itertools.pairwise(walk))
    assert all(abs(positions.sent(positions.made(at)) - at) <= 300 + rate // SAMPLE_RATE for at in range(sent))
    assert positions.sent(made + SAMPLE_RATE) == sent + rate


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoding": Encoding.OPUS, "sample_rate": 44100}, "sample_rate: 44100.*8000, 12000, 16000, 24000, 48000"),
        ({"encoding": Encoding.PCM16, "sample_rate": 96000}, "sample_rate: 96000.*48000"),
        ({"encoding": Encoding.OPUS, "bitrate": 5999}, "bitrate: 5999.*6000 to 128000"),
        ({"encoding": Encoding.MP3, "bitrate": 63000}, "bitrate: 63000.*56000, 64000"),
        ({"encoding": Encoding.PCM16, "bitrate": 64000}, "bitrate: 64000.*leave it 0"),
        ({"encoding": Encoding.MP3, "container": Container.OGG}, "container: ogg.*use raw"),
        ({"encoding": Encoding.OPUS, "container": Container.WAV}, "container: wav.*raw or ogg"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Format(**arguments)  # type: ignore[arg-type]


def test_defaults_are_legal_and_told() -> None:
    for encoding, container in EVERY:
        for rate in rates(encoding):
            format = Format(encoding, rate, 0, container)
            assert format.bitrate == default_bitrate(encoding, rate)
            assert not format.bitrate or format.bitrate in bitrates(encoding, rate)
            assert format.media_type.startswith("audio/")
