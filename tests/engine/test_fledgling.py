"""The embedded voice itself: what ships, and that streaming it changes nothing."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import oscine_engine.checkpoint
from oscine_engine.checkpoint.load import Checkpoint, load
from oscine_engine.flow import oneshot
from oscine_engine.flow.runner import FlowRunner, page_shape
from oscine_engine.lm import packed
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.stream import Mode
from oscine_engine.runtime.pages import PagePool
from oscine_engine.text.front_end import FrontEnd
from oscine_engine.vocoder.runner import VocoderRunner
from oscine_engine.voices.prompt import VoicePrompt

DIRECTORY = Path(oscine_engine.checkpoint.__file__).parent / "fledgling"
SHIPPED_BYTES = 24_000_000
TEXTS = ("Good morning, how are you today?", "The train to the coast leaves at nine.", "Yes.")


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load()


@pytest.fixture(scope="module")
def voice(checkpoint: Checkpoint) -> VoicePrompt:
    return next(iter(checkpoint.voices.values()))


def speak(checkpoint: Checkpoint, voice: VoicePrompt, texts: Sequence[str], mode: Mode) -> list[list[int]]:
    """Speech ids of all texts, run as one batch."""
    pool = PagePool(4 * len(texts), packed.page_shape(checkpoint.config.lm, 256))
    runner = LMRunner(checkpoint.lm, pool, checkpoint.config.sampling, checkpoint.config.text)
    front_end = FrontEnd(checkpoint.config.text.front_end, checkpoint.tokenizer)
    prompt = Prompt(tuple(checkpoint.tokenizer.encode(voice.prompt_text)))
    streams = [runner.open(prompt, mode=mode, seed=5) for _ in texts]
    for stream, text in zip(streams, texts, strict=True):
        stream.add_text(front_end.whole(text))
        stream.end_text()
    while any(stream.state != "done" for stream in streams):
        runner.step(streams)
    return [stream.tokens for stream in streams]


def test_what_ships_is_small() -> None:
    assert sum(file.stat().st_size for file in DIRECTORY.rglob("*") if file.is_file()) <= SHIPPED_BYTES


def test_it_speaks_both_languages_in_several_voices(checkpoint: Checkpoint) -> None:
    languages = [voice.language for voice in checkpoint.voices.values()]
    assert languages.count("en") >= 2
    assert languages.count("zh") >= 1
    chunk_tokens = checkpoint.config.flow.dit.static_chunk_size // checkpoint.config.flow.token_mel_ratio
    for voice in checkpoint.voices.values():
        assert voice.transcript
        assert voice.flow_speech_tokens.numel() % chunk_tokens == chunk_tokens - 10


def test_it_says_every_text_at_a_natural_length(checkpoint: Checkpoint, voice: VoicePrompt) -> None:
    for mode in ("whole", "interleaved"):
        long, train, yes = speak(checkpoint, voice, TEXTS, mode)
        assert 30 <= len(long) <= 100
        assert 35 <= len(train) <= 120
        assert 5 <= len(yes) <= 35


def test_ids_do_not_depend_on_the_batch(checkpoint: Checkpoint, voice: VoicePrompt) -> None:
    for mode in ("whole", "interleaved"):
        together = speak(checkpoint, voice, TEXTS, mode)
        assert together == [speak(checkpoint, voice, [text], mode)[0] for text in TEXTS]


def streamed(
    checkpoint: Checkpoint, voice: VoicePrompt, spoken: Sequence[Sequence[int]]
) -> list[tuple[Tensor, Tensor]]:
    """(mel, wave) of each id sequence; ids arrive a few at a time, later streams a little later, all in one batch."""
    pool = PagePool(12 + 12 * len(spoken), page_shape(checkpoint.config.flow, checkpoint.config.n_timesteps))
    flow = FlowRunner(checkpoint.flow, pool, checkpoint.config.n_timesteps, checkpoint.noise.rand_noise)
    vocoder = VocoderRunner(checkpoint.vocoder, checkpoint.noise.sine_waves(240_000))
    prefix = flow.register(voice.flow_speech_tokens, voice.mel, voice.embedding)
    streams = [flow.open(prefix) for _ in spoken]
    sounds = [vocoder.open() for _ in spoken]
    mels: list[list[Tensor]] = [[] for _ in spoken]
    waves: list[list[np.ndarray]] = [[] for _ in spoken]
    tick = 0
    while not all(flow.finished(stream) for stream in streams):
        for place, (stream, ids) in enumerate(zip(streams, spoken, strict=True)):
            start = 3 * (tick - 4 * place)
            if start >= 0 and not stream.last:
                flow.feed(stream, ids[start : start + 3], last=start + 3 >= len(ids))
            if flow.ready(stream):
                flow.begin(stream)
        running = [stream for stream in streams if stream.chunk is not None]
        if running:
            flow.step(running)
        made = [(place, flow.take_mel(stream)) for place, stream in enumerate(streams)]
        work = [(place, mel) for place, mel in made if len(mel)]
        outputs = vocoder.step([(sounds[place], mel, flow.finished(streams[place])) for place, mel in work])
        for (place, mel), samples in zip(work, outputs, strict=True):
            mels[place].append(mel)
            waves[place].append(samples)
        tick += 1
    for stream in streams:
        flow.close(stream)
    flow.release(prefix)
    assert pool.num_free == pool.num_pages
    return [(torch.cat(mel), torch.from_numpy(np.concatenate(wave))) for mel, wave in zip(mels, waves, strict=True)]


def one_shot(checkpoint: Checkpoint, voice: VoicePrompt, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
    mel = oneshot.solve(
        checkpoint.flow,
        voice.flow_speech_tokens[None],
        torch.tensor([list(ids)]),
        voice.mel[None],
        voice.embedding[None],
        checkpoint.noise.rand_noise,
        streaming=True,
    ).mel
    with torch.no_grad():
        wave, _ = checkpoint.vocoder(mel, checkpoint.noise.sine_waves(240_000))
    return mel[0].T, wave[0]


@pytest.mark.slow
def test_streaming_changes_neither_mel_nor_wave(checkpoint: Checkpoint, voice: VoicePrompt) -> None:
    spoken = speak(checkpoint, voice, TEXTS, "whole")
    wanted = [one_shot(checkpoint, voice, ids) for ids in spoken]
    alone = [streamed(checkpoint, voice, [ids])[0] for ids in spoken]
    for found in (alone, streamed(checkpoint, voice, spoken)):
        for (mel, wave), (right_mel, right_wave) in zip(found, wanted, strict=True):
            assert mel.shape == right_mel.shape
            assert wave.shape == right_wave.shape
            assert float((mel - right_mel).abs().max()) <= 1e-3
            assert float((wave - right_wave).abs().max()) <= 2e-2
