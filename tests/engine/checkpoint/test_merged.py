"""What is written for vLLM says what the model says, and never an id of text."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from oscine_engine.checkpoint import draft as drafts
from oscine_engine.checkpoint import merged, synthetic
from oscine_engine.config import LMConfig
from oscine_engine.errors import CheckpointError
from oscine_engine.lm.network import SpeechLM

LM = synthetic.TINY.lm
CONFIGS = {
    "tiny": LM,
    "three queries a key": replace(LM, num_attention_heads=6, hidden_size=96, rms_norm_eps=1e-5, rope_theta=1e4),
}


def drawn(config: LMConfig, seed: int = 1) -> SpeechLM:
    """A model whose norms, biases and head are far from what they begin as."""
    torch.manual_seed(seed)
    lm = SpeechLM(config).eval().requires_grad_(False)
    for name, value in lm.named_parameters():
        if value.dim() == 1:
            value.copy_(torch.randn_like(value) * 0.5 + ("norm" in name) * 1.5)
    lm.llm_decoder.weight.mul_(10)
    return lm


def sequence(config: LMConfig, count: int = 60) -> tuple[Tensor, Tensor]:
    """Ids of a merged vocabulary [count], and which of them are text."""
    torch.manual_seed(2)
    is_text = torch.rand(count) < 0.3
    text, speech = torch.randint(config.vocab_size, (count,)), torch.randint(config.decoder_rows, (count,))
    return torch.where(is_text, text, speech + config.vocab_size), is_text


def native_logits(lm: SpeechLM, ids: Tensor, is_text: Tensor) -> Tensor:
    rows = torch.where(is_text, 0, ids - lm.config.vocab_size)
    embeds = torch.where(is_text[:, None], lm.embed_text(torch.where(is_text, ids, 0)), lm.embed_speech(rows))
    return lm.head(lm(embeds[None]))[0]


def allowed(config: LMConfig) -> Tensor:
    """Rows of the speech tables that may be sampled."""
    return torch.tensor([*range(config.speech_token_size), config.speech_token_size + 1])


def read(folder: Path, dtype: torch.dtype) -> Any:
    """As transformers reads it, whose import brings Triton's: too early for tests/engine/kernels otherwise."""
    from transformers import Qwen2ForCausalLM

    return Qwen2ForCausalLM.from_pretrained(folder, dtype=dtype)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_logits_are_those_of_the_model(config: LMConfig, tmp_path: Path) -> None:
    lm = drawn(config)
    ids, is_text = sequence(config)
    served = read(merged.write(lm, tmp_path / "out", "float32"), dtype=torch.float32)
    with torch.inference_mode():
        wanted = native_logits(lm, ids, is_text)[:, allowed(config)]
        logits = served(ids[None]).logits[0]
    found = logits[:, config.vocab_size + allowed(config)]
    torch.testing.assert_close(found, wanted, atol=1e-5 * float(wanted.abs().max()), rtol=0)
    torch.testing.assert_close(
        logits.log_softmax(-1)[:, config.vocab_size + allowed(config)], wanted.log_softmax(-1), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_only_speech_and_eos_can_be_sampled(precision: merged.Precision, tmp_path: Path) -> None:
    """Whatever the last layer puts out, from nothing to the most that a float16 holds: the real norm and head."""
    lm = drawn(LM)
    kind: torch.dtype = getattr(torch, precision)
    served = read(merged.write(lm, tmp_path / "out", precision), dtype=kind)
    constant = served.model.embed_tokens.weight[0, LM.hidden_size :]
    torch.manual_seed(3)
    states = torch.randn(40, LM.hidden_size)
    # The worst of all: states that point away from every speech id.
    states[20:] = -lm.llm_decoder.weight[: LM.speech_token_size].mean(0) / lm.decoder.norm.weight
    states *= 65000 / states.abs().amax(-1, keepdim=True)
    states *= torch.logspace(0, -12, 20).repeat(2)[:, None]
    states[0] = 0
    wide = torch.cat((states.to(kind), constant.expand(40, -1)), dim=-1)
    with torch.inference_mode():
        logits = served.lm_head(served.model.norm(wide)).float()
    assert not logits.isnan().any()
    # A state of this size has a logit that the format cannot hold.
    largest = 0.9 * merged._Widened.of(LM).forbidding(precision) / _largest(precision)
    ordinary = states.square().mean(-1).sqrt() < largest
    assert (logits[ordinary][:, : LM.vocab_size] == -torch.inf).all() and largest > 400
    chances = logits.softmax(-1)
    legal = LM.vocab_size + allowed(LM)
    assert chances[:, legal].sum(-1).sub(1).abs().max() < 1e-5
    chances[:, legal] = 0
    assert chances.max() == 0


def test_constant_channels_stay_what_they_are(tmp_path: Path) -> None:
    lm = drawn(LM)
    served = read(merged.write(lm, tmp_path / "out"), dtype=torch.float16)
    ids, _ = sequence(LM)
    with torch.inference_mode():
        # The last one is behind the norm.
        states = served(ids[None], output_hidden_states=True).hidden_states[:-1]
    table = served.model.embed_tokens.weight[ids, LM.hidden_size :]
    assert len(states) == LM.num_hidden_layers and table.abs().sum() > 0
    for state in states:
        assert torch.equal(state[0, :, LM.hidden_size :], table)


def test_a_directory_tells_what_it_was_made_of(tmp_path: Path) -> None:
    root = merged.write(drawn(LM), tmp_path / "out")
    vocabulary = merged.read(root, LM)
    assert vocabulary.size == LM.vocab_size + LM.decoder_rows
    assert json.loads((root / "config.json").read_text())["eos_token_id"] == vocabulary.eos
    assert vocabulary.eos == LM.vocab_size + LM.speech_token_size + 1
    with pytest.raises(CheckpointError, match="another language model"):
        merged.read(root, replace(LM, speech_token_size=2000, decoder_rows=2200))
    with pytest.raises(CheckpointError, match="oscine convert"):
        merged.read(tmp_path, LM)
    with pytest.raises(CheckpointError, match="not an empty directory"):
        merged.write(drawn(LM), root)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="cannot be known"):
        merged.read(tmp_path, LM)


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    lm = drawn(LM)
    lm.llm_decoder.weight.mul_(1e4)
    with pytest.raises(CheckpointError, match="ruled out"):
        merged.write(lm, tmp_path / "loud")
    lm = drawn(LM)
    lm.decoder.embed_tokens.weight[5, 5] = 1e5
    with pytest.raises(CheckpointError, match="float16 cannot hold"):
        merged.write(lm, tmp_path / "large")
    merged.write(lm, tmp_path / "fine", "bfloat16")


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("offset", [0, LM.vocab_size])
def test_a_draft_guesses_the_same(own: bool, offset: int, tmp_path: Path) -> None:
    lm = drawn(LM)
    config = replace(
        drafts.published(LM),
        speech_offset=offset,
        vocab_size=offset + LM.decoder_rows,
        mask_token_id=offset + LM.decoder_rows - 1,
        draft_vocab_size=500,
        num_hidden_layers=2,
        markov_rank=8,
        own_embedding=own,
    )
    torch.manual_seed(4)
    draft = drafts.DraftNetwork(config).eval().requires_grad_(False)
    for value in draft.parameters():
        value.copy_(torch.randn_like(value) * (0.3 if value.dim() == 2 else 1.0))
    draft.d2t.copy_(offset + torch.randperm(LM.speech_token_size)[:500].sort().values - torch.arange(500))
    written = merged.write_draft(draft, lm, tmp_path / "draft", "float32")
    again = drafts.load(written)
    assert again.config.target_layer_ids == config.target_layer_ids and again.config.count == config.count
    hidden, layers = merged.Merged.of(LM), len(config.target_layer_ids)
    wide = again.config.target_hidden_size
    assert again.config.vocab_size == hidden.size and wide > LM.hidden_size
    features = torch.randn(1, 12, layers, LM.hidden_size)
    # The channels that a target has more hold what is none of the draft's business.
    more = torch.full((1, 12, layers, wide - LM.hidden_size), 0.25)
    anchors, positions = torch.randint(LM.speech_token_size, (1, 3)), torch.tensor([[4, 8, 12]])
    with torch.inference_mode():
        old = draft(features.flatten(2), anchors + offset, positions, lm)
        new = again(torch.cat((features, more), -1).flatten(2), anchors + LM.vocab_size, positions, lm)
        torch.testing.assert_close(new, old)
        said = torch.randint(LM.speech_token_size, old.shape[:-1])
        torch.testing.assert_close(
            again.logits(new, said + LM.vocab_size, lm), draft.logits(old, said + offset, lm), atol=1e-4, rtol=1e-4
        )
    assert torch.equal(again.targets() - LM.vocab_size, draft.targets() - offset)


def test_a_draft_of_another_target_is_refused(tmp_path: Path) -> None:
    other = replace(LM, hidden_size=128)
    with pytest.raises(CheckpointError, match="width 128"):
        merged.write_draft(drafts.random(replace(other, num_hidden_layers=1)), drawn(LM), tmp_path / "draft")


def test_full_size_holds_in_float16() -> None:
    """The released sizes: what the constant channels hold and do are numbers that a float16 has."""
    widened = merged._Widened.of(LMConfig())
    assert (widened.hidden, widened.heads) == (1024, 16)
    numbers = torch.tensor([widened.value, widened.norm, merged._ROW["float16"]])
    assert torch.equal(numbers.half().float(), numbers)
    # The largest they are made, by a state of zeros, and the least, by the largest state.
    assert widened.norm * widened.value / math.sqrt(1e-6 * 896 / 1024) < 65504
    assert torch.tensor(widened.value / 16000).half() > 0
    # Infinitely small for any state that there is, in every format.
    assert all(widened.forbidding(precision) > 2000 * _largest(precision) for precision in merged._ROW)
    assert 0 < widened.eps < 1e-6


def _largest(precision: merged.Precision) -> float:
    kind: torch.dtype = getattr(torch, precision)
    return torch.finfo(kind).max
