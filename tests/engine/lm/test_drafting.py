"""The draft network in the runner that checks its guesses: it is told the truth, and guesses from all of it."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from oscine_engine.config import TextRules
from oscine_engine.lm.draft import DraftConfig
from oscine_engine.lm.drafter import PackedDraft
from oscine_engine.lm.graphed import GraphedLM
from oscine_engine.lm.interleave import Kind, Layout, Prompt
from oscine_engine.lm.network import SpeechLM, rope_table
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.sequence import training_sequence
from oscine_engine.lm.stream import LMStream
from oscine_engine.runtime.pages import PagePool
from tests.engine.lm.test_draft import OWN, SAMPLING, SHARED, SPEECH_ONLY, TARGET, drafted, make

RULES = TextRules(mix_ratio=(2, 6), min_token_text_ratio=4, max_token_text_ratio=8)
PAGE_TOKENS = 8


def opened(runner: LMRunner, number: int) -> LMStream:
    mode = "interleaved" if number % 2 else "whole"
    stream = runner.open(Prompt((1, 2)), mode=mode, seed=number * 10**10 - 4)
    stream.add_text(text_of(number))
    stream.end_text()
    return stream


def text_of(number: int) -> list[int]:
    return [(5 * number + i) % 30 for i in range(3 + number)]


def guessing(config: DraftConfig, truncate: bool) -> tuple[GraphedLM, PackedDraft]:
    network, lm = make(config)
    pool = PagePool(80, page_shape(TARGET, PAGE_TOKENS))
    drafter = PackedDraft(
        network, lm, pool, SAMPLING, temperature=0.8, max_streams=8, max_positions=128, truncate=truncate
    )
    drafter.pages.normal_(std=50)
    runner = GraphedLM(lm, pool, SAMPLING, RULES, temperature=0.8, max_streams=5, max_positions=128, drafter=drafter)
    return runner, drafter


def true_features(lm: SpeechLM, layers: tuple[int, ...], stream: LMStream, number: int) -> Tensor:
    """Outputs of the layers [rows, layers * hidden] at all that the stream was fed, from one plain forward."""
    layout = Layout.of(TARGET, RULES)
    # An end that has not come yet is of no account: rows look back only.
    speech = [*stream.tokens, *[0] * 64]
    made = training_sequence(text_of(number), speech, layout, number % 2 == 1, (1, 2))
    pairs = list(zip(made.kinds, made.ids, strict=True))[: stream.length]
    rows = [
        lm.embed_speech(torch.tensor(i)) if kind == Kind.SPEECH else lm.embed_text(torch.tensor(i)) for kind, i in pairs
    ]
    x = torch.stack(rows)[None]
    turn = rope_table(torch.arange(len(rows)), TARGET.head_dim, TARGET.rope_theta)
    outputs = []
    for layer in lm.decoder.layers:
        x = layer(x, *turn, 0.0)
        outputs.append(x[0])
    return torch.cat([outputs[layer] for layer in layers], dim=-1)


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("config", [OWN, SHARED, replace(SPEECH_ONLY, block_size=6)], ids=["own", "shared", "speech"])
@torch.inference_mode()
def test_guesses_come_from_all_that_was_fed_and_said(config: DraftConfig, truncate: bool) -> None:
    """After every step, whatever was kept of the last guesses and thrown away, the next ones are the network's."""
    runner, _ = guessing(config, truncate)
    network, lm = make(config)
    streams = [opened(runner, number) for number in range(5)]
    compared = kept = 0
    while any(stream.wants_step for stream in streams):
        before = [len(stream.tokens) for stream in streams]
        runner.step(streams)
        for number, stream in enumerate(streams):
            kept += max(0, len(stream.tokens) - before[number] - 1)
            if guesses := runner.guesses(stream):
                features = true_features(lm, config.target_layer_ids, stream, number)
                wanted = drafted(network, lm, features, stream.tokens, stream.seed, truncate)
                assert guesses == wanted[: len(guesses)]
                compared += 1
    assert compared > 30 and kept > 0
    eager = LMRunner(lm, PagePool(80, page_shape(TARGET, PAGE_TOKENS)), SAMPLING, RULES, temperature=0.8)
    plain = [opened(eager, number) for number in range(5)]
    while any(stream.wants_step for stream in plain):
        eager.step(plain)
    assert [stream.tokens for stream in streams] == [stream.tokens for stream in plain]


@torch.inference_mode()
def test_guesses_are_the_same_alone_and_in_company() -> None:
    made = []
    for company in (False, True):
        runner, _ = guessing(OWN, truncate=False)
        stream = opened(runner, 4)
        others = [opened(runner, number) for number in (1, 2, 3)] if company else []
        drafts = []
        while stream.wants_step:
            runner.step([*others, stream])
            drafts.append((len(stream.tokens), runner.guesses(stream)))
        made.append(drafts)
    assert made[0] == made[1] and len(made[0]) > 10


@torch.inference_mode()
def test_a_stream_that_was_rewound_is_guessed_anew() -> None:
    runner, _ = guessing(OWN, truncate=False)
    network, lm = make(OWN)
    stream = opened(runner, 4)
    while len(stream.tokens) < 14:
        runner.step([stream])
    runner.rewind(stream, 9, seed=77)
    compared = 0
    while stream.wants_step:
        runner.step([stream])
        if guesses := runner.guesses(stream):
            features = true_features(lm, OWN.target_layer_ids, stream, 4)
            assert guesses == drafted(network, lm, features, stream.tokens, 77, False)[: len(guesses)]
            compared += 1
    assert compared > 3
