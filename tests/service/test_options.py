"""How to speak, as a client asks for it: over a real socket, on a model of random weights and on the embedded voice."""

import asyncio
import io
from typing import Any

import grpc
import numpy as np
import pytest
import soundfile

from oscine_engine.checkpoint import layout
from oscine_engine.checkpoint.voices import read_voices
from oscine_engine.settings import EngineSettings
from oscine_proto.oscine.v1 import speech_pb2 as pb
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from oscine_service.grpc.server import serving
from oscine_service.limits import Limits
from oscine_service.unit.front import unit
from tests.service.calls import Heard, converse, text
from tests.service.conftest import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENTENCE = "So it was said."


def asked(**fields: Any) -> pb.SynthesizeRequest:
    given = {"mode": pb.MODE_SENTENCE, "seed": 1, **fields}
    return pb.SynthesizeRequest(config=pb.SynthesizeConfig(audio=pb.AudioFormat(encoding=pb.ENCODING_PCM16), **given))


def wav(samples: np.ndarray, rate: int = 24000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV")
    return file.getvalue()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"speed": 0.49}, "speed: 0.49 is out of range; use 0.5 to 2"),
    ({"speed": float("nan")}, "speed: nan is out of range; use 0.5 to 2"),
    ({"temperature": 0.0}, "temperature: 0 is out of range; use 0.1 to 2"),
    ({"top_p": 1.01}, "top_p: 1.01 is out of range; use 0.01 to 1"),
    ({"top_k": 0}, "top_k: 0 is out of range; use 1 to 100"),
    ({"repetition_window": 11}, "repetition_window: 11 is out of range; this model looks back at 0 to 10"),
    ({"repetition_limit": 0}, "repetition_limit: 0 is out of range; use 1 to 100"),
    ({"language": "tlh"}, "language: 'tlh' is unknown; use one of zh, en,"),
    ({"language": "de"}, "language: this model does not read 'de'; it reads zh and en"),
    ({"instruction": "Whisper."}, "this model takes no instructions"),
    ({"pronunciations": {str(n): "x" for n in range(201)}}, "pronunciations: 201 words; at most 200"),
    ({"pronunciations": {" ": "x"}}, "pronunciations: ' ' is no word"),
    ({"reference": pb.Reference()}, "reference.audio: it is empty"),
    ({"reference": pb.Reference(audio=bytes(8 * 2**20 + 1))}, "reference.audio: 8388609 bytes; at most 8388608"),
    ({"reference": pb.Reference(audio=b"x", transcript="a" * 1001)}, "reference.transcript: 1001 characters"),
    ({"reference": pb.Reference(audio=b"x", language="fr")}, "reference.language: 'fr' is unknown; use en or zh"),
    (
        {"reference": pb.Reference(audio=b"x"), "voice": "synthetic"},
        "voice, reference: name a voice or",
    ),
    ({"reference": pb.Reference(audio=b"x")}, "reference: this service does not speak after recordings"),
]


@pytest.mark.parametrize(("fields", "details"), REFUSED, ids=[details.split(";")[0][:60] for _, details in REFUSED])
async def test_what_cannot_be_done_is_refused_by_the_name_of_its_field(
    service: Service, fields: dict[str, Any], details: str
) -> None:
    heard = await converse(service.speech, [asked(**fields), *text(SENTENCE)])
    assert (heard.code, heard.kinds) == (grpc.StatusCode.INVALID_ARGUMENT, [])
    assert details in heard.details


async def say(service: Service, written: str, **fields: Any) -> Heard:
    heard = await converse(service.speech, [asked(**fields), *text(written)])
    assert heard.code is grpc.StatusCode.OK, heard.details
    heard.check_contiguous()
    return heard


async def test_speech_is_as_fast_as_asked(service: Service) -> None:
    usual, fast, slow = await asyncio.gather(
        *(say(service, SENTENCE, speed=speed, trim=False) for speed in (1.0, 2.0, 0.5))
    )
    assert fast.samples == pytest.approx(usual.samples / 2, abs=2 * 480)
    assert slow.samples == pytest.approx(usual.samples * 2, abs=2 * 480)


async def test_a_part_of_the_text_may_ask_for_a_rate_of_its_own(service: Service) -> None:
    usual = await say(service, "One two three. Four five six.", trim=False)
    part = await say(service, 'One two three. <prosody rate="50%">Four five six.</prosody>', trim=False)
    assert 1.4 < part.samples / usual.samples < 1.6


async def test_a_language_and_readings_change_what_is_said(service: Service) -> None:
    """Random weights say as many ids as their text has, so that a reading can be told by its length."""
    for fields, written, same in (
        ({"language": "zh"}, "15%.", "百分之十五。"),
        ({"pronunciations": {"SQL": "sequel"}}, "I know SQL.", "I know sequel."),
    ):
        told, wanted, plain = [
            (await say(service, each, trim=False, **more)).pcm()
            for each, more in ((written, fields), (same, {}), (written, {}))
        ]
        assert np.array_equal(told, wanted)
        assert told.size != plain.size or not np.array_equal(told, plain)


async def test_ids_are_drawn_as_asked_and_so_again(service: Service) -> None:
    asks: list[dict[str, Any]] = [
        {"temperature": 1.9},
        {"top_p": 0.02},
        {"top_k": 1},
        {"repetition_window": 0},
        {"repetition_limit": 3},
    ]
    usual = (await say(service, SENTENCE, trim=False)).pcm()
    for fields in asks:
        both = await asyncio.gather(*(say(service, SENTENCE, trim=False, **fields) for _ in range(2)))
        told, again = (heard.pcm() for heard in both)
        assert told.size == usual.size and not np.allclose(told, usual, atol=1e-2), fields
        np.testing.assert_allclose(again, told, atol=1e-4)


@pytest.mark.slow
async def test_a_recording_is_spoken_after_through_an_engine_process() -> None:
    """The embedded voice after its own speech, with and without its words."""
    limits = Limits()
    options = (("grpc.enable_http_proxy", 0),)
    async with (
        unit(EngineSettings(references=True, session=limits.session)) as started,
        serving(started.front, "127.0.0.1", 0, limits=limits, grace_s=0) as server,
        grpc.aio.insecure_channel(server.address, options) as channel,
    ):
        stub = SpeechServiceStub(channel)
        words = "The train was late, so we walked."
        spoken = await converse(stub, [asked(voice="emma"), *text(words)])
        recording = wav(np.pad(spoken.pcm(), 2400))
        for reference, mode in (
            (pb.Reference(audio=recording), pb.MODE_INTERLEAVED),
            (pb.Reference(audio=recording, transcript=words, language="en"), pb.MODE_SENTENCE),
        ):
            heard = await converse(stub, [asked(reference=reference, mode=mode), *text("It will rain.")])
            assert heard.code is grpc.StatusCode.OK, heard.details
            assert heard.samples > 12000 and np.abs(heard.pcm()).max() > 0.02
            assert heard.responses[0].started.voice == ""
        files = layout.find()
        assert files.voices is not None and "reference" not in read_voices(files.voices, str)
        for audio, details in (
            (b"no sound at all", "reference.audio: not a readable audio file"),
            (wav(np.zeros(72000)), "silent"),
            (wav(spoken.pcm()[:6000]), "of speech; 1 s are the least"),
        ):
            heard = await converse(stub, [asked(reference=pb.Reference(audio=audio)), *text("It will rain.")])
            assert heard.code is grpc.StatusCode.INVALID_ARGUMENT and details in heard.details
        heard = await converse(stub, [asked(voice="reference"), *text("It will rain.")])
        assert heard.code is grpc.StatusCode.NOT_FOUND
