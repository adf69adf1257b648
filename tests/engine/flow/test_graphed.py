"""What only the flow in slots can get wrong: buckets, slots, tails that are handed on, and types of 16 bits."""

import pytest
import torch
from torch import Tensor

from oscine_engine.flow.graphed import GraphedFlow
from oscine_engine.flow.network import Flow
from oscine_engine.flow.noise import initial_noise
from oscine_engine.flow.streams import page_shape
from oscine_engine.runtime.pages import PagePool, PoolExhausted
from tests.engine.flow.test_streaming import STEPS, drain, oneshot, register, speak, utterance


def made(
    flow: Flow,
    streams: int = 2,
    prefixes: int = 6,
    dtype: torch.dtype = torch.float32,
    noise: Tensor | None = None,
    kept: torch.dtype | None = None,
) -> GraphedFlow:
    pool = PagePool(40, page_shape(flow.config, STEPS), dtype=kept or dtype)
    return GraphedFlow(flow, pool, STEPS, noise, max_streams=streams, max_prefixes=prefixes, dtype=dtype)


def test_more_streams_than_a_graph_holds_are_stepped_in_turn(flow: Flow) -> None:
    runner = made(flow)
    said = [utterance(40, 20 + 10 * n, seed=n) for n in range(5)]
    prefixes = [register(runner, one) for one in said[:3]]
    said = [said[n % 3] for n in range(5)]
    streams = [runner.open(prefixes[n % 3]) for n in range(5)]
    for one, stream in zip(said, streams, strict=True):
        runner.feed(stream, one.tokens.tolist(), last=True)
        runner.begin(stream)
    for _ in range(STEPS):
        runner.step(streams)
    for one, stream in zip(said, streams, strict=True):
        torch.testing.assert_close(runner.take_mel(stream), oneshot(flow, one)[:20], atol=1e-3, rtol=0)
        assert stream.chunk is None


def test_a_stream_closed_before_its_chunk_was_told_of_leaves_no_trace(flow: Flow) -> None:
    runner = made(flow)
    said = utterance(40, 30)
    prefix = register(runner, said)
    left, stays = runner.open(prefix), runner.open(prefix)
    for stream in (left, stays):
        runner.feed(stream, said.tokens.tolist(), last=True)
        runner.begin(stream)
    runner.close(left)
    again = runner.open(prefix)
    assert again.slot == left.slot
    runner.feed(again, said.tokens.tolist(), last=True)
    for _ in range(STEPS):
        runner.step([stays])
    first = runner.take_mel(stays)
    for stream, before in ((stays, [first]), (again, [])):
        mel = torch.cat([*before, drain(runner, stream)])
        torch.testing.assert_close(mel, oneshot(flow, said), atol=1e-3, rtol=0)
        runner.close(stream)
    runner.release(prefix)
    assert runner._slots.num_free == runner._slots.num_pages


def test_a_voice_given_up_lives_on_in_a_stream_that_has_not_begun(flow: Flow) -> None:
    runner = made(flow, prefixes=2)
    said, other = utterance(40, 30), utterance(61, 5)
    prefix = register(runner, said)
    stream = runner.open(prefix)
    runner.release(prefix)
    # Whatever comes next must not get the slot of the tails that the stream has yet to take over.
    second = register(runner, other)
    runner.feed(stream, said.tokens.tolist(), last=True)
    torch.testing.assert_close(drain(runner, stream), oneshot(flow, said), atol=1e-3, rtol=0)
    runner.close(stream)
    runner.release(second)
    assert runner._slots.num_free == runner._slots.num_pages


def test_no_slot_no_stream_and_nothing_taken(flow: Flow) -> None:
    runner = made(flow, streams=1, prefixes=1)
    prefix = register(runner, utterance(60, 1))
    stream = runner.open(prefix)
    free = runner.pool.num_free
    with pytest.raises(PoolExhausted):
        runner.open(prefix)
    with pytest.raises(PoolExhausted):
        register(runner, utterance(60, 1))
    assert runner.pool.num_free == free
    runner.close(stream)
    runner.close(runner.open(prefix))
    runner.release(prefix)
    assert runner.pool.num_free == runner.pool.num_pages


def test_capturing_changes_nothing(flow: Flow) -> None:
    runner, told = made(flow), []
    said = utterance(40, 30)
    prefix = register(runner, said)
    runner.capture(told.append)
    assert len(told) == 2
    stream = runner.open(prefix)
    runner.feed(stream, said.tokens.tolist(), last=True)
    torch.testing.assert_close(drain(runner, stream), oneshot(flow, said), atol=1e-3, rtol=0)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float16, 2e-3), (torch.bfloat16, 2e-2)])
def test_sixteen_bits_stay_close(flow: Flow, dtype: torch.dtype, bound: float) -> None:
    said = utterance(40, 60)
    mel, expected = speak(made(flow, dtype=dtype), said), oneshot(flow, said)
    error = ((mel - expected).square().mean() / expected.square().mean()).sqrt()
    assert 0 < error < bound
    assert mel.dtype == torch.float32


def test_keys_and_values_may_be_kept_in_eight_bits(flow: Flow) -> None:
    said = utterance(40, 60)
    first, expected = made(flow, kept=torch.float8_e4m3fn), oneshot(flow, said)
    mel = speak(first, said)
    error = ((mel - expected).square().mean() / expected.square().mean()).sqrt()
    assert 1e-5 < error < 2e-2
    # What is kept is all that is rounded: a chunk without a past is as it was.
    alone = utterance(0, 25)
    torch.testing.assert_close(speak(first, alone), oneshot(flow, alone), atol=1e-3, rtol=0)


def test_a_stream_that_ends_with_the_noise(flow: Flow) -> None:
    noise = initial_noise(flow.config.cfm)[..., :130]
    runner = made(flow, noise=noise)
    said = utterance(40, 25)
    assert runner.max_tokens == 65
    torch.testing.assert_close(speak(runner, said), oneshot(flow, said), atol=1e-3, rtol=0)
