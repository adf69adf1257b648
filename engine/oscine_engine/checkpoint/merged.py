"""The language model as a plain Qwen2ForCausalLM over one vocabulary, which vLLM (or transformers) serves as it is.

Ids are text ids, then the rows of the speech tables: speech ids, sos, eos and the other controls. Only speech ids and
eos may ever be sampled, and a head without a bias gives rows of zeros the logit 0, which may well be the largest. So
hidden states get a few channels more that always hold the same small number: nothing writes to them, and the last norm
and the rows of ids that must not be sampled make a logit of it that is minus infinity. That is part of the weights: it
holds in any server, with any request and under speculation.

It changes nothing else. Norms see more channels and that number among them, so their weights take the factor that more
channels ask for, and the number's square is taken out of their eps, exactly. Heads are added so that a head has as many
channels as before: they are zero, and a multiple of the key heads.

A draft network reads hidden states, and may share embeddings. `write_draft` makes it fit: more inputs, which are zero,
and embeddings of its own.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import torch
from safetensors.torch import save_file
from torch import Tensor

from oscine_engine.config import LMConfig
from oscine_engine.errors import CheckpointError
from oscine_engine.lm.draft import DraftNetwork
from oscine_engine.lm.network import SpeechLM

CONFIG, WEIGHTS = "config.json", "model.safetensors"
DRAFT = "draft"
"""Where a directory has its draft, if it has one."""
Precision: TypeAlias = Literal["float32", "float16", "bfloat16"]

MOST_POSITIONS = 32768
_ROW: Mapping[Precision, float] = {"float16": 2.0**15, "bfloat16": 2.0**127, "float32": 2.0**127}
"""How much a forbidden id's row makes of each of them: the largest power of two there is.

Their logit then overflows, for states of a root mean square up to some 2,000. A finite one would rule them out as well,
but samplers look for the largest logits by halving the range of all that are finite.
"""
_NORM = 2.0**15
"""The most that the last norm does."""
_HALF = 65504.0
_HOPELESS = 104.0
"""exp(-104) is 0 in float32."""
_LARGEST_STATE = 4096.0
"""Hidden states have a root mean square far below this."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Where ids are in the vocabulary. `speech_ids`: how many of them; controls come right behind. precision: of the
    weights."""

    text_ids: int
    speech_ids: int
    rows: int
    precision: Precision = "float16"

    @classmethod
    def of(cls, lm: LMConfig, precision: Precision = "float16") -> Self:
        return cls(lm.vocab_size, lm.speech_token_size, lm.decoder_rows, precision)

    @property
    def size(self) -> int:
        return self.text_ids + self.rows

    @property
    def eos(self) -> int:
        return self.text_ids + self.speech_ids + 1


@dataclass(frozen=True, slots=True)
class _Widened:
    """Sizes of the wider network, and what its constant channels hold. norm: weight of the last norm there."""

    hidden: int
    heads: int
    eps: float
    constants: int
    value: float
    norm: float

    @classmethod
    def of(cls, lm: LMConfig) -> Self:
        heads = lm.num_attention_heads + lm.num_key_value_heads
        hidden = heads * lm.head_dim
        count = hidden - lm.hidden_size
        ratio = lm.hidden_size / hidden
        # At most half of eps goes to the constants; powers of two, which every format holds.
        value = _power_below(math.sqrt(lm.hidden_size * lm.rms_norm_eps / 2 / count))
        eps = (lm.rms_norm_eps - count * value**2 / lm.hidden_size) * ratio
        # A state of zeros makes the most of them, which a float16 must hold too.
        most = _HALF / 1.5 * math.sqrt(lm.rms_norm_eps * ratio) / value
        return cls(hidden, heads, eps, count, value, min(_NORM, _power_below(most)))

    def forbidding(self, precision: Precision) -> float:
        """What a forbidden id's logit is times the root mean square of the state, below zero."""
        return self.constants * self.value * self.norm * _ROW[precision]


def _power_below(number: float) -> float:
    return 2.0 ** math.floor(math.log2(number))


def write(lm: SpeechLM, directory: str | Path, precision: Precision = "float16") -> Path:
    """Write `lm` to `directory`, which must not exist or be empty. Returns it.

    Raises CheckpointError for weights under which the ids that may not be sampled would not be ruled out, or that the
    precision cannot hold.
    """
    root = _new(directory)
    widened = _Widened.of(lm.config)
    state = _state(lm, widened, _ROW[precision])
    _check_ruled_out(lm, widened.forbidding(precision))
    _save(state, root, precision)
    _write_json(root / CONFIG, _config(lm.config, widened, precision))
    merged = Merged.of(lm.config)
    # No id begins or pads anything; what ends a sentence is the same whoever asks.
    _write_json(root / "generation_config.json", {"eos_token_id": merged.eos})
    return root


def read(directory: str | Path, lm: LMConfig) -> Merged:
    """The vocabulary of a directory that `write` made. Raises CheckpointError if it is not one of a model like `lm`."""
    root = Path(directory)
    try:
        document = json.loads((root / CONFIG).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{root} is no model for vLLM: {error}; make one by oscine convert --to vllm") from error
    found = document.get("oscine") if isinstance(document, dict) else None
    if found is None:
        raise CheckpointError(f"{root} was not made by oscine convert --to vllm: its ids cannot be known")
    wanted = _about(lm)
    if found != wanted:
        raise CheckpointError(f"{root} was made of another language model: {found} instead of {wanted}; convert again")
    return Merged.of(lm, document["torch_dtype"])


def write_draft(draft: DraftNetwork, lm: SpeechLM, directory: str | Path, precision: Precision = "float16") -> Path:
    """Write `draft`, made for `lm`, to `directory` so that vLLM drafts with it for what `write` makes of `lm`.

    Raises CheckpointError for a draft of another target.
    """
    config, target = draft.config, lm.config
    merged, widened = Merged.of(target), _Widened.of(target)
    shift = merged.text_ids - config.speech_offset
    if config.target_hidden_size != target.hidden_size or shift < 0 or config.vocab_size + shift > merged.size:
        raise CheckpointError(
            f"the draft is for a target of width {config.target_hidden_size} and {config.vocab_size} ids, speech from "
            f"{config.speech_offset}; this one has {target.hidden_size} and {merged.size}, from {merged.text_ids}"
        )
    root = _new(directory)
    state = {name: value.detach().cpu().float() for name, value in draft.state_dict().items()}
    fused = state["fc.weight"].view(config.hidden_size, len(config.target_layer_ids), -1)
    state["fc.weight"] = _padded(fused, widened.hidden).flatten(1)
    table = torch.cat((lm.decoder.embed_tokens.weight, lm.speech_embedding.weight)).detach().cpu().float()
    if config.own_embedding:
        own = state["embed_tokens.weight"]
        table = torch.zeros(merged.size, config.hidden_size)
        table[shift : shift + len(own)] = own
    state["embed_tokens.weight"] = table
    state["lm_head.weight"] = draft.head(lm).detach().cpu().float()
    first = state["markov_head.markov_w1.weight"]
    state["markov_head.markov_w1.weight"] = torch.zeros(merged.size, first.shape[1])
    state["markov_head.markov_w1.weight"][shift : shift + len(first)] = first
    targets = draft.targets().cpu() + shift
    state.pop("d2t", None)
    if config.draft_vocab_size != merged.size:
        state["d2t"] = targets - torch.arange(len(targets))
    _save(state, root, precision)
    _write_json(root / CONFIG, _draft_config(draft, merged, widened, shift, precision))
    return root


def _state(lm: SpeechLM, widened: _Widened, row: float) -> dict[str, Tensor]:
    """Weights under their names in a Qwen2ForCausalLM, float32. row: see `_ROW`."""
    config, merged = lm.config, Merged.of(lm.config)
    hidden, used = widened.hidden, config.hidden_size
    scale = math.sqrt(used / hidden)
    constant = slice(used, used + widened.constants)
    state: dict[str, Tensor] = {}
    for name, value in lm.decoder.state_dict().items():
        weight = value.detach().cpu().float()
        kind = name.rpartition(".")[0].rpartition(".")[2]
        if "norm" in kind:
            weight = _padded(weight * scale, hidden)
        elif kind == "q_proj":
            weight = _spread_heads(weight, config)
            weight = _padded(weight, hidden) if weight.dim() == 2 else weight
        elif kind == "o_proj":
            weight = _spread_heads(weight.t(), config)
            weight = _padded(weight, hidden).t()
        elif kind == "down_proj":
            weight = _padded(weight.t(), hidden).t()
        elif weight.dim() == 2:
            weight = _padded(weight, hidden)
        state[f"model.{name}"] = weight
    speech = lm.speech_embedding.weight.detach().cpu().float()
    table = torch.cat((state["model.embed_tokens.weight"], _padded(speech, hidden)))
    table[:, constant] = widened.value
    state["model.embed_tokens.weight"] = table
    state["model.norm.weight"][constant] = widened.norm
    head = torch.zeros(merged.size, hidden)
    head[:, constant] = -row
    allowed = torch.cat((torch.arange(config.speech_token_size), torch.tensor([config.speech_token_size + 1])))
    head[merged.text_ids + allowed] = _padded(lm.llm_decoder.weight.detach().cpu().float()[allowed], hidden)
    state["lm_head.weight"] = head
    return state


def _check_ruled_out(lm: SpeechLM, forbidding: float) -> None:
    """A normed state is no longer than the root of its size, so no logit is below the longest row's share of that."""
    config = lm.config
    rows = lm.llm_decoder.weight.detach().float() * lm.decoder.norm.weight.detach().float()
    lowest = math.sqrt(config.hidden_size) * float(rows.norm(dim=1).max())
    largest = forbidding / (lowest + _HOPELESS)
    if largest < _LARGEST_STATE:
        raise CheckpointError(
            f"the head's logits may be as low as -{lowest:.0f}: ids of text would not be ruled out for hidden states "
            f"above {largest:.0f}"
        )


def _padded(weight: Tensor, size: int) -> Tensor:
    """Zeros behind the last axis, up to `size`."""
    return torch.nn.functional.pad(weight, (0, size - weight.shape[-1]))


def _spread_heads(weight: Tensor, config: LMConfig) -> Tensor:
    """Query heads on the first axis, with one of zeros behind those of every key head."""
    groups = weight.reshape(config.num_key_value_heads, -1, config.head_dim, *weight.shape[1:])
    more = torch.cat((groups, torch.zeros_like(groups[:, :1])), dim=1)
    return more.flatten(0, 2)


def _about(lm: LMConfig) -> dict[str, int]:
    merged = Merged.of(lm)
    return {
        "text_ids": merged.text_ids,
        "speech_ids": merged.speech_ids,
        "rows": merged.rows,
        "layers": lm.num_hidden_layers,
        "hidden_size": lm.hidden_size,
    }


def _config(lm: LMConfig, widened: _Widened, precision: Precision) -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": widened.hidden,
        "num_hidden_layers": lm.num_hidden_layers,
        "num_attention_heads": widened.heads,
        "num_key_value_heads": lm.num_key_value_heads,
        "intermediate_size": lm.intermediate_size,
        "vocab_size": Merged.of(lm).size,
        "rope_theta": lm.rope_theta,
        "rms_norm_eps": widened.eps,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "max_position_embeddings": MOST_POSITIONS,
        "use_sliding_window": False,
        "bos_token_id": None,
        "eos_token_id": Merged.of(lm).eos,
        "torch_dtype": precision,
        "oscine": _about(lm),
    }


def _draft_config(
    draft: DraftNetwork, merged: Merged, widened: _Widened, shift: int, precision: Precision
) -> dict[str, Any]:
    config = draft.config
    mask = config.mask_token_id + shift
    return {
        "architectures": ["Qwen3DSparkModel"],
        "model_type": "qwen3",
        "attention_bias": config.attention_bias,
        "block_size": config.block_size,
        "dflash_config": {"mask_token_id": mask, "target_layer_ids": list(config.target_layer_ids)},
        "draft_vocab_size": config.draft_vocab_size,
        "dspark_bonus_anchor": config.bonus_anchor,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "logit_scale": config.logit_scale,
        "markov_head_type": "vanilla",
        "markov_rank": config.markov_rank,
        "mask_token_id": mask,
        "max_position_embeddings": MOST_POSITIONS,
        "num_attention_heads": config.num_attention_heads,
        "num_hidden_layers": config.num_hidden_layers,
        "num_key_value_heads": config.num_key_value_heads,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "speech_offset": merged.text_ids,
        "target_hidden_size": widened.hidden,
        "target_layer_ids": list(config.target_layer_ids),
        "tie_word_embeddings": False,
        "torch_dtype": precision,
        "vocab_size": merged.size,
    }


def _new(directory: str | Path) -> Path:
    root = Path(directory)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise CheckpointError(f"{root} is not an empty directory; give a new one for the converted model")
    root.mkdir(parents=True, exist_ok=True)
    return root


def _save(state: dict[str, Tensor], root: Path, precision: Precision) -> None:
    kind: torch.dtype = getattr(torch, precision)
    stored: dict[str, Tensor] = {}
    for name, value in state.items():
        kept = value.to("cpu", kind) if value.is_floating_point() else value.cpu()
        if not bool(torch.isfinite(kept).all()):
            raise CheckpointError(f"{name} has values that {precision} cannot hold; use bfloat16 or float32")
        stored[name] = kept.contiguous().clone()
    save_file(stored, root / WEIGHTS, metadata={"format": "pt"})


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
