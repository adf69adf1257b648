"""The embedded voice's own encoders, over speech it has said."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from oscine_engine.checkpoint import layout
from oscine_engine.engine import Engine
from oscine_engine.errors import CheckpointError, InvalidInput
from oscine_engine.events import Audio, Mode, SessionRequest
from oscine_engine.voices.encoders import Encoders
from oscine_engine.voices.registration import Reference, register

TEXT = "The morning train to the coast was late again, so we walked along the river instead."
RATE = 24000


@pytest.fixture(scope="module")
def encoders() -> Encoders:
    return Encoders(*layout.find().encoders())


SAID: dict[tuple[str, str], NDArray[np.float32]] = {}


async def said(voice: str, text: str = TEXT) -> NDArray[np.float32]:
    """Loads an engine, which takes seconds: each sound is made once."""
    if (voice, text) not in SAID:
        SAID[voice, text] = await spoken(voice, text)
    return SAID[voice, text]


async def spoken(voice: str, text: str) -> NDArray[np.float32]:
    async with Engine.load() as engine:
        request = SessionRequest(voice=voice, seed=3, mode=Mode.SENTENCE)
        async with await engine.open(request) as session:
            await session.append(text)
            await session.finish()
            return np.concatenate([event.samples async for event in session if isinstance(event, Audio)])


async def test_a_recording_becomes_a_voice(encoders: Encoders) -> None:
    samples = await said("michael")
    voice = register(samples, RATE, Reference("mike", TEXT, description="somebody"), encoders, "phones")
    count = voice.flow_speech_tokens.numel()
    assert abs(count - len(samples) / 960) < 15
    assert voice.mel.shape == (2 * count, 80)
    assert torch.equal(voice.lm_speech_tokens, voice.flow_speech_tokens)
    assert (voice.language, voice.transcript, voice.prompt_text) == ("en", TEXT, "<|endofprompt|>")
    again = register(samples, RATE, Reference("mike", TEXT), encoders, "phones")
    assert torch.equal(again.mel, voice.mel)
    assert torch.equal(again.embedding, voice.embedding)


async def test_a_voice_without_words_has_no_speech_for_the_language_model(encoders: Encoders) -> None:
    voice = register(await said("michael"), RATE, Reference("emma2"), encoders, "plain")
    assert voice.lm_speech_tokens.numel() == 0
    assert voice.flow_speech_tokens.numel() > 0
    assert voice.prompt_text == "You are a helpful assistant.<|endofprompt|>"


@pytest.mark.slow
async def test_an_embedding_tells_speakers_apart(encoders: Encoders) -> None:
    heard = [
        register(await said(name, text), RATE, Reference(name), encoders, "phones").embedding
        for name in ("heart", "michael")
        for text in (TEXT, "I would like two tickets for the evening show, please.")
    ]
    heart, heart_again, michael, michael_again = heard
    near = torch.cosine_similarity
    for own, other in ((heart, michael), (michael, heart)):
        again = heart_again if own is heart else michael_again
        assert near(own, again, dim=0) > near(own, other, dim=0) + 0.1


async def test_words_that_cannot_be_of_it_are_refused(encoders: Encoders) -> None:
    samples = await said("michael")
    with pytest.raises(InvalidInput, match="too long"):
        register(samples, RATE, Reference("x", TEXT * 3), encoders, "phones")


def test_words_that_the_model_cannot_read_are_refused(encoders: Encoders) -> None:
    with pytest.raises(InvalidInput, match=r"transcript: .* 'привет'"):
        register(np.zeros(RATE, np.float32), RATE, Reference("x", "The kettle привет"), encoders, "phones")


def test_a_file_that_is_no_model_is_named(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "campplus.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(CheckpointError, match=r"campplus\.onnx"):
        Encoders(path, path)
