"""Draft networks on disk."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from oscine_engine.checkpoint import draft
from oscine_engine.errors import CheckpointError
from oscine_engine.lm.draft import DraftConfig, DraftNetwork

CONFIG = DraftConfig(
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=6,
    intermediate_size=20,
    vocab_size=40,
    draft_vocab_size=30,
    target_hidden_size=12,
    target_layer_ids=(1, 3, 4),
    mask_token_id=39,
    markov_rank=5,
    block_size=8,
    speech_offset=7,
)
Change = Callable[[dict[str, Any]], object]


def network(config: DraftConfig = CONFIG) -> DraftNetwork:
    torch.manual_seed(0)
    made = DraftNetwork(config)
    if config.draft_vocab_size != config.vocab_size:
        made.d2t.copy_(torch.arange(10, 40) - torch.arange(30))
    return made


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(CONFIG, bonus_anchor=False, attention_bias=True, logit_scale=0.5, rope_theta=1e4, rms_norm_eps=1e-5),
        replace(CONFIG, own_embedding=False),
        replace(CONFIG, own_embedding=False, own_head=False, draft_vocab_size=40),
    ],
)
def test_what_is_saved_is_loaded(config: DraftConfig, tmp_path: Path) -> None:
    made = network(config)
    draft.save(made, tmp_path, "fp32", target="some/model")
    again = draft.load(tmp_path)
    assert again.config == config and not again.training
    assert not any(parameter.requires_grad for parameter in again.parameters())
    state = again.state_dict()
    assert state.keys() == made.state_dict().keys()
    assert all(torch.equal(state[name], value) for name, value in made.state_dict().items())
    half = draft.load(tmp_path, dtype=torch.bfloat16, speech_offset=3)
    assert half.fc.weight.dtype == torch.bfloat16 and half.config.speech_offset == 3
    if config.draft_vocab_size != config.vocab_size:
        assert torch.equal(half.d2t, made.d2t)


def test_weights_have_their_published_names(tmp_path: Path) -> None:
    draft.save(network(), tmp_path)
    layer = [
        "input_layernorm.weight",
        "mlp.down_proj.weight",
        "mlp.gate_proj.weight",
        "mlp.up_proj.weight",
        "post_attention_layernorm.weight",
        "self_attn.k_norm.weight",
        "self_attn.k_proj.weight",
        "self_attn.o_proj.weight",
        "self_attn.q_norm.weight",
        "self_attn.q_proj.weight",
        "self_attn.v_proj.weight",
    ]
    own = ["d2t", "embed_tokens.weight", "fc.weight", "hidden_norm.weight", "lm_head.weight", "norm.weight"]
    markov = ["markov_head.markov_w1.weight", "markov_head.markov_w2.weight"]
    layers = [f"layers.{number}.{name}" for number in (0, 1) for name in layer]
    assert sorted(load_file(tmp_path / "model.safetensors")) == sorted([*own, *markov, *layers])


def test_the_flat_form_of_the_configuration_is_read(tmp_path: Path) -> None:
    draft.save(network(), tmp_path, "fp32")
    path = tmp_path / "config.json"
    nested = json.loads(path.read_text())
    flat = {
        **nested["transformer_layer_config"],
        "architectures": ["Qwen3DSparkModel"],
        "target_layer_ids": [1, 3, 4],
        **{key: nested[key] for key in ("draft_vocab_size", "mask_token_id", "markov_rank", "block_size")},
        **{key: nested[key] for key in ("target_hidden_size", "speech_offset")},
    }
    del flat["rope_theta"]
    flat["rope_parameters"] = {"rope_type": "default", "rope_theta": 5e5}
    path.write_text(json.dumps(flat))
    read = draft.load(tmp_path).config
    assert read == replace(CONFIG, bonus_anchor=False, rope_theta=5e5) and read.count == 8
    path.write_text(json.dumps({**flat, "dspark_bonus_anchor": True}))
    assert draft.load(tmp_path).config.count == 7


def test_what_only_training_needs_is_passed_over_and_shards_are_joined(tmp_path: Path) -> None:
    draft.save(network(), tmp_path, "fp32")
    extra = {
        "t2d": torch.zeros(40, dtype=torch.bool),
        "confidence_head.proj.weight": torch.zeros(1, 16),
        "confidence_head.proj.bias": torch.zeros(1),
        "mask_embedding": torch.zeros(16),
    }
    save_file(extra, tmp_path / "more.safetensors")
    assert torch.equal(draft.load(tmp_path).fc.weight, network().fc.weight)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("markov_rank"), "lacks markov_rank"),
        (lambda d: d["transformer_layer_config"].pop("vocab_size"), "lacks vocab_size"),
        (lambda d: d.update(speculators_model_type="eagle3"), "only dspark drafts"),
        (lambda d: d.update(speculators_model_type=None), "only Qwen3DSparkModel can be run"),
        (lambda d: d.update(markov_head_type="gated"), "markov_head_type is 'gated'"),
        (lambda d: d.update(dflash_config={"causal": True}), "causal is True"),
        (lambda d: d.update(aux_hidden_state_layer_ids=[0, 2]), "outputs of layers"),
        (lambda d: d.update(mask_token_id=40), "mask_token_id must be an id"),
        (lambda d: d.update(block_size=1), "must guess one id"),
        (lambda d: d["transformer_layer_config"].update(model_type="llama"), "model_type is 'llama'"),
        (lambda d: d["transformer_layer_config"].update(hidden_act="gelu"), "hidden_act is 'gelu'"),
        (lambda d: d["transformer_layer_config"].update(rope_scaling={"type": "yarn"}), "rope_type is 'yarn'"),
        (lambda d: d["transformer_layer_config"].update(layer_types=["sliding_attention"] * 2), "only full attention"),
        (lambda d: d["transformer_layer_config"].update(num_key_value_heads=3), "multiple of key heads"),
        (lambda d: d["transformer_layer_config"].update(num_hidden_layers=3), "11 missing: layers.2"),
        (lambda d: d.update(markov_rank=4), r"markov_w1.weight \[40, 5\] instead of \[40, 4\]"),
    ],
)
def test_other_configurations_are_refused(change: Change, message: str, tmp_path: Path) -> None:
    draft.save(network(), tmp_path, "fp32")
    document = json.loads((tmp_path / "config.json").read_text())
    change(document)
    (tmp_path / "config.json").write_text(json.dumps(document))
    with pytest.raises(CheckpointError, match=message):
        draft.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("fc.weight"), "1 missing: fc.weight"),
        (lambda s: s.update({"layers.0.self_attn.sinks": torch.zeros(4)}), "1 unexpected: layers.0.self_attn.sinks"),
        (lambda s: s["norm.weight"].fill_(torch.nan), "1 not finite: norm.weight"),
        (lambda s: s["d2t"].fill_(11), "d2t leads to ids outside"),
        (lambda s: s["d2t"].copy_(torch.zeros(30) - torch.arange(30)), "twice to the same one"),
        (lambda s: s.pop("d2t"), "1 missing: d2t"),
        (lambda s: s.pop("lm_head.weight"), "shares the target's head, but proposes 30 of 40"),
    ],
)
def test_other_weights_are_refused(change: Change, message: str, tmp_path: Path) -> None:
    draft.save(network(), tmp_path, "fp32")
    state = load_file(tmp_path / "model.safetensors")
    change(state)
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=message):
        draft.load(tmp_path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"there is no config\.json"):
        draft.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="not readable JSON"):
        draft.load(tmp_path)
    draft.save(network(), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no \.safetensors files"):
        draft.load(tmp_path)
