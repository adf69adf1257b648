"""Going back to an earlier id and drawing on: with the same seed nothing has happened, with another one it differs."""

import pytest
import torch

from oscine_engine.config import LMConfig, SamplingConfig, TextRules
from oscine_engine.lm.interleave import Prompt
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.stream import LMStream, Mode
from oscine_engine.runtime.pages import PagePool

CONFIG = LMConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
    vocab_size=50,
    speech_token_size=40,
    decoder_rows=60,
)
RULES = TextRules(mix_ratio=(2, 6), min_token_text_ratio=2, max_token_text_ratio=6)
PROMPTS = [Prompt((1, 2)), Prompt((3,), (4, 5, 6), tuple(range(11))), Prompt((7,), (4,), tuple(range(12)))]
TEXT = [11, 23, 5, 47, 30, 9, 18]
PAGES = 60


@pytest.fixture(scope="module")
def lm() -> SpeechLM:
    torch.manual_seed(1)
    lm = SpeechLM(CONFIG).eval()
    for parameter in lm.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return lm


@pytest.fixture
def runner(lm: SpeechLM) -> LMRunner:
    return LMRunner(lm, PagePool(PAGES, page_shape(CONFIG, 4)), SamplingConfig(), RULES)


def open_stream(runner: LMRunner, prompt: Prompt, mode: Mode, seed: int = 3) -> LMStream:
    stream = runner.open(prompt, mode=mode, seed=seed)
    stream.add_text(TEXT)
    stream.end_text()
    return stream


def finish(runner: LMRunner, stream: LMStream) -> list[int]:
    while stream.wants_step:
        runner.step([stream])
    assert stream.state == "done"
    return stream.tokens


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("mode", ["whole", "interleaved"])
def test_the_same_seed_says_the_same_again_from_anywhere(runner: LMRunner, prompt: Prompt, mode: Mode) -> None:
    calm = list(finish(runner, open_stream(runner, prompt, mode)))
    stream = open_stream(runner, prompt, mode)
    assert len(calm) > 12
    for keep in (*range(len(calm) + 1), *reversed(range(len(calm) + 1))):
        finish(runner, stream)
        runner.rewind(stream, keep, seed=3)
        assert stream.tokens == calm[:keep]
        assert finish(runner, stream) == calm


@pytest.mark.parametrize("mode", ["whole", "interleaved"])
def test_going_back_in_the_middle_is_going_back_at_the_end(runner: LMRunner, mode: Mode) -> None:
    calm = list(finish(runner, open_stream(runner, PROMPTS[0], mode)))
    for said in range(1, len(calm), 3):
        for keep in (0, said // 2, said):
            stream = open_stream(runner, PROMPTS[0], mode)
            while len(stream.tokens) < said:
                runner.step([stream])
            runner.rewind(stream, keep, seed=3)
            assert finish(runner, stream) == calm
            runner.close(stream)


@pytest.mark.parametrize("mode", ["whole", "interleaved"])
def test_another_seed_keeps_the_start_and_equals_a_run_that_changed_its_seed_there(
    runner: LMRunner, mode: Mode
) -> None:
    stream = open_stream(runner, PROMPTS[1], mode)
    calm = list(finish(runner, stream))
    endings = set()
    for keep in range(len(calm)):
        runner.rewind(stream, keep, seed=99)
        again = tuple(finish(runner, stream))
        assert again[:keep] == tuple(calm[:keep])
        other = open_stream(runner, PROMPTS[1], mode)
        while len(other.tokens) < keep:
            runner.step([other])
        other.seed = 99
        assert finish(runner, other) == list(again)
        runner.close(other)
        endings.add(again)
        runner.rewind(stream, keep, seed=3)
        finish(runner, stream)
    assert len(endings) > 3


def test_text_that_comes_after_going_back_counts_as_if_it_had_always_been_due(runner: LMRunner) -> None:
    calm = list(finish(runner, open_stream(runner, PROMPTS[0], "interleaved")))
    stream = runner.open(PROMPTS[0], mode="interleaved", seed=3)
    stream.add_text(TEXT[:3])
    while stream.wants_step:
        runner.step([stream])
    assert stream.state == "needs_text"
    assert len(stream.tokens) == 6
    runner.rewind(stream, 6, seed=3)
    assert stream.state == "needs_text"
    runner.rewind(stream, 2, seed=3)
    stream.add_text(TEXT[3:])
    stream.end_text()
    assert finish(runner, stream) == calm


def test_pages_beyond_what_is_kept_are_freed_and_none_is_lost(runner: LMRunner) -> None:
    stream = open_stream(runner, PROMPTS[1], "whole")
    finish(runner, stream)
    used = [PAGES - runner.pool.num_free]
    for keep in (len(stream.tokens) // 2, 1, 0):
        runner.rewind(stream, keep, seed=3)
        used.append(PAGES - runner.pool.num_free)
    assert used == sorted(used, reverse=True)
    assert used[0] > used[1] > used[2] > used[3] == 0
    finish(runner, stream)
    runner.close(stream)
    assert runner.pool.num_free == PAGES


def test_a_failed_stream_can_go_back_to_before_its_failure(runner: LMRunner) -> None:
    calm = list(finish(runner, open_stream(runner, PROMPTS[0], "whole")))
    stream = open_stream(runner, PROMPTS[0], "whole")
    for _ in range(8):
        runner.step([stream])
    runner.pool.data[stream.pages[-1]] = torch.nan
    finish(runner, stream)
    assert stream.failure is not None
    runner.rewind(stream, 0, seed=3)
    assert stream.failure is None
    assert finish(runner, stream) == calm


def test_what_cannot_be_gone_back_to_is_refused(runner: LMRunner) -> None:
    stream = open_stream(runner, PROMPTS[0], "whole")
    runner.step([stream])
    for keep in (2, -1):
        with pytest.raises(ValueError, match="has said 1 ids"):
            runner.rewind(stream, keep, seed=3)
    runner.close(stream)
    with pytest.raises(ValueError, match="is closed"):
        runner.rewind(stream, 0, seed=3)
