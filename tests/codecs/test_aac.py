import gc
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from oscine_codecs import aac
from oscine_codecs.aac import AacStream, Frames
from oscine_codecs.errors import CodecError, CodecFailed, CodecMissing
from tests.codecs.decoders import by_ffmpeg, delay, needs_ffmpeg
from tests.codecs.signals import RATE, Samples, voiced


def streamed(stream: AacStream, wave: Samples, block: int = 5000) -> bytes:
    return b"".join(stream.push(wave[at : at + block]) for at in range(0, len(wave), block)) + stream.finish()


def noisy(samples: int, rate: int) -> Samples:
    return voiced(samples, rate=rate) + np.random.default_rng(1).normal(0, 0.01, samples).astype(np.float32)


@needs_ffmpeg
@pytest.mark.parametrize(("rate", "bitrate"), [(8000, 24000), (44100, 96000)])
def test_it_decodes_late_by_what_it_says(rate: int, bitrate: int) -> None:
    wave = noisy(rate, rate)
    heard = by_ffmpeg(streamed(AacStream(rate, bitrate), wave), "aac")
    assert delay(wave, heard) == aac.DELAY
    assert len(heard) >= len(wave) + aac.DELAY


@needs_ffmpeg
def test_frames_come_as_they_are_made_and_a_flush_brings_the_rest() -> None:
    stream, frames, wave = AacStream(RATE, 64000), Frames(), noisy(RATE, RATE)
    said = b""
    for at in range(0, RATE, 3000):
        said += (new := stream.push(wave[at : at + 3000]))
        frames.push(new)
        assert frames.count >= stream.total // aac.FRAME - 2
    said += stream.flush()
    heard = by_ffmpeg(said, "aac")
    assert len(heard) >= RATE + aac.DELAY and stream.total - RATE <= 5 * aac.FRAME
    assert stream.flush() == b"", "nothing new has come"
    second = stream.total
    said += stream.push(wave) + stream.finish()
    assert delay(wave, by_ffmpeg(said, "aac")[second:]) == aac.DELAY


@needs_ffmpeg
def test_more_than_pipes_hold_goes_through_in_one_piece() -> None:
    wave = noisy(6 * 48000, 48000)
    assert len(by_ffmpeg(streamed(AacStream(48000, 256000), wave, len(wave)), "aac")) >= len(wave)


@needs_ffmpeg
def test_a_stream_that_is_given_up_leaves_no_process() -> None:
    closed, dropped = AacStream(RATE, 64000), AacStream(RATE, 64000)
    closed.push(voiced(5000))
    processes = [closed._process.pid, dropped._process.pid]
    closed.close()
    closed.close()
    with pytest.raises((CodecError, ValueError)):
        closed.push(voiced(50000))
    del closed, dropped
    gc.collect()
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@needs_ffmpeg
def test_a_process_that_dies_is_told_of() -> None:
    stream = AacStream(RATE, 64000)
    os.kill(stream._process.pid, signal.SIGKILL)
    with pytest.raises(CodecFailed, match="could not encode"):
        stream.push(voiced(RATE))


def program(folder: Path, script: str) -> None:
    path = folder / "ffmpeg"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_its_own_words_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "echo 'first' >&2; echo 'no such encoder' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(CodecFailed, match="no such encoder"):
        streamed(AacStream(RATE, 64000), voiced(RATE))


def test_one_that_hangs_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "exec sleep 600")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(aac, "PATIENCE_S", 0.2)
    stream = AacStream(RATE, 64000)
    began = time.monotonic()
    with pytest.raises(CodecFailed, match="longer than"):
        stream.push(voiced(RATE))
    assert time.monotonic() - began < 60
    stream.close()


def test_one_that_cannot_be_started_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ffmpeg").write_text("neither a program nor a script")
    (tmp_path / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(CodecFailed, match=r"could not be started \(Exec format error\)"):
        AacStream(RATE, 64000)


def test_without_ffmpeg_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not aac.available()
    with pytest.raises(CodecMissing, match="install ffmpeg"):
        AacStream(RATE, 64000)


@pytest.mark.parametrize(("rate", "bitrate", "message"), [(7000, 64000, "8000, 11025"), (8000, 1, "8000 to 256000")])
def test_what_aac_does_not_have_is_refused(rate: int, bitrate: int, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        AacStream(rate, bitrate)
