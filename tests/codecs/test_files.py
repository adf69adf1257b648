import io
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from oscine_codecs import files, pcm, wav
from oscine_codecs.errors import CodecError
from tests.codecs.decoders import FFMPEG, needs_ffmpeg
from tests.codecs.signals import RATE, lag, snr_db, voiced


def encoded(samples: np.ndarray, rate: int, format: str, subtype: str | None = None) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, format=format, subtype=subtype)
    return buffer.getvalue()


def test_a_finished_wav_reads_back_exactly() -> None:
    data = pcm.encode(voiced(1001))
    samples, rate = files.decode(wav.header(RATE, 1001) + data)
    assert (rate, pcm.encode(samples)) == (RATE, data)


def test_a_streamed_wav_reads_to_its_end_and_can_be_finalised_in_place() -> None:
    data = pcm.encode(voiced(1001))
    streamed = wav.header(RATE) + data
    heard, rate = soundfile.read(io.BytesIO(streamed), dtype="int16")
    assert (rate, heard.tobytes()) == (RATE, data)
    assert wav.header(RATE, 1001) + streamed[wav.HEADER_SIZE :] == wav.header(RATE, 1001) + data


def test_wav_sizes_add_up() -> None:
    header = wav.header(RATE, 1001)
    riff, data = struct.unpack_from("<4xI", header)[0], struct.unpack_from("<I", header, 40)[0]
    assert (len(header), data, riff) == (wav.HEADER_SIZE, 2002, 2002 + 36)


@pytest.mark.parametrize("arguments", [(RATE, -1), (RATE, 1 << 31), (0, 5)])
def test_impossible_wav_headers_are_refused(arguments: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"WAV file|sample_rate"):
        wav.header(*arguments)


@pytest.mark.parametrize(("format", "rate"), [("WAV", 16000), ("FLAC", 44100), ("OGG", 48000), ("MP3", 22050)])
def test_formats_decode_to_mono_float(format: str, rate: int) -> None:
    wave = voiced(rate, rate=rate)
    samples, got = files.decode(encoded(np.stack([wave, wave], axis=1), rate, format))
    assert got == rate
    assert samples.dtype == np.float32
    assert abs(len(samples) - rate) < rate // 10
    assert 0.05 < np.sqrt(np.mean(samples**2)) < 0.5


def test_channels_are_averaged() -> None:
    both = np.stack([np.full(100, 0.5), np.full(100, -0.25)], axis=1).astype(np.float32)
    samples, _ = files.decode(encoded(both, RATE, "WAV", "FLOAT"))
    assert np.allclose(samples, 0.125)


@pytest.mark.parametrize(
    ("data", "limits", "message"),
    [
        (b"", {}, "not a readable audio file"),
        (b"this is no sound at all", {}, "not a readable audio file"),
        (encoded(np.zeros(0, np.float32), RATE, "WAV"), {}, "no samples"),
        (encoded(np.zeros(2 * RATE, np.float32), RATE, "FLAC"), {"max_seconds": 1.5}, "longer than 1.5 s"),
        (encoded(np.zeros(100, np.float32), RATE, "WAV"), {"max_bytes": 99}, "at most 99"),
        (encoded(np.zeros((10, 9), np.float32), RATE, "WAV"), {}, "9 channels"),
        (encoded(np.array([0, np.nan], np.float32), RATE, "WAV", "FLOAT"), {}, "NaN .* export it again"),
    ],
    # Not by what is in them: a WAV file of floats holds the time at which it was made.
    ids=["empty", "text", "no samples", "long", "large", "channels", "numbers"],
)
def test_bad_files_are_refused(data: bytes, limits: dict[str, float], message: str) -> None:
    with pytest.raises(CodecError, match=message):
        files.decode(data, **limits)


@needs_ffmpeg
@pytest.mark.parametrize(
    ("suffix", "codec"), [("m4a", ["-c:a", "aac"]), ("webm", ["-c:a", "libopus"]), ("aac", ["-f", "adts"])]
)
def test_what_libsndfile_cannot_read_goes_through_ffmpeg(tmp_path: Path, suffix: str, codec: list[str]) -> None:
    source, packed = tmp_path / "a.wav", tmp_path / f"a.{suffix}"
    sound = voiced(2 * RATE)
    source.write_bytes(encoded(sound, RATE, "WAV", "FLOAT"))
    command = ["ffmpeg", "-v", "error", "-i", str(source), *codec, str(packed)]
    subprocess.run(command, check=True, capture_output=True)
    heard, rate = files.decode(packed.read_bytes())
    heard = heard[:: rate // RATE]
    assert len(heard) == pytest.approx(2 * RATE, abs=3000)
    length = min(len(heard), len(sound)) - 3000
    heard = heard[max(0, lag(sound[:length], heard[:length], 1500)) :]
    assert snr_db(sound[1000:length], heard[1000:length]) > 10


def test_a_damaged_file_is_refused_without_a_word_beside(capfd: pytest.CaptureFixture[str]) -> None:
    whole = encoded(np.zeros(4800, np.float32), 16000, "AIFF", "PCM_24")
    with pytest.raises(CodecError, match="not a readable audio file"):
        files.decode(whole.replace(b"SSND", b"D"))  # which makes its reader look for a place before its start
    with pytest.raises(CodecError, match="NaN or infinity"):
        files.decode(encoded(np.array([np.inf, -np.inf] * 4000), 16000, "WAV", "DOUBLE"))
    assert capfd.readouterr().err == ""


@needs_ffmpeg
def test_nothing_of_a_recording_reaches_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tone = ["-f", "lavfi", "-i", "sine=440:d=1", "-f", "adts", "pipe:1"]
    packed = subprocess.run(["ffmpeg", "-v", "error", *tone], check=True, capture_output=True).stdout
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "is not there"))
    assert len(files.decode(packed)[0]) > 40000


@needs_ffmpeg
def test_what_grows_too_large_unpacked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = ["-f", "lavfi", "-i", "anullsrc=r=48000:cl=7.1", "-t", "3", "-f", "adts", "pipe:1"]
    packed = subprocess.run(["ffmpeg", "-v", "error", *silence], check=True, capture_output=True).stdout
    assert len(files.decode(packed)[0]) > 3 * 48000
    monkeypatch.setattr(files, "MAX_CONVERTED", 1 << 20)
    with pytest.raises(CodecError, match="1048576 bytes unpacked"):
        files.decode(packed)


def test_a_damaged_m4a_gets_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = b"\x00\x00\x00\x20ftypM4A " + bytes(100)
    if FFMPEG is not None:
        with pytest.raises(CodecError, match="not a readable audio file") as refused:
            files.decode(damaged)
        assert "/" not in str(refused.value)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CodecError, match="need FFmpeg"):
        files.decode(damaged)
