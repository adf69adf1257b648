"""The paged, chunked flow against the one-shot solve."""

import copy
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from oscine_engine.errors import InvalidInput
from oscine_engine.flow.graphed import GraphedFlow
from oscine_engine.flow.network import Flow
from oscine_engine.flow.noise import initial_noise
from oscine_engine.flow.oneshot import solve
from oscine_engine.flow.runner import FlowPrefix, FlowRunner, FlowStream, page_shape
from oscine_engine.flow.streams import FlowStreams
from oscine_engine.runtime.pages import PagePool, PoolExhausted

STEPS = 4


@dataclass(frozen=True)
class Utterance:
    prompt: Tensor
    mel: Tensor
    embedding: Tensor
    tokens: Tensor


def utterance(prompt: int, tokens: int, seed: int = 0) -> Utterance:
    generator = torch.Generator().manual_seed(1000 * seed + 10 * prompt + tokens)
    ids = torch.randint(0, 101, (prompt + tokens,), generator=generator, dtype=torch.int32)
    mel = torch.randn(2 * prompt, 80, generator=generator)
    return Utterance(ids[:prompt], mel, torch.randn(192, generator=generator), ids[prompt:])


def register(runner: FlowStreams, said: Utterance) -> FlowPrefix:
    return runner.register(said.prompt, said.mel, said.embedding)


def oneshot(flow: Flow, said: Utterance) -> Tensor:
    noise = initial_noise(flow.config.cfm).to(said.mel)
    arguments = (said.prompt[None], said.tokens[None], said.mel[None], said.embedding[None], noise)
    return solve(flow, *arguments, streaming=True).mel[0].transpose(0, 1)


def drain(runner: FlowStreams, stream: FlowStream) -> Tensor:
    """Solve every chunk that is ready."""
    mels = []
    while runner.ready(stream):
        runner.begin(stream)
        for _ in range(STEPS):
            runner.step([stream])
        mels.append(runner.take_mel(stream))
    return torch.cat(mels) if mels else torch.zeros(0, 80)


def speak(runner: FlowStreams, said: Utterance, piece: int = 7) -> Tensor:
    """Stream alone, tokens fed `piece` at a time; leaves no page behind."""
    prefix = register(runner, said)
    stream = runner.open(prefix)
    ids, mels = said.tokens.tolist(), []
    for start in range(0, len(ids), piece):
        runner.feed(stream, ids[start : start + piece], last=start + piece >= len(ids))
        mels.append(drain(runner, stream))
    assert runner.finished(stream)
    runner.close(stream)
    runner.release(prefix)
    assert runner.pool.num_free == runner.pool.num_pages
    return torch.cat(mels)


@pytest.mark.parametrize("prompt", range(25, 50))
def test_every_prompt_length_on_the_grid(flow: Flow, runner: FlowStreams, prompt: int) -> None:
    said = utterance(prompt, 30)
    torch.testing.assert_close(speak(runner, said), oneshot(flow, said), atol=1e-3, rtol=0)


@pytest.mark.parametrize("last", range(1, 26))
def test_every_length_of_the_last_chunk(flow: Flow, runner: FlowStreams, last: int) -> None:
    said = utterance(35, 15 + 25 + last)
    torch.testing.assert_close(speak(runner, said), oneshot(flow, said), atol=1e-3, rtol=0)


@pytest.mark.parametrize(("prompt", "tokens"), [(0, 1), (0, 60), (1, 1), (2, 40), (27, 1), (28, 2), (90, 1)])
def test_short_streams_and_prompts(flow: Flow, runner: FlowStreams, prompt: int, tokens: int) -> None:
    said = utterance(prompt, tokens)
    torch.testing.assert_close(speak(runner, said, piece=1), oneshot(flow, said), atol=1e-3, rtol=0)


def test_first_mel_needs_the_tokens_up_to_the_grid_line_and_the_look_ahead(runner: FlowStreams) -> None:
    said = utterance(40, 20)
    stream = runner.open(register(runner, said))
    ids = said.tokens.tolist()
    runner.feed(stream, ids[:12], last=False)
    assert not runner.ready(stream)
    runner.feed(stream, ids[12:13], last=False)
    assert runner.ready(stream)
    assert drain(runner, stream).shape == (20, 80)


def test_a_batch_of_streams_at_different_steps_lengths_and_contexts(flow: Flow, runner: FlowStreams) -> None:
    said = [utterance(prompt, tokens, seed=5) for prompt, tokens in ((40, 64), (10, 3), (61, 40), (40, 27), (3, 90))]
    prefixes = [register(runner, one) for one in said]
    streams = [runner.open(prefix) for prefix in prefixes]
    mels: list[list[Tensor]] = [[] for _ in said]
    tick = 0
    while not all(map(runner.finished, streams)):
        for number, (one, stream) in enumerate(zip(said, streams, strict=True)):
            if tick == 3 * number:
                runner.feed(stream, one.tokens.tolist(), last=True)
            if runner.ready(stream):
                runner.begin(stream)
        active = [stream for stream in streams if stream.chunk is not None]
        runner.step(active)
        for mel, stream in zip(mels, streams, strict=True):
            mel.append(runner.take_mel(stream))
        tick += 1
    for mel, one in zip(mels, said, strict=True):
        torch.testing.assert_close(torch.cat(mel), oneshot(flow, one), atol=1e-3, rtol=0)


def test_streams_share_the_prefix_pages_and_return_their_own(runner: FlowStreams) -> None:
    said = utterance(60, 30)
    prefix = register(runner, said)
    free = runner.pool.num_free
    assert runner.pool.num_pages - free == len(prefix.pages) == 2
    first, second = runner.open(prefix), runner.open(prefix)
    assert runner.pool.num_free == free
    for stream in (first, second):
        runner.feed(stream, said.tokens.tolist(), last=True)
        runner.begin(stream)
    assert runner.pool.num_free == free - 2
    runner.step([first, second])
    runner.close(first)
    runner.close(first)
    assert runner.pool.num_free == free - 1
    runner.release(prefix)
    assert runner.pool.num_free == free - 1
    for _ in range(STEPS - 1):
        runner.step([second])
    assert len(runner.take_mel(second)) == 30
    runner.close(second)
    assert runner.pool.num_free == runner.pool.num_pages


def test_two_streams_of_one_voice_do_not_disturb_each_other(flow: Flow, runner: FlowStreams) -> None:
    said = utterance(40, 50)
    prefix = register(runner, said)
    expected = oneshot(flow, said)
    for _ in range(2):
        stream = runner.open(prefix)
        runner.feed(stream, said.tokens.tolist(), last=True)
        torch.testing.assert_close(drain(runner, stream), expected, atol=1e-3, rtol=0)
        runner.close(stream)


def test_a_full_pool_refuses_and_leaves_the_stream_as_it_was(flow: Flow, runner: FlowStreams) -> None:
    said = utterance(40, 40)
    stream = runner.open(register(runner, said))
    runner.feed(stream, said.tokens.tolist(), last=True)
    taken = runner.pool.alloc(runner.pool.num_free)
    with pytest.raises(PoolExhausted):
        runner.begin(stream)
    runner.pool.release(taken)
    torch.testing.assert_close(drain(runner, stream), oneshot(flow, said), atol=1e-3, rtol=0)


def test_a_registration_that_does_not_fit_keeps_no_page(runner: FlowStreams) -> None:
    taken = runner.pool.alloc(runner.pool.num_free - 1)
    with pytest.raises(PoolExhausted):
        register(runner, utterance(60, 0))
    assert runner.pool.num_free == 1
    runner.pool.release(taken)


def test_a_stream_without_speech_finishes_at_once(runner: FlowStreams) -> None:
    stream = runner.open(register(runner, utterance(30, 0)))
    runner.feed(stream, [], last=True)
    assert not runner.ready(stream)
    assert runner.finished(stream)
    assert runner.take_mel(stream).shape == (0, 80)


def test_bad_input_is_refused_by_name(runner: FlowStreams) -> None:
    said = utterance(30, 10)
    with pytest.raises(InvalidInput, match="prompt mel"):
        runner.register(said.prompt, said.mel[:-1], said.embedding)
    with pytest.raises(InvalidInput, match="192"):
        runner.register(said.prompt, said.mel, said.embedding[:80])
    stream = runner.open(register(runner, said))
    with pytest.raises(InvalidInput, match="speech token 101"):
        runner.feed(stream, [101], last=False)
    with pytest.raises(InvalidInput, match="at most 7500"):
        runner.feed(stream, [0] * 7471, last=False)
    runner.feed(stream, [0] * 7470, last=True)
    with pytest.raises(InvalidInput, match="ended"):
        runner.feed(stream, [0], last=False)


def spoil(runner: FlowStreams, stream: FlowStream) -> None:
    """Take a step, and put what is no number into the chunk."""
    runner.step([stream])
    if isinstance(runner, GraphedFlow):
        runner._dit.state[stream.slot].fill_(torch.nan)
    else:
        assert stream.chunk is not None and stream.chunk.work is not None
        stream.chunk.work.x.fill_(torch.nan)


def test_a_broken_stream_does_not_touch_the_others_in_its_batch(flow: Flow, runner: FlowStreams) -> None:
    said, other = utterance(40, 20), utterance(33, 20)
    stream, broken = runner.open(register(runner, said)), runner.open(register(runner, other))
    for one, opened in ((said, stream), (other, broken)):
        runner.feed(opened, one.tokens.tolist(), last=True)
        runner.begin(opened)
    spoil(runner, broken)
    for _ in range(STEPS - 1):
        runner.step([broken, stream])
    runner.step([stream])
    assert runner.take_mel(broken).isnan().all()
    torch.testing.assert_close(runner.take_mel(stream), oneshot(flow, said)[:20], atol=1e-3, rtol=0)


def test_double_precision_streams_agree_closely(flow: Flow) -> None:
    precise = copy.deepcopy(flow).double()
    runner = FlowRunner(precise, PagePool(8, page_shape(flow.config, STEPS), dtype=torch.float64), STEPS)
    said = utterance(40, 40)
    said = Utterance(said.prompt, said.mel.double(), said.embedding.double(), said.tokens)
    torch.testing.assert_close(speak(runner, said), oneshot(precise, said), atol=1e-6, rtol=0)


def test_a_pool_of_another_shape_is_refused(flow: Flow) -> None:
    with pytest.raises(ValueError, match="pages are"):
        FlowRunner(flow, PagePool(1, page_shape(flow.config, STEPS)), STEPS - 1)
