"""Guesses, good, bad or mixed, change nothing that a stream says, only how many steps it takes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from oscine_engine.config import SamplingConfig, TextRules
from oscine_engine.lm import noise
from oscine_engine.lm.drafter import PackedDraft
from oscine_engine.lm.graphed import GraphedLM
from oscine_engine.lm.interleave import Interleaver, Layout, Phase, Prompt
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import LMRunner
from oscine_engine.lm.sampling import NO_ID, distribution, mask_logits
from oscine_engine.lm.speculation import lots
from oscine_engine.lm.stream import LMStream, Mode
from oscine_engine.runtime.kernels.lm_lines import drawn
from oscine_engine.runtime.pages import PagePool
from tests.engine.lm.test_draft import CONFIGS, TARGET, make
from tests.engine.lm.test_runner import CONFIG, PROMPTS, RULES

SPEECH_IDS = CONFIG.speech_token_size


class Prophet:
    """Guesses by `guess(seed, ids said)`; checks that it is told what it is promised."""

    layers = (1, 0)

    def __init__(self, count: int, guess: Callable[[int, int], Sequence[int]]) -> None:
        self.count = count
        self._guess = guess
        self.told: list[tuple[Tensor, Tensor, Tensor]] = []
        self.asked: list[list[Any]] = []

    def remember(self, features: Tensor, positions: Tensor, slots: Tensor) -> None:
        self.told.append((features.clone(), positions.clone(), slots.clone()))

    def propose(
        self,
        anchors: Tensor,
        positions: Tensor,
        seeds: Tensor,
        said: Tensor,
        history: Tensor,
        tables: Tensor,
        lengths: Tensor,
        count: int,
    ) -> Tensor:
        assert positions.tolist() == lengths.tolist()
        self.asked.append([part.tolist() for part in (anchors, positions, seeds, said, history, tables)])
        guesses = [self._guess(seed, number) for seed, number in zip(seeds.tolist(), said.tolist(), strict=True)]
        return torch.tensor([(list(guess) + [0] * count)[:count] for guess in guesses])


@pytest.fixture(scope="module")
def lm() -> SpeechLM:
    torch.manual_seed(1)
    lm = SpeechLM(CONFIG).eval()
    for parameter in lm.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return lm


def pool(page_tokens: int = 8) -> PagePool:
    return PagePool(200, page_shape(CONFIG, page_tokens))


def stepwise(lm: SpeechLM) -> LMRunner:
    return LMRunner(lm, pool(), SamplingConfig(), RULES)


def guessing(lm: SpeechLM, prophet: Prophet, page_tokens: int = 8, choices: Sequence[int] | None = None) -> GraphedLM:
    return GraphedLM(
        lm, pool(page_tokens), SamplingConfig(), RULES, max_positions=256, drafter=prophet, choices=choices
    )


def begun(runner: LMRunner, seed: int) -> LMStream:
    """A short sentence; its voice, text and mode follow from the seed."""
    mode: Mode = "interleaved" if seed % 2 else "whole"
    stream = runner.open(PROMPTS[seed % len(PROMPTS)], mode=mode, seed=seed, limit=9 if seed % 5 == 0 else None)
    stream.add_text([(10 + seed * 7 + i) % 50 for i in range(1 + seed % 5)])
    stream.end_text()
    return stream


def spoken(
    runner: LMRunner, seeds: Sequence[int], together: int, guesses: Callable[[], int | None] = lambda: None
) -> tuple[list[list[int]], int]:
    """What each says, `together` at a time, one joining whenever one ends; and the steps that took.

    guesses: how many the next step is to have.
    """
    streams, waiting, running, steps = [], list(reversed(seeds)), list[LMStream](), 0
    while waiting or running:
        while waiting and len(running) < together:
            streams.append(begun(runner, waiting.pop()))
            running.append(streams[-1])
        before = [len(stream.tokens) for stream in running]
        said = runner.step(running, guesses())
        steps += 1
        assert [s.tokens[n:] for s, n in zip(running, before, strict=True)] == said
        for stream in running:
            if stream.state == "done":
                assert stream.failure is None
                runner.close(stream)
        running = [stream for stream in running if stream.state != "done"]
    assert runner.pool.num_free == runner.pool.num_pages
    return [stream.tokens for stream in streams], steps


def of_all_kinds(known: dict[int, list[int]]) -> Prophet:
    """Guesses five ids: what each seed says, as `known`; anything; or what it says for a while and then anything."""

    def guess(seed: int, said: int) -> list[int]:
        random = np.random.default_rng((seed, said)).integers(0, SPEECH_IDS, 5).tolist()
        true = (known.get(seed, [])[said:] + random)[:5]
        kind = seed % 3 if seed % 4 else 2
        if kind == 2:
            right = (seed + said) % 6
            return true[:right] + random[right:]
        return true if kind else random

    return Prophet(5, guess)


@pytest.mark.parametrize(("together", "count"), [(1, 100), (7, 200), pytest.param(7, 2000, marks=pytest.mark.slow)])
def test_hundreds_of_guessed_sentences_are_those_said_step_by_step(lm: SpeechLM, together: int, count: int) -> None:
    """True continuations, random ids, and both in turn, in one batch."""
    seeds = range(1, count + 1)
    wanted, slow = spoken(stepwise(lm), seeds, together)
    prophet = of_all_kinds(dict(zip(seeds, wanted, strict=True)))
    got, fast = spoken(guessing(lm, prophet), seeds, together)
    assert got == wanted
    assert len({tuple(tokens) for tokens in wanted}) > 0.9 * len(seeds)
    assert fast < 0.75 * slow


@pytest.mark.parametrize(("together", "page_tokens"), [(1, 8), (7, 3), (20, 8)])
def test_ids_do_not_depend_on_how_many_guesses_each_step_has(lm: SpeechLM, together: int, page_tokens: int) -> None:
    """Any sequence of numbers; pages that end in the middle of guesses; more streams than there are lines for."""
    seeds = range(1, 21 if together == 1 else 101)
    wanted, _ = spoken(stepwise(lm), seeds, 7)
    prophet, random = of_all_kinds(dict(zip(seeds, wanted, strict=True))), np.random.default_rng(together)
    runner = guessing(lm, prophet, page_tokens, choices=(0, 1, 3))
    got, _ = spoken(runner, seeds, together, lambda: int(random.integers(0, 6)))
    assert got == wanted
    assert 0 < runner.acceptance.chances[0] < 1


def test_a_step_has_the_guesses_that_were_asked_for(lm: SpeechLM) -> None:
    """Or the next more that there are graphs for; with none the drafter is told of the rows and not asked."""
    [tokens], _ = spoken(stepwise(lm), [2], 1)
    prophet = Prophet(5, lambda _, said: tokens[said:])
    runner = guessing(lm, prophet, choices=(0, 1, 3))
    stream = begun(runner, 2)
    said = []
    for guesses in (0, 0, 3, 1, 2, 0, 0, 5, 9):
        asked, remembered = len(prophet.asked), len(prophet.told)
        said.append(len(runner.step([stream], guesses)[0]))
        assert len(runner.guesses(stream)) == min({2: 3, 9: 5}.get(guesses, guesses), stream.machine.room - 1)
        assert (len(prophet.asked) - asked, len(prophet.told) - remembered) == (int(guesses > 0), 1)
    assert said == [1, 1, 1, 2, 2, 1, 1, 1, 6]
    assert stream.tokens == tokens[: sum(said)]


@pytest.mark.parametrize("name", CONFIGS)
def test_a_draft_network_changes_no_id(name: str) -> None:
    """Texts that come in pieces, streams that join and leave, and guesses of a network of any weights."""
    network, target = make(CONFIGS[name])
    spoken: list[list[list[int]]] = []
    counts: list[int] = []
    for guessing_too in (False, True):
        pages = PagePool(100, page_shape(TARGET, 8))
        drafter = PackedDraft(network, target, pages, SamplingConfig(), max_streams=8, max_positions=256)
        runner: LMRunner = LMRunner(target, pages, SamplingConfig(), RULES)
        if guessing_too:
            runner = GraphedLM(target, pages, SamplingConfig(), RULES, max_positions=256, drafter=drafter)
        streams = list[LMStream]()
        for turn in range(60):
            if turn % 3 == 0 and turn < 18:
                streams.append(runner.open(Prompt((1, 2)), mode="interleaved", seed=turn))
            for number, stream in enumerate(streams):
                age = turn - 3 * number
                if age < 12 and age % 2 == 0:
                    stream.add_text([(turn + i) % TARGET.vocab_size for i in range(1 + number % 2)])
                elif age == 13:
                    stream.end_text()
            runner.step(streams)
        while any(stream.wants_step for stream in streams):
            runner.step(streams)
        assert all(stream.state == "done" and stream.failure is None for stream in streams)
        spoken.append([stream.tokens for stream in streams])
        counts.append(sum(map(len, spoken[-1])))
    assert spoken[0] == spoken[1]
    assert counts[0] > 60


@pytest.mark.parametrize("seed", [2, 3])
def test_true_guesses_are_all_said_at_once(lm: SpeechLM, seed: int) -> None:
    """Up to the end of a block, which no guess may reach beyond."""
    runner = stepwise(lm)
    [tokens], _ = spoken(runner, [seed], 1)
    drafting = guessing(lm, Prophet(3, lambda _, said: tokens[said:]))
    stream, said = begun(drafting, seed), list[int]()
    while stream.wants_step:
        said.append(len(drafting.step([stream])[0]))
        assert len(drafting.guesses(stream)) <= max(0, stream.machine.room - 1)
        if stream.machine.phase is Phase.BOUNDARY:
            assert drafting.guesses(stream) == []
    assert stream.tokens == tokens
    whole = {2: [1, *[4] * ((len(tokens) - 1) // 4)], 3: None}[seed]
    assert whole is None or said[: len(whole)] == whole
    block = RULES.mix_ratio[1]
    if seed == 3:
        assert sum(said[:3]) == block or said[:2] == [1, 4]


def test_a_drafter_is_told_every_row_and_asked_behind_the_last_id(lm: SpeechLM) -> None:
    """Features are the outputs of the layers asked for, in that order, at each row's place in the pages."""
    reference = stepwise(lm)
    [tokens], _ = spoken(reference, [2], 1)
    prophet = Prophet(3, lambda _, said: [*tokens[said : said + 2], 0])
    runner = guessing(lm, prophet, page_tokens=8)
    stream, window = begun(runner, 2), runner.sampling.win_size
    machine = Interleaver(Layout.of(CONFIG, RULES), PROMPTS[2], interleaved=False)
    machine.add_text([(10 + 2 * 7 + i) % 50 for i in range(3)])
    machine.end_text()
    inputs = machine.take().inputs
    while stream.wants_step:
        runner.step([stream])
        if stream.state == "done":
            break
        anchor, position, seed, said, history, table = (part[0] for part in prophet.asked[-1])
        assert (anchor, position, seed, said) == (stream.tokens[-1], stream.length, 2, len(stream.tokens))
        assert history == ([NO_ID] * window + stream.tokens)[-window:]
        assert table[: len(stream.pages)] == stream.pages
    kept: dict[int, Tensor] = {}
    for features, positions, slots in prophet.told:
        for row in (slots >= 0).nonzero()[:, 0].tolist():
            page, offset = divmod(int(slots[row]), 8)
            assert stream.pages.index(page) * 8 + offset == positions[row]
            kept[int(positions[row])] = features[row]
    embeds = torch.stack(
        [lm.embed_speech(torch.tensor(i.id)) if i.kind else lm.embed_text(torch.tensor(i.id)) for i in inputs]
        + [lm.embed_speech(torch.tensor(token)) for token in tokens[:-1]]
    )
    wanted: list[Tensor] = []
    handles = [layer.register_forward_hook(lambda _, __, out: wanted.append(out[0])) for layer in lm.decoder.layers]
    with torch.no_grad():
        lm(embeds[None])
    for handle in handles:
        handle.remove()
    both = torch.cat((wanted[1], wanted[0]), dim=1)
    got = torch.stack([kept[position] for position in range(len(both))])
    torch.testing.assert_close(got, both, atol=1e-3, rtol=1e-3)


def test_a_rewound_stream_forgets_its_guesses(lm: SpeechLM) -> None:
    reference = stepwise(lm)
    [first], _ = spoken(reference, [4], 1)
    calm = begun(reference, 4)
    while len(calm.tokens) < 5:
        reference.step([calm])
    reference.rewind(calm, 2, 99)
    while calm.wants_step:
        reference.step([calm])
    runner = guessing(lm, Prophet(3, lambda _, said: first[said:]))
    stream = begun(runner, 4)
    while len(stream.tokens) < 5:
        runner.step([stream])
    assert runner.guesses(stream)
    runner.rewind(stream, 2, 99)
    assert runner.guesses(stream) == []
    while stream.wants_step:
        runner.step([stream])
    assert stream.tokens == calm.tokens
    assert stream.tokens[:2] == first[:2] != stream.tokens


def test_a_step_that_raises_keeps_the_guesses(lm: SpeechLM, monkeypatch: pytest.MonkeyPatch) -> None:
    [tokens], _ = spoken(stepwise(lm), [2], 1)
    runner = guessing(lm, Prophet(3, lambda _, said: tokens[said:]))
    stream = begun(runner, 2)
    runner.step([stream])
    drafts, length = runner.guesses(stream), stream.length

    def failing(*_: object) -> None:
        raise RuntimeError("device lost")

    with monkeypatch.context() as broken:
        broken.setattr(runner, "_guess", failing)
        with pytest.raises(RuntimeError, match="device lost"):
            runner.step([stream])
    assert (runner.guesses(stream), stream.length, stream.tokens) == (drafts, length, tokens[:1])
    assert len(drafts) == 3
    assert runner.step([stream]) == [tokens[1:5]]


def test_pages_for_guesses_are_counted(lm: SpeechLM) -> None:
    [tokens], _ = spoken(stepwise(lm), [2], 1)
    runner = guessing(lm, Prophet(5, lambda _, said: tokens[said:]), page_tokens=2)
    stream = begun(runner, 2)
    while stream.wants_step:
        wanted, free = runner.pages_wanted([stream]), runner.pool.num_free
        runner.step([stream])
        assert free - runner.pool.num_free == wanted


def test_what_is_drawn_behind_guesses_has_the_closed_form() -> None:
    """Chi-square over all ids of many seeds, each expected as its own history has it; half of the guesses are true."""
    lm = SpeechLM(CONFIG).eval()
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in lm.named_parameters():
            weight.fill_(1.0 if "embed" in name or name.endswith("norm.weight") else 0.0)
        lm.llm_decoder.weight[:, 0] = 0.9 * torch.randn(CONFIG.decoder_rows)
        lm.llm_decoder.weight[7, 0] = 3.5
    count, length = 128, 24
    rules = TextRules(mix_ratio=(2, 6), min_token_text_ratio=length, max_token_text_ratio=length)
    known: dict[int, list[int]] = {}
    prophet = Prophet(
        3,
        lambda seed, said: [
            (id + (seed + said + i) % 2) % SPEECH_IDS for i, id in enumerate(known.get(seed, [])[said : said + 3])
        ],
    )
    reference = LMRunner(lm, pool(64), SamplingConfig(), rules)
    runner = GraphedLM(lm, pool(64), SamplingConfig(), rules, max_streams=64, max_positions=128, drafter=prophet)
    spoken: list[list[list[int]]] = []
    steps = 0
    for speaker in (reference, runner):
        streams = [speaker.open(Prompt((1,)), seed=noise.key(1, number, 5)) for number in range(count)]
        for stream in streams:
            stream.add_text([5])
            stream.end_text()
        while any(stream.wants_step for stream in streams):
            speaker.step(streams)
            steps += speaker is runner
        spoken.append([stream.tokens for stream in streams])
        known.update({stream.seed: stream.tokens for stream in streams})
    assert spoken[0] == spoken[1]
    assert steps < 0.8 * length
    window = runner.sampling.win_size
    histories = [([NO_ID] * window + said[:place])[-window:] for said in spoken[1] for place in range(length)]
    logits = mask_logits(runner.packed.head(torch.ones(1, CONFIG.hidden_size)), SPEECH_IDS, torch.tensor([False]))
    closed = distribution(logits.expand(len(histories), -1), torch.tensor(histories), runner.sampling)
    expected = closed.sum(0)[:SPEECH_IDS].numpy()
    seen = np.bincount([token for said in spoken[1] for token in said], minlength=SPEECH_IDS)
    # With 39 degrees of freedom, 73 is exceeded once in a thousand.
    assert expected.min() > 5
    assert ((seen - expected) ** 2 / expected).sum() < 73
    blind = distribution(logits, torch.full((1, window), NO_ID), runner.sampling)[0, :SPEECH_IDS].numpy() * seen.sum()
    assert ((seen - blind) ** 2 / blind.clip(1)).sum() > 200


@pytest.mark.parametrize("mean", [1.0, 2.0, 2.5, 4.0])
def test_lots_have_the_mean_that_was_asked_for(mean: float) -> None:
    seeds = torch.arange(40_000) * 7919
    table = torch.from_numpy(lots(mean, 3))
    kept = drawn(table, seeds, seeds % 50)
    assert kept.double().mean() + 1 == pytest.approx(mean, abs=0.02)
    assert torch.equal(drawn(table, seeds, seeds % 50), kept)
    assert 0 <= int(kept.min()) <= int(kept.max()) <= 3
    for bad in (0.9, 4.1):
        with pytest.raises(ValueError, match="1 to 4 ids"):
            lots(bad, 3)


def test_forced_steps_say_as_many_ids_as_were_drawn_by_lot(lm: SpeechLM) -> None:
    rules = TextRules(mix_ratio=(2, 6), min_token_text_ratio=40, max_token_text_ratio=40)
    for mean in (1.0, 2.5, 4.0):
        prophet = Prophet(3, lambda seed, said: [(seed + said) % SPEECH_IDS] * 3)
        runner = GraphedLM(
            lm, pool(64), SamplingConfig(), rules, max_positions=256, drafter=prophet, forced_acceptance=mean
        )
        streams = [runner.open(Prompt((1,)), seed=seed) for seed in range(8)]
        for stream in streams:
            stream.add_text([5, 6, 7])
            stream.end_text()
        steps = 0
        while any(stream.wants_step for stream in streams):
            steps += sum(stream.wants_step for stream in streams)
            runner.step(streams)
        assert all(len(stream.tokens) == 120 and stream.failure is None for stream in streams)
        assert 8 * 120 / steps == pytest.approx(mean, rel=0.12)


def test_what_cannot_be_is_refused(lm: SpeechLM) -> None:
    with pytest.raises(ValueError, match="nothing to accept"):
        GraphedLM(lm, pool(), SamplingConfig(), RULES, forced_acceptance=2.0)
    with pytest.raises(ValueError, match="16 guesses"):
        guessing(lm, Prophet(16, lambda _, __: []))
