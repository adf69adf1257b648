"""The paged, ragged runner against the network, and streams against themselves in other company."""

import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from oscine_engine.config import LMConfig, SamplingConfig, TextRules
from oscine_engine.lm.graphed import GraphedLM
from oscine_engine.lm.interleave import Input, Kind, Layout, Phase, Prompt
from oscine_engine.lm.network import SpeechLM
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.runner import Draw, LMRunner
from oscine_engine.lm.sequence import training_sequence
from oscine_engine.lm.stream import LMStream, Mode
from oscine_engine.runtime.pages import PagePool, PoolExhausted

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
PROMPTS = [Prompt((1, 2)), Prompt((3,), (4, 5, 6), tuple(range(11))), Prompt((7, 8, 9), (4,), (1, 2))]


@pytest.fixture(scope="module")
def lm() -> SpeechLM:
    torch.manual_seed(1)
    lm = SpeechLM(CONFIG).eval()
    for parameter in lm.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return lm


@pytest.fixture(autouse=True, params=[LMRunner, GraphedLM], ids=["ragged", "slotted"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test here runs over both runners."""
    monkeypatch.setattr(sys.modules[__name__], "Runner", request.param)


Runner: type[LMRunner] = LMRunner


def make_runner(lm: SpeechLM, pages: int = 200, page_tokens: int = 8, rules: TextRules = RULES) -> LMRunner:
    return Runner(lm, PagePool(pages, page_shape(CONFIG, page_tokens)), SamplingConfig(), rules)


def speak(runner: LMRunner, streams: list[LMStream]) -> list[list[int]]:
    while any(stream.wants_step for stream in streams):
        runner.step(streams)
    return [stream.tokens for stream in streams]


def open_stream(runner: LMRunner, index: int, mode: Mode, seed: int) -> LMStream:
    stream = runner.open(PROMPTS[index % len(PROMPTS)], mode=mode, seed=seed)
    stream.add_text([(10 + index * 7 + i) % 50 for i in range(3 + 2 * index)])
    stream.end_text()
    return stream


def reference_hidden(lm: SpeechLM, inputs: list[Input]) -> Tensor:
    embeds = [
        lm.embed_text(torch.tensor(i.id)) if i.kind is Kind.TEXT else lm.embed_speech(torch.tensor(i.id))
        for i in inputs
    ]
    return lm(torch.stack(embeds)[None])[0]


@pytest.mark.parametrize("page_tokens", [3, 8, 64])
@torch.inference_mode()
def test_ragged_pieces_over_pages_equal_one_forward(lm: SpeechLM, page_tokens: int) -> None:
    runner = make_runner(lm, page_tokens=page_tokens)
    torch.manual_seed(0)
    lengths = [5, 17, 30]
    wanted = [
        [Input(Kind(int(k)), int(i)) for k, i in torch.randint(0, 2, (n, 2)).mul(torch.tensor([1, 37]))]
        for n in lengths
    ]
    streams = [runner.open(Prompt()) for _ in lengths]
    got: list[list[Tensor]] = [[] for _ in lengths]
    for size in (4, 1, 6, 1, 18):
        fed = [(s, seq[s.length : s.length + size]) for s, seq in zip(streams, wanted, strict=True)]
        fed = [(s, part) for s, part in fed if part]
        hidden = runner.forward(fed)
        for (stream, part), rows in zip(fed, hidden.split([len(part) for _, part in fed]), strict=True):
            got[streams.index(stream)].append(rows)
            stream.length += len(part)
    for pieces, sequence in zip(got, wanted, strict=True):
        torch.testing.assert_close(torch.cat(pieces), reference_hidden(lm, sequence), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("mode", ["whole", "interleaved"])
def test_streams_say_the_same_alone_and_together(lm: SpeechLM, mode: Mode) -> None:
    runner = make_runner(lm)
    alone = [speak(runner, [open_stream(runner, i, mode, seed=i)])[0] for i in range(5)]
    together = speak(runner, [open_stream(runner, i, mode, seed=i) for i in range(5)])
    assert together == alone
    assert len({tuple(tokens) for tokens in alone}) == 5


def test_text_arriving_late_and_streams_joining_late_change_nothing(lm: SpeechLM) -> None:
    runner = make_runner(lm)
    [calm] = speak(runner, [open_stream(runner, 4, "interleaved", seed=5)])
    stream = runner.open(PROMPTS[4 % len(PROMPTS)], mode="interleaved", seed=5)
    text = [(10 + 4 * 7 + i) % 50 for i in range(11)]
    others: list[LMStream] = []
    for number, piece in enumerate(text):
        stream.add_text([piece])
        if number % 3 == 0:
            others.append(open_stream(runner, number, "whole", seed=number))
        for _ in range(2):
            runner.step([*others, stream])
    stream.end_text()
    speak(runner, [*others, stream])
    assert stream.tokens == calm


@torch.inference_mode()
def test_several_positions_drawn_at_once_are_those_drawn_one_by_one(lm: SpeechLM) -> None:
    runner = make_runner(lm)
    [tokens] = speak(runner, [open_stream(runner, 4, "whole", seed=6)])
    stream = open_stream(runner, 4, "whole", seed=6)
    while len(stream.tokens) < 3:
        runner.step([stream])
    draft = stream.machine.take().inputs + [Input(Kind.SPEECH, token) for token in tokens[3:9]]
    logits = runner.packed.head(runner.forward([(stream, draft)]))
    draws = [Draw(6, tokens[:count], may_end=False) for count in range(3, 10)]
    assert runner.choose(logits, draws) == tokens[3:10]


def test_seeds_differ_and_repeat(lm: SpeechLM) -> None:
    runner = make_runner(lm)
    first, again, other = (speak(runner, [open_stream(runner, 2, "whole", seed=s)])[0] for s in (1, 1, 2))
    assert first == again
    assert first != other


def opinionated(favours: dict[int, float], rules: TextRules = RULES) -> LMRunner:
    """A runner whose logits are the same at every position: 32 times the number given for an id, else 0."""
    lm = SpeechLM(CONFIG).eval()
    with torch.no_grad():
        for name, weight in lm.named_parameters():
            weight.fill_(1.0 if "embed" in name or name.endswith("norm.weight") else 0.0)
        for row, favour in favours.items():
            lm.llm_decoder.weight[row] = favour
    return make_runner(lm, rules=rules)


@pytest.mark.parametrize(("mode", "least"), [("whole", 10), ("interleaved", 12)])
def test_a_model_that_wants_to_end_is_held_to_the_minimum(mode: Mode, least: int) -> None:
    """eos is favoured, then sos and fill: only speech comes out, no more than the minimum or the last whole block."""
    runner = opinionated({CONFIG.eos: 3.0, CONFIG.sos: 2.0, CONFIG.fill: 2.0, CONFIG.fill + 5: 2.0})
    stream = runner.open(PROMPTS[0], mode=mode)
    stream.add_text([5, 6, 7, 8, 9])
    stream.end_text()
    speak(runner, [stream])
    assert len(stream.tokens) == least
    assert all(0 <= token < CONFIG.speech_token_size for token in stream.tokens)


def test_a_model_that_never_ends_is_stopped_at_the_maximum() -> None:
    runner = opinionated({CONFIG.eos: -3.0})
    stream = runner.open(PROMPTS[0], seed=3)
    stream.add_text([5] * 4)
    stream.end_text()
    assert not stream.capped
    [tokens] = speak(runner, [stream])
    assert len(tokens) == 24
    assert stream.state == "done"
    assert stream.capped


def test_an_end_of_its_own_and_a_fixed_length_are_no_caps() -> None:
    ending = opinionated({CONFIG.eos: 3.0})
    stream = ending.open(PROMPTS[0])
    stream.add_text([5] * 4)
    stream.end_text()
    speak(ending, [stream])
    assert (len(stream.tokens), stream.capped) == (8, False)
    fixed = opinionated({CONFIG.eos: -3.0}, replace(RULES, min_token_text_ratio=6))
    for limit, capped in ((None, False), (7, True)):
        stream = fixed.open(PROMPTS[0], limit=limit)
        stream.add_text([5] * 4)
        stream.end_text()
        speak(fixed, [stream])
        assert (len(stream.tokens), stream.capped) == (limit or 24, capped)


@pytest.mark.parametrize("mode", ["whole", "interleaved"])
def test_the_limit_stops_a_stream_anywhere(mode: Mode) -> None:
    runner = opinionated({CONFIG.eos: -3.0})
    stream = runner.open(PROMPTS[0], mode=mode, limit=7)
    stream.add_text([5] * 4)
    stream.end_text()
    [tokens] = speak(runner, [stream])
    assert len(tokens) == 7


@pytest.mark.parametrize("kind", [LMRunner], indirect=True)
def test_inputs_fed_are_the_training_layout(lm: SpeechLM, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = make_runner(lm)
    seen: list[Input] = []
    forward = runner.forward
    monkeypatch.setattr(runner, "forward", lambda fed: seen.extend(fed[0][1]) or forward(fed))
    stream = open_stream(runner, 3, "interleaved", seed=8)
    [tokens] = speak(runner, [stream])
    text = [(10 + 3 * 7 + i) % 50 for i in range(9)]
    wanted = training_sequence(text, tokens, Layout.of(CONFIG, RULES), True, PROMPTS[0].prefix)
    fed = [(i.kind, i.id) for i in seen]
    assert fed == list(zip(wanted.kinds, wanted.ids, strict=True))[: len(fed)]
    assert len(wanted.ids) - len(fed) <= 1


def test_pages_are_taken_as_needed_and_all_come_back(lm: SpeechLM) -> None:
    runner = make_runner(lm, pages=12)
    streams = [open_stream(runner, i, "whole", seed=i) for i in (0, 1)]
    assert runner.pool.num_free == 12
    assert runner.pages_wanted(streams) == 1 + 3
    runner.step(streams)
    assert runner.pool.num_free == 8
    for stream in streams:
        runner.close(stream)
        runner.close(stream)
        assert stream.state == "done"
    assert runner.pool.num_free == 12


def test_a_step_that_does_not_fit_changes_nothing(lm: SpeechLM) -> None:
    runner = make_runner(lm, pages=3)
    small, large = (open_stream(runner, i, "whole", seed=0) for i in (0, 1))
    with pytest.raises(PoolExhausted, match="needs 4 pages"):
        runner.step([small, large])
    assert runner.pool.num_free == 3
    assert len(runner.step([small])[0]) == 1


def test_a_stream_with_bad_numbers_fails_alone(lm: SpeechLM) -> None:
    runner = make_runner(lm)
    [wanted] = speak(runner, [open_stream(runner, 1, "whole", seed=4)])
    good, bad = open_stream(runner, 1, "whole", seed=4), open_stream(runner, 2, "whole", seed=4)
    runner.step([good, bad])
    runner.pool.data[bad.pages[0]] = torch.nan
    speak(runner, [good, bad])
    assert good.tokens == wanted
    assert good.failure is None
    assert bad.failure is not None
    assert bad.state == "done"


@pytest.mark.parametrize(
    ("kind", "broken"),
    [(LMRunner, "forward"), (LMRunner, "head"), (LMRunner, "choose"), (GraphedLM, "compute"), (GraphedLM, "_draw")],
    indirect=["kind"],
)
def test_a_step_that_raises_has_moved_no_stream(lm: SpeechLM, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    runner = make_runner(lm)
    calm = [speak(runner, [open_stream(runner, i, "interleaved", seed=i)])[0] for i in range(3)]
    streams = [open_stream(runner, i, "interleaved", seed=i) for i in range(3)]

    def failing(*_: object) -> None:
        raise RuntimeError("device lost")

    for _ in range(40):
        with monkeypatch.context() as broken_runner:
            broken_runner.setattr(runner.packed if broken == "head" else runner, broken, failing)
            saying = any(s.wants_step and s.machine.phase in (Phase.BLOCK, Phase.TAIL) for s in streams)
            if saying or (broken != "head" and broken != "choose" and any(s.wants_step for s in streams)):
                with pytest.raises(RuntimeError, match="device lost"):
                    runner.step(streams)
        for stream in streams:
            runner.step([stream])
    assert speak(runner, streams) == calm
    for stream in streams:
        runner.close(stream)


@pytest.mark.parametrize("kind", [LMRunner], indirect=True)
def test_an_illegal_id_is_the_failure_of_its_stream_alone(lm: SpeechLM, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = make_runner(lm)
    [wanted] = speak(runner, [open_stream(runner, 1, "whole", seed=4)])
    good, bad = open_stream(runner, 1, "whole", seed=4), open_stream(runner, 2, "whole", seed=4)
    choose = runner.choose
    with monkeypatch.context() as patched:
        patched.setattr(runner, "choose", lambda logits, draws: [*choose(logits, draws)[:1], CONFIG.sos])
        runner.step([good, bad])
    assert bad.failure is not None
    assert "not legal" in bad.failure.message
    assert speak(runner, [good, bad]) == [wanted, []]


@pytest.mark.parametrize("mode", ["whole", "interleaved"])
def test_what_recycled_pages_hold_reaches_nobody(lm: SpeechLM, mode: Mode) -> None:
    clean, dirty = make_runner(lm, page_tokens=5), make_runner(lm, page_tokens=5)
    dirty.pool.data.fill_(torch.nan)
    for runner in (clean, dirty):
        streams = [open_stream(runner, i, mode, seed=i) for i in range(4)]
        speak(runner, streams)
        assert all(stream.failure is None for stream in streams)
    assert speak(dirty, [open_stream(dirty, i, mode, seed=i) for i in range(4)]) == speak(
        clean, [open_stream(clean, i, mode, seed=i) for i in range(4)]
    )


@pytest.mark.parametrize("mode", ["whole", "interleaved"])
@pytest.mark.parametrize("limit", [None, 9])
def test_positions_stay_within_what_is_told_beforehand(mode: Mode, limit: int | None) -> None:
    runner = opinionated({CONFIG.eos: -3.0})
    for prompt in PROMPTS:
        stream = runner.open(prompt, mode=mode, limit=limit)
        stream.add_text([5] * 7)
        most = stream.positions_at_most
        stream.end_text()
        speak(runner, [stream])
        assert stream.capped
        assert most - 10 <= stream.length <= most
        assert stream.positions_at_most == most


def test_state_follows_the_text(lm: SpeechLM) -> None:
    runner = make_runner(lm)
    stream = runner.open(PROMPTS[0], mode="interleaved")
    assert (stream.state, stream.wants_step) == ("needs_text", True)
    runner.step([stream])
    assert (stream.state, stream.wants_step) == ("needs_text", False)
    stream.add_text([1, 2])
    assert (stream.state, stream.wants_step) == ("running", True)
    stream.end_text()
    speak(runner, [stream])
    assert stream.state == "done"


def test_pages_of_another_shape_are_refused(lm: SpeechLM) -> None:
    with pytest.raises(ValueError, match="page_shape"):
        LMRunner(lm, PagePool(2, (1, 2, 2, 8, 8)), SamplingConfig(), RULES)
