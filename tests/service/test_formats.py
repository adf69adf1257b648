"""Every encoding and container over gRPC."""

import asyncio
import io
import os
from pathlib import Path

import grpc
import pytest
import soundfile

from oscine_codecs.g711 import MULAW
from oscine_proto.oscine.v1 import speech_pb2 as pb
from tests.codecs.decoders import FFMPEG, by_libsndfile, needs_ffmpeg
from tests.service.calls import FLUSH, Heard, converse, text
from tests.service.conftest import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAIRS = [
    (pb.ENCODING_OPUS, pb.CONTAINER_OGG),
    (pb.ENCODING_PCM16, pb.CONTAINER_WAV),
    (pb.ENCODING_PCM_F32, pb.CONTAINER_RAW),
    (pb.ENCODING_MULAW, pb.CONTAINER_RAW),
    (pb.ENCODING_ALAW, pb.CONTAINER_WAV),
    (pb.ENCODING_MP3, pb.CONTAINER_UNSPECIFIED),
    (pb.ENCODING_FLAC, pb.CONTAINER_RAW),
    *([(pb.ENCODING_AAC, pb.CONTAINER_RAW)] if FFMPEG else []),
]


async def said(service: Service, format: pb.AudioFormat, *, flushes: bool = False) -> Heard:
    config = pb.SynthesizeConfig(audio=format, mode=pb.MODE_SENTENCE, seed=1)
    between = [FLUSH] if flushes else []
    sent = [pb.SynthesizeRequest(config=config), *text("Hi."), *between, *text(" Yes."), *between]
    heard = await converse(service.speech, sent)
    assert heard.code is grpc.StatusCode.OK, heard.details
    heard.check_contiguous()
    return heard


async def test_each_lasts_as_long_at_its_rate_and_is_told(service: Service) -> None:
    rate = 8000
    plain = await said(service, pb.AudioFormat(encoding=pb.ENCODING_PCM16))
    formats = [pb.AudioFormat(encoding=one, sample_rate=rate, container=other) for one, other in PAIRS]
    results = [await asyncio.gather(*(said(service, each) for each in formats[at : at + 4])) for at in (0, 4)]
    for asked, heard in zip(formats, [*results[0], *results[1]], strict=True):
        told = heard.responses[0].started.audio
        assert (told.encoding, told.sample_rate) == (asked.encoding, rate)
        assert told.container == (asked.container or pb.CONTAINER_RAW)
        assert heard.samples == -(-plain.samples * rate // 24000)
        assert heard.responses[-1].done.audio_seconds == heard.samples / rate


@pytest.mark.parametrize(("encoding", "container"), PAIRS)
async def test_a_flush_is_answered_where_what_was_sent_ends(
    service: Service, encoding: pb.Encoding, container: pb.Container
) -> None:
    format = pb.AudioFormat(encoding=encoding, sample_rate=48000, container=container)
    heard = await said(service, format, flushes=True)
    ends, position = [], 0
    for response in heard.responses:
        position += response.audio.samples
        if response.HasField("flushed"):
            ends.append((response.flushed.end_sample, position))
    assert len(ends) == 2 and all(told == sent for told, sent in ends)


async def test_what_telephones_and_files_hear(service: Service) -> None:
    plain = await said(service, pb.AudioFormat(encoding=pb.ENCODING_PCM16))
    telephone = await said(service, pb.AudioFormat(encoding=pb.ENCODING_MULAW, sample_rate=8000))
    assert MULAW.decode(b"".join(telephone.frames)).size == telephone.samples == -(-plain.samples // 3)
    wave = await said(service, pb.AudioFormat(encoding=pb.ENCODING_ALAW, container=pb.CONTAINER_WAV))
    with soundfile.SoundFile(io.BytesIO(b"".join(wave.frames))) as file:
        assert (file.samplerate, file.subtype, len(file.read(1 << 22))) == (24000, "ALAW", plain.samples)
    mp3 = await said(service, pb.AudioFormat(encoding=pb.ENCODING_MP3, sample_rate=44100))
    assert by_libsndfile(b"".join(mp3.frames))[1] == 44100


@needs_ffmpeg
async def test_an_encoder_that_is_waited_for_holds_up_nobody_else(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FFmpeg that ends only when the event loop has done something else."""
    at_the_end, go_on = tmp_path / "at_the_end", tmp_path / "go_on"
    program = tmp_path / "ffmpeg"
    waiting = f'touch "{at_the_end}"; while [ ! -e "{go_on}" ]; do sleep 0.05; done'
    program.write_text(f'#!/bin/sh\n"{FFMPEG}" "$@"\n{waiting}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    speaking = asyncio.create_task(said(service, pb.AudioFormat(encoding=pb.ENCODING_AAC)))
    while not at_the_end.exists() and not speaking.done():
        await asyncio.sleep(0.01)
    go_on.touch()
    assert (await speaking).samples > 0


async def test_an_encoder_that_breaks_down_is_no_fault_of_the_client(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\necho 'out of luck' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    config = pb.SynthesizeConfig(audio=pb.AudioFormat(encoding=pb.ENCODING_AAC), mode=pb.MODE_SENTENCE, seed=1)
    heard = await converse(service.speech, [pb.SynthesizeRequest(config=config), *text("Hi.")])
    assert (heard.code, heard.details) == (grpc.StatusCode.INTERNAL, "FFmpeg could not encode AAC (out of luck)")
