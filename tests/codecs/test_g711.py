"""Bit for bit what ITU-T's reference software says, for every sample there is, and what libsndfile reads."""

import io

import numpy as np
import pytest
import soundfile

from oscine_codecs import pcm, wav
from oscine_codecs.g711 import ALAW, MULAW, Law
from tests.codecs.signals import snr_db, voiced

EVERY = np.arange(-32768, 32768)


def mulaw_by_the_book(sample: int) -> int:
    """G.191, ulaw_compress: 14 bits of magnitude in ones' complement, 33 added, the leading bit found."""
    size = min(((~sample if sample < 0 else sample) >> 2) + 33, 0x1FFF)
    segment = size.bit_length() - 5
    code = (8 - segment) << 4 | 15 - (size >> segment & 15)
    return code | 0x80 if sample >= 0 else code


def alaw_by_the_book(sample: int) -> int:
    """G.191, alaw_compress: 12 bits of magnitude in ones' complement, the leading bit found."""
    size = (~sample if sample < 0 else sample) >> 4
    segment = 0
    if size > 15:
        segment = size.bit_length() - 4
        size = size >> (segment - 1) & 15
    return ((segment << 4 | size) | (0x80 if sample >= 0 else 0)) ^ 0x55


@pytest.mark.parametrize(("law", "book"), [(MULAW, mulaw_by_the_book), (ALAW, alaw_by_the_book)])
def test_every_sample_gets_the_code_of_the_reference(law: Law, book: object) -> None:
    assert callable(book)
    assert law.encode(EVERY.astype(np.float32) / 32768) == bytes(book(int(sample)) for sample in EVERY)


@pytest.mark.parametrize(("law", "subtype"), [(MULAW, "ULAW"), (ALAW, "ALAW")])
def test_every_code_means_what_libsndfile_reads(law: Law, subtype: str) -> None:
    codes = bytes(range(256))
    read, _ = soundfile.read(
        io.BytesIO(codes), samplerate=8000, channels=1, format="RAW", subtype=subtype, dtype="int16"
    )
    assert pcm.steps(law.decode(codes)).tolist() == read.tolist()
    assert law.encode(law.decode(codes)) == codes or law is MULAW
    # Mu-law has two zeros, and the negative one is no sample of its own.
    assert MULAW.encode(MULAW.decode(codes)) == codes.replace(b"\x7f", b"\xff")


@pytest.mark.parametrize("law", [MULAW, ALAW])
def test_silence_is_the_code_of_zero_and_nothing_is_louder_than_full_scale(law: Law) -> None:
    assert law.encode(np.zeros(3)) == bytes([law.silence] * 3)
    assert abs(law.decode(bytes([law.silence]))[0]) <= 8 / 32768
    assert law.encode(np.array([2.0, -2.0])) == law.encode(np.array([1.0, -1.0]))


@pytest.mark.parametrize("law", [MULAW, ALAW])
def test_speech_survives(law: Law) -> None:
    wave = voiced(8000, rate=8000)
    assert snr_db(wave, law.decode(law.encode(wave))) > 35


@pytest.mark.parametrize(
    ("coding", "encode", "subtype"),
    [
        (wav.Coding.MULAW, MULAW.encode, "ULAW"),
        (wav.Coding.ALAW, ALAW.encode, "ALAW"),
        (wav.Coding.FLOAT32, pcm.encode_f32, "FLOAT"),
        (wav.Coding.PCM16, pcm.encode, "PCM_16"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_wav_of_each_coding_reads_back(coding: wav.Coding, encode: object, subtype: str, known: bool) -> None:
    assert callable(encode)
    wave = voiced(1001, rate=11025)
    data = encode(wave)
    file = wav.header(11025, len(wave) if known else None, coding) + data + bytes(len(data) % 2 if known else 0)
    with soundfile.SoundFile(io.BytesIO(file)) as read:
        assert (read.samplerate, read.subtype, read.channels) == (11025, subtype, 1)
        samples = read.read(4000, dtype="float32")
    assert len(samples) == 1001
    assert encode(samples) == data
    if known:
        assert int.from_bytes(file[4:8], "little") + 8 == len(file)
