"""SpeechService.Synthesize over a real socket, with the embedded voice: what goes well."""

import asyncio

import numpy as np
import pytest

from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_proto.oscine.v1 import speech_pb2 as pb
from tests.service.calls import FLUSH, RATE, config, converse, decode_opus, text
from tests.service.conftest import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENTENCES = "Good morning, dear friend. It rains."


@pytest.fixture(scope="session")
def checkpoint() -> Checkpoint:
    return load()


async def test_a_call_starts_sounds_and_ends(service: Service) -> None:
    heard = await converse(service.speech, [config(seed=7), *text(SENTENCES)])
    assert heard.kinds[0] == "started"
    assert heard.kinds[-1] == "done"
    assert set(heard.kinds[1:-1]) == {"audio"}
    started, done = heard.responses[0].started, heard.responses[-1].done
    assert (started.voice, started.seed, started.mode) == (next(iter(service.engine.voices)), 7, pb.MODE_SENTENCE)
    assert started.audio.sample_rate == RATE
    assert done.segments == 2
    assert done.audio_seconds == heard.samples / RATE
    assert done.first_packet_seconds > 0
    heard.check_contiguous()
    assert heard.samples == heard.pcm().size


async def test_a_mandarin_voice_speaks_mandarin(service: Service) -> None:
    voice = next(name for name, each in service.engine.voices.items() if each.language == "zh")
    heard = await converse(service.speech, [config(voice), *text("你好,", "今天天气", "很好。")])
    assert heard.responses[0].started.voice == voice
    # Nine syllables, a natural one taking 0.1 to 0.5 seconds.
    assert 0.9 < heard.responses[-1].done.audio_seconds < 4.5


async def test_letters_that_were_left_out_are_told(service: Service) -> None:
    heard = await converse(service.speech, [config(), *text("Yes, да.")])
    assert heard.responses[-1].done.unspoken_characters == 2


async def test_opus_carries_the_samples_that_pcm_carries(service: Service) -> None:
    raw, packed = await asyncio.gather(
        converse(service.speech, [config(encoding=pb.ENCODING_PCM16), *text(SENTENCES)]),
        converse(service.speech, [config(encoding=pb.ENCODING_OPUS), *text(SENTENCES)]),
    )
    packed.check_contiguous()
    assert packed.samples == raw.samples
    decoded, original = decode_opus(packed), raw.pcm()
    assert decoded.size == original.size
    spectra = [np.abs(np.fft.rfft(wave.reshape(-1, 240) * np.hanning(240)))[:, 1:60] for wave in (decoded, original)]
    assert np.corrcoef(spectra[0].ravel(), spectra[1].ravel())[0, 1] > 0.8


async def test_the_speech_does_not_depend_on_how_the_text_was_cut(service: Service) -> None:
    whole, letters = await asyncio.gather(
        converse(service.speech, [config(), *text(SENTENCES)]),
        converse(service.speech, [config(), *text(*SENTENCES)]),
    )
    # The same speech ids; waves may differ by rounding, as batches differ.
    assert whole.samples == letters.samples
    np.testing.assert_allclose(whole.pcm(), letters.pcm(), atol=2e-2)


async def test_seeds_tell_speech_apart(service: Service) -> None:
    one, other = await asyncio.gather(
        converse(service.speech, [config(seed=1), *text(SENTENCES)]),
        converse(service.speech, [config(seed=2), *text(SENTENCES)]),
    )
    assert one.samples != other.samples or not np.allclose(one.pcm(), other.pcm(), atol=2e-2)


async def test_sound_begins_before_the_text_has_ended(service: Service) -> None:
    held = asyncio.Event()

    async def sending():  # type: ignore[no-untyped-def]
        yield config(mode=pb.MODE_AUTO)
        for piece in text("Hello there, this is a sentence that is long enough to begin with, and "):
            yield piece
        await held.wait()
        for piece in text("here it ends."):
            yield piece

    call = service.speech.Synthesize(sending())
    async with asyncio.timeout(60):
        async for response in call:
            if response.HasField("audio"):
                held.set()
    assert held.is_set()
    assert response.HasField("done")


async def test_a_flush_is_answered_after_its_audio(service: Service) -> None:
    for encoding in (pb.ENCODING_PCM16, pb.ENCODING_OPUS):
        heard = await converse(
            service.speech, [config(encoding=encoding), *text("One thing, "), FLUSH, *text("and another.")]
        )
        flushed = heard.kinds.index("flushed")
        before = [each.audio.samples for each in heard.responses[:flushed] if each.HasField("audio")]
        assert sum(before) > 0
        assert heard.responses[flushed].flushed.end_sample == sum(before)
        assert "audio" in heard.kinds[flushed:]
        assert heard.responses[-1].done.segments == 2
        heard.check_contiguous()


async def test_streams_at_once_do_not_disturb_each_other(service: Service) -> None:
    texts = ["Good morning to you.", "It rains again today, and it will rain.", "Yes.", "The train is late."]
    alone = [await converse(service.speech, [config(seed=i), *text(each)]) for i, each in enumerate(texts)]
    together = await asyncio.gather(
        *(converse(service.speech, [config(seed=i), *text(each)]) for i, each in enumerate(texts))
    )
    for one, other in zip(alone, together, strict=True):
        assert one.samples == other.samples
        np.testing.assert_allclose(one.pcm(), other.pcm(), atol=2e-2)
