"""What we compute from a published draft is what vLLM computes from it.

pip download --no-deps vllm==0.26.0 && unzip -q vllm-0.26.0-*.whl 'vllm/*.py' -d SOURCES
VLLM_SOURCES=SOURCES pytest -m slow tests/engine/lm/test_draft_vllm.py
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from oscine_engine.checkpoint import draft as files
from oscine_engine.checkpoint import merged
from oscine_engine.lm.draft import DraftConfig, DraftNetwork
from oscine_engine.lm.drafter import PackedDraft
from oscine_engine.lm.packed import page_shape
from oscine_engine.lm.sampling import NO_ID
from oscine_engine.runtime.pages import PagePool
from tests.engine.lm import vllm_leaves
from tests.engine.lm.test_draft import OWN, SAMPLING, TARGET, make

SOURCES = os.environ.get("VLLM_SOURCES", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SOURCES, reason="VLLM_SOURCES must name a folder with vLLM's sources; see the docstring"),
]
# A shared embedding is an object that vLLM's loader for whole engines hands over, so these drafts have their own.
CONFIGS = [OWN, replace(OWN, attention_bias=True, rope_theta=1e6, block_size=8), replace(OWN, draft_vocab_size=90)]


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    def put(name: str, module: ModuleType) -> None:
        monkeypatch.setitem(sys.modules, name, module)

    return {name.rpartition(".")[2]: module for name, module in vllm_leaves.modules(Path(SOURCES), put).items()}


def theirs(vllm: dict[str, ModuleType], folder: Path) -> Any:
    """vLLM's model of a published folder, through its own reading of the configuration and the weights."""
    document = json.loads((folder / "config.json").read_text())
    trunk: dict[str, Any] = document.get("transformer_layer_config", document)
    if trunk is not document:
        vllm["algos"].SUPPORTED_SPECULATORS_TYPES["dspark"](document, trunk)
        # What the adapter leaves out, and the loader reads: the layers whose outputs are fused.
        trunk["dflash_config"] = {key: trunk[key] for key in ("target_layer_ids", "mask_token_id")}
    assert trunk["architectures"] == ["Qwen3DSparkModel"] and trunk["dspark_bonus_anchor"]
    trunk["rope_parameters"] = {"rope_type": "default", "rope_theta": trunk.pop("rope_theta")}
    config = SimpleNamespace(**{"max_position_embeddings": 512} | trunk)
    draft = SimpleNamespace(hf_config=config)
    model = vllm["qwen3_dspark"].Qwen3DSparkForCausalLM(
        vllm_config=SimpleNamespace(
            speculative_config=SimpleNamespace(draft_model_config=draft),
            model_config=SimpleNamespace(
                dtype=torch.float32,
                get_num_layers=lambda _: TARGET.num_hidden_layers,
                get_vocab_size=lambda: config.vocab_size,
            ),
            parallel_config=None,
        )
    )
    model.load_weights(load_file(folder / "model.safetensors").items())
    return model.eval()


def their_logits(model: Any, config: DraftConfig, features: Tensor, anchor: int, previous: list[int]) -> Tensor:
    """Logits [count, draft ids] of a block after `features`, guess i after the id previous[i], as their speculator."""
    at = torch.arange(len(features))
    model.precompute_and_store_context_kv(model.combine_hidden_states(features), at, at)
    ids = torch.tensor([anchor, *[config.mask_token_id] * config.count])
    hidden = model(ids, len(features) + torch.arange(len(ids)))
    logits: Tensor = model.compute_draft_logits(hidden[1:])
    return logits + model.markov_bias(model.markov_embed(torch.tensor(previous)))


@pytest.mark.parametrize("config", CONFIGS)
@torch.no_grad()
def test_logits_are_those_of_vllm(config: DraftConfig, vllm: dict[str, ModuleType], tmp_path: Path) -> None:
    network, lm = make(config)
    files.save(network, tmp_path, "fp32")
    other = theirs(vllm, tmp_path)
    ours = files.load(tmp_path)
    features = torch.randn(13, 3 * 24)
    previous = [35, *torch.randint(0, 90, (config.count - 1,)).tolist()]
    wanted = their_logits(other, config, features, 35, previous)
    hidden = ours(features[None], torch.tensor([[35]]), torch.tensor([[13]]), lm)[0, 0]
    found = ours.logits(hidden, torch.tensor(previous), lm)
    assert wanted.std() > 0.5
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    everything = torch.arange(config.draft_vocab_size)
    assert torch.equal(other.map_draft_to_target(everything), ours.targets())


@pytest.mark.parametrize("config", CONFIGS)
@torch.no_grad()
def test_vllm_reads_a_converted_draft(config: DraftConfig, vllm: dict[str, ModuleType], tmp_path: Path) -> None:
    """For a target with more channels and all of its ids, as it is served there."""
    network, lm = make(config)
    other = theirs(vllm, merged.write_draft(network, lm, tmp_path / "draft", "float32"))
    wide = files.load(tmp_path / "draft").config
    shift, more = wide.speech_offset - config.speech_offset, wide.target_hidden_size - 24
    features, previous = torch.randn(13, 3, 24), [35, *torch.randint(0, 90, (config.count - 1,)).tolist()]
    wider = torch.cat((features, torch.full((13, 3, more), 0.25)), dim=-1)
    found = their_logits(other, wide, wider.flatten(1), 35 + shift, [token + shift for token in previous])
    hidden = network(features.flatten(1)[None], torch.tensor([[35]]), torch.tensor([[13]]), lm)[0, 0]
    wanted = network.logits(hidden, torch.tensor(previous), lm)
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    everything = torch.arange(config.draft_vocab_size)
    assert more > 0 and torch.equal(other.map_draft_to_target(everything), network.targets() + shift)


@torch.no_grad()
def test_paged_guesses_follow_the_logits_of_vllm(vllm: dict[str, ModuleType], tmp_path: Path) -> None:
    """At a temperature next to nothing the guesses are the likeliest speech ids, one after the other."""
    network, lm = make(OWN)
    files.save(network, tmp_path, "fp32")
    other, ours = theirs(vllm, tmp_path), files.load(tmp_path)
    features = torch.randn(13, 3 * 24)
    pool = PagePool(4, page_shape(TARGET, 8))
    drafter = PackedDraft(ours, lm, pool, replace(SAMPLING, tau_r=9.0), temperature=1e-6)
    at = torch.arange(13)
    drafter.remember(features, at, at + 8)
    number = torch.tensor([13])
    history = torch.tensor([[NO_ID, NO_ID, NO_ID, 5]])
    tables = torch.tensor([[1, 2]], dtype=torch.int32)
    zero, one = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    guesses = drafter.propose(torch.tensor([5]), number, zero, one, history, tables, number.int())[0]
    said = [5 + OWN.speech_offset]
    targets = other.map_draft_to_target(torch.arange(OWN.draft_vocab_size))
    speech = (targets >= OWN.speech_offset) & (targets < OWN.speech_offset + TARGET.speech_token_size)
    for step in range(OWN.count):
        logits = their_logits(other, OWN, features, said[0], said + [said[0]] * (OWN.count - len(said)))[step]
        said.append(int(targets[logits.masked_fill(~speech, -torch.inf).argmax()]))
    assert guesses.tolist() == [target - OWN.speech_offset for target in said[1:]]
    assert isinstance(ours, DraftNetwork)
