"""Draft networks on disk: a folder with config.json and safetensors, as DSpark drafts are published.

Two forms of config.json are read: that of the `speculators` library (`speculators_model_type` dspark) and the flat one
of `Qwen3DSparkModel`. `save` writes the first. One key is our own: `speech_offset`, the target's id of speech id 0 as
the draft counts ids. Without it, ids are counted as in the speech tables, or the caller says what it is.

Weights that only training needs (`t2d`, the confidence head, a mask embedding) are passed over; all others must be
there and fit.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oscine_engine.checkpoint import weights
from oscine_engine.config import LMConfig
from oscine_engine.errors import CheckpointError
from oscine_engine.lm.draft import DraftConfig, DraftNetwork

CONFIG = "config.json"
WEIGHTS = "model.safetensors"

PUBLISHED_LAYERS, PUBLISHED_BLOCK, PUBLISHED_IDS, PUBLISHED_RANK, PUBLISHED_FUSED = 3, 8, 8192, 256, 5
"""Of the draft published for CosyVoice3: layers, rows of a block, ids it proposes, rank, fused layers of the target."""

_PASSED_OVER = ("t2d", "confidence_head.", "mask_embedding")
_ARCHITECTURES = ("Qwen3DSparkModel", "Qwen3DSparkForCausalLM")


def load(
    directory: str | Path,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    speech_offset: int | None = None,
) -> DraftNetwork:
    """The draft network of a folder, in evaluation mode and without gradients.

    speech_offset: as in config.json, which it replaces. Raises CheckpointError for anything missing, left over, of
    another shape or of another architecture.
    """
    root = Path(directory)
    config = read_config(root / CONFIG)
    if speech_offset is not None:
        config = replace(config, speech_offset=speech_offset)
    state = _read_weights(root)
    config = replace(config, own_embedding="embed_tokens.weight" in state, own_head="lm_head.weight" in state)
    if not config.own_head and config.draft_vocab_size != config.vocab_size:
        raise CheckpointError(
            f"{root} has no lm_head.weight, so it shares the target's head, but proposes {config.draft_vocab_size} of "
            f"{config.vocab_size} ids"
        )
    network = weights.build(lambda: DraftNetwork(config), state, str(root))
    targets = network.targets()
    if int(targets.min()) < 0 or int(targets.max()) >= config.vocab_size or len(set(targets.tolist())) < len(targets):
        raise CheckpointError(f"{root}: d2t leads to ids outside of the vocabulary or twice to the same one")
    return network.to(device, dtype).eval().requires_grad_(False)


def _read_weights(root: Path) -> dict[str, Tensor]:
    files = sorted(root.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"there are no .safetensors files in {root}")
    state: dict[str, Tensor] = {}
    for path in files:
        state |= weights.read(path)
    return {key: value for key, value in state.items() if not key.startswith(_PASSED_OVER)}


def read_config(path: Path) -> DraftConfig:
    """Sizes of a draft; `own_embedding` and `own_head` are for the weights to say. Raises CheckpointError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no {path.name} in {path.parent}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not readable JSON: {error}") from error
    try:
        return _config(document)
    except KeyError as error:
        raise CheckpointError(f"{path} lacks {error.args[0]}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _config(document: Mapping[str, Any]) -> DraftConfig:
    """Raises KeyError for what is missing and ValueError for what cannot be run."""
    block = document.get("dflash_config") or {}
    if kind := document.get("speculators_model_type"):
        if kind != "dspark":
            raise ValueError(f"speculators_model_type is {kind}; only dspark drafts can be run")
        trunk = document["transformer_layer_config"]
        layers = [number - 1 for number in document["aux_hidden_state_layer_ids"]]
        bonus = not document.get("sample_from_anchor", False)
    else:
        trunk = document
        architectures = document.get("architectures") or []
        if not any(name in _ARCHITECTURES for name in architectures):
            raise ValueError(f"architectures are {architectures}; only {_ARCHITECTURES[0]} can be run")
        layers = list(block["target_layer_ids"] if "target_layer_ids" in block else document["target_layer_ids"])
        bonus = bool(document.get("dspark_bonus_anchor", False))
    _refuse(document, trunk, block)
    if not layers or min(layers) < 0:
        raise ValueError("the target's layers must be outputs of layers, one at least")
    heads = trunk["num_attention_heads"]
    rope = trunk.get("rope_parameters") or {}
    vocab = trunk["vocab_size"]
    config = DraftConfig(
        hidden_size=trunk["hidden_size"],
        num_hidden_layers=trunk["num_hidden_layers"],
        num_attention_heads=heads,
        num_key_value_heads=trunk.get("num_key_value_heads") or heads,
        head_dim=trunk.get("head_dim") or trunk["hidden_size"] // heads,
        intermediate_size=trunk["intermediate_size"],
        vocab_size=vocab,
        draft_vocab_size=document.get("draft_vocab_size") or vocab,
        target_hidden_size=document.get("target_hidden_size") or trunk["hidden_size"],
        target_layer_ids=tuple(layers),
        mask_token_id=block["mask_token_id"] if "mask_token_id" in block else document["mask_token_id"],
        markov_rank=document["markov_rank"],
        block_size=document["block_size"],
        speech_offset=document.get("speech_offset", 0),
        bonus_anchor=bonus,
        rope_theta=float(rope.get("rope_theta") or trunk.get("rope_theta") or 1e6),
        rms_norm_eps=trunk.get("rms_norm_eps", 1e-6),
        attention_bias=bool(trunk.get("attention_bias", False)),
        logit_scale=float(trunk.get("logit_scale", 1.0)),
    )
    if config.num_attention_heads % config.num_key_value_heads or config.head_dim % 2:
        raise ValueError("query heads must be a multiple of key heads, and channels of a head even")
    if not 0 <= config.mask_token_id < vocab or config.count < 1:
        raise ValueError("mask_token_id must be an id of the vocabulary, and a block must guess one id at least")
    return config


def _refuse(document: Mapping[str, Any], trunk: Mapping[str, Any], block: Mapping[str, Any]) -> None:
    """Raise ValueError for variants that this network does not have."""
    rope = trunk.get("rope_parameters") or trunk.get("rope_scaling") or {}
    wanted: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "markov_head_type": (document.get("markov_head_type"), (None, "vanilla")),
        "model_type": (trunk.get("model_type", "qwen3"), ("qwen3",)),
        "hidden_act": (trunk.get("hidden_act", "silu"), ("silu",)),
        "rope_type": (rope.get("rope_type", rope.get("type", "default")), (None, "default")),
        "causal": (block.get("causal"), (None, False)),
        "use_swa": (block.get("use_swa"), (None, False)),
        "quantization_config": (trunk.get("quantization_config"), (None,)),
    }
    for name, (value, known) in wanted.items():
        if value not in known:
            raise ValueError(f"{name} is {value!r}; only {known[-1]!r} can be run")
    if any(kind != "full_attention" for kind in trunk.get("layer_types") or []):
        raise ValueError("only full attention can be run")


def save(network: DraftNetwork, directory: str | Path, policy: weights.Policy = "fp16", target: str = "") -> None:
    """Write config.json and the weights. target: name of the model that the draft is for."""
    root, config = Path(directory), network.config
    root.mkdir(parents=True, exist_ok=True)
    document = {
        "architectures": ["DSparkDraftModel"],
        "speculators_model_type": "dspark",
        "speculators_config": {
            "algorithm": "dspark",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": config.count}],
            "verifier": {"name_or_path": target or None, "architectures": ["Qwen2ForCausalLM"]},
        },
        "aux_hidden_state_layer_ids": [number + 1 for number in config.target_layer_ids],
        "block_size": config.block_size,
        "draft_vocab_size": config.draft_vocab_size,
        "markov_head_type": "vanilla",
        "markov_rank": config.markov_rank,
        "mask_token_id": config.mask_token_id,
        "sample_from_anchor": not config.bonus_anchor,
        "speech_offset": config.speech_offset,
        "target_hidden_size": config.target_hidden_size,
        "transformer_layer_config": {
            "model_type": "qwen3",
            "attention_bias": config.attention_bias,
            "head_dim": config.head_dim,
            "hidden_act": "silu",
            "hidden_size": config.hidden_size,
            "intermediate_size": config.intermediate_size,
            "logit_scale": config.logit_scale,
            "num_attention_heads": config.num_attention_heads,
            "num_hidden_layers": config.num_hidden_layers,
            "num_key_value_heads": config.num_key_value_heads,
            "rms_norm_eps": config.rms_norm_eps,
            "rope_theta": config.rope_theta,
            "vocab_size": config.vocab_size,
        },
    }
    (root / CONFIG).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    weights.save_quantised(network.state_dict(), root / WEIGHTS, policy)


def published(lm: LMConfig) -> DraftConfig:
    """The shape of the draft published for CosyVoice3, for a target of any size: speech ids come after text ids."""
    last, fused = lm.num_hidden_layers - 1, min(PUBLISHED_FUSED, lm.num_hidden_layers)
    layers = [last * number // max(fused - 1, 1) for number in range(fused)]
    vocab = lm.vocab_size + lm.decoder_rows
    return DraftConfig(
        hidden_size=lm.hidden_size,
        num_hidden_layers=PUBLISHED_LAYERS,
        num_attention_heads=lm.num_attention_heads,
        num_key_value_heads=lm.num_key_value_heads,
        head_dim=lm.head_dim,
        intermediate_size=lm.intermediate_size,
        vocab_size=vocab,
        draft_vocab_size=min(PUBLISHED_IDS, vocab - 1),
        target_hidden_size=lm.hidden_size,
        target_layer_ids=tuple(layers),
        mask_token_id=vocab - 1,
        markov_rank=PUBLISHED_RANK,
        block_size=PUBLISHED_BLOCK,
        speech_offset=lm.vocab_size,
        rope_theta=lm.rope_theta,
        rms_norm_eps=lm.rms_norm_eps,
        own_embedding=False,
    )


def random(
    lm: LMConfig, *, seed: int = 0, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> DraftNetwork:
    """A draft of the published shape for `lm`, with random weights: what one costs, without one that guesses well.

    It can propose every speech id, and the last text ids besides up to the published number.
    """
    config = published(lm)
    generator = torch.Generator(device).manual_seed(seed)
    with torch.device(device):
        network = DraftNetwork(config)
    for parameter in network.parameters():
        if parameter.dim() == 2:
            parameter.data.normal_(std=parameter.shape[1] ** -0.5, generator=generator)
    first = lm.vocab_size + min(lm.speech_token_size, config.draft_vocab_size) - config.draft_vocab_size
    network.d2t.fill_(max(first, 0))
    return network.to(dtype).eval().requires_grad_(False)
