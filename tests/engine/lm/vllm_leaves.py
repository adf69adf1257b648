"""vLLM's DSpark modules on a CPU: its own sources, over plain stand-ins for the parts that need its build and a GPU.

Read from an unpacked wheel: `models/qwen3_dflash.py`, `models/qwen3_dspark.py` and the reader of speculators'
configurations. Stood in for: linear layers and embeddings (without tensor parallelism), norms, rotary positions, paged
attention (here one sequence, all of whose keys are kept) and the walk over a checkpoint's names.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FILES = {
    "vllm.transformers_utils.configs.speculators.algos": "transformers_utils/configs/speculators/algos.py",
    "vllm.model_executor.models.qwen3_dflash": "model_executor/models/qwen3_dflash.py",
    "vllm.model_executor.models.qwen3_dspark": "model_executor/models/qwen3_dspark.py",
}


def _normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Any:
        if residual is None:
            return _normed(x, self.weight, self.variance_epsilon)
        whole = x + residual
        return _normed(whole, self.weight, self.variance_epsilon), whole


class Linear(nn.Module):
    """Returns (result, nothing), or the result alone with return_bias=False."""

    def __init__(
        self, input_size: int, output_size: int, bias: bool = True, return_bias: bool = True, **_: Any
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(output_size, input_size))
        self.bias = nn.Parameter(torch.empty(output_size)) if bias else None
        self.input_size, self.return_bias = input_size, return_bias

    def forward(self, x: Tensor) -> Any:
        out = F.linear(x, self.weight, self.bias)
        return (out, None) if self.return_bias else out


def qkv_linear(hidden: int, head: int, heads: int, kv_heads: int, bias: bool, **_: Any) -> Linear:
    return Linear(hidden, (heads + 2 * kv_heads) * head, bias)


class Table(nn.Embedding):
    def __init__(self, rows: int, size: int, prefix: str = "") -> None:
        super().__init__(rows, size)


class MLP(nn.Module):
    def __init__(self, hidden_size: int, intermediate_size: int, hidden_act: str, **_: Any) -> None:
        super().__init__()
        assert hidden_act == "silu"
        self.gate_up_proj = Linear(hidden_size, 2 * intermediate_size, bias=False)
        self.down_proj = Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x)[0].chunk(2, dim=-1)
        out: Tensor = self.down_proj(F.silu(gate) * up)[0]
        return out


class LogitsProcessor:
    def __init__(self, size: int, scale: float) -> None:
        self.scale = scale

    def __call__(self, head: Table, hidden: Tensor) -> Tensor:
        return F.linear(hidden, head.weight) * self.scale


class Rotary:
    is_neox_style = True

    def __init__(self, head_size: int, max_position: int, rope_parameters: Mapping[str, Any]) -> None:
        self.head_size = head_size
        powers = torch.arange(0, head_size, 2) / head_size
        angles = torch.arange(max_position)[:, None] / rope_parameters["rope_theta"] ** powers
        self.cos_sin_cache = torch.cat((angles.cos(), angles.sin()), dim=-1)

    def __call__(self, positions: Tensor, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return tuple(self.turned(positions, x, self.head_size, self.cos_sin_cache) for x in (q, k))  # type: ignore

    @staticmethod
    def turned(positions: Tensor, x: Tensor, head_size: int, table: Tensor) -> Tensor:
        cos, sin = table[positions][:, None].chunk(2, dim=-1)
        low, high = x.view(len(x), -1, head_size).chunk(2, dim=-1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).reshape(x.shape)


class Attention(nn.Module):
    """One sequence. `impl` keeps context; a call sees it and the call's own rows, all of them."""

    def __init__(self, heads: int, head: int, scaling: float, num_kv_heads: int, prefix: str, **_: Any) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head, self.scaling = heads, num_kv_heads, head, scaling
        self.layer_name, self.kv_cache = prefix, torch.empty(0)
        self.impl = SimpleNamespace(do_kv_cache_update=self._keep)
        self.keys, self.values = torch.zeros(2, 512, num_kv_heads, head)
        self.known = 0

    def _keep(self, layer: "Attention", k: Tensor, v: Tensor, cache: Tensor, slots: Tensor) -> None:
        self.keys[slots], self.values[slots] = k, v
        self.known = max(self.known, int(slots.max()) + 1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys = torch.cat((self.keys[: self.known], k.view(len(k), self.kv_heads, self.head)))
        values = torch.cat((self.values[: self.known], v.view(len(v), self.kv_heads, self.head)))
        group = self.heads // self.kv_heads
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", q.view(len(q), self.heads, self.head), keys) * self.scaling
        return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values).reshape(q.shape)


class Loader:
    """Puts weights in by name; q, k and v go into one matrix, gate and up into another."""

    def __init__(self, module: nn.Module, skip_substrs: Iterable[str] = (), **_: Any) -> None:
        self.module, self.skip = module, list(skip_substrs)

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        parts: dict[str, dict[int, Tensor]] = {}
        merged = {"q": ("qkv", 0), "k": ("qkv", 1), "v": ("qkv", 2), "gate": ("gate_up", 0), "up": ("gate_up", 1)}
        for name, value in weights:
            place = 0
            for short, (long, number) in merged.items():
                if f".{short}_proj." in name:
                    name, place = name.replace(f".{short}_proj.", f".{long}_proj."), number
                    break
            parts.setdefault(name, {})[place] = value
        wanted = dict(self.module.named_parameters())
        wanted = {name: value for name, value in wanted.items() if not any(skip in name for skip in self.skip)}
        found = {name for name in parts if not any(skip in name for skip in self.skip)}
        assert found == set(wanted), found ^ set(wanted)
        with torch.no_grad():
            for name in found:
                wanted[name].copy_(torch.cat([parts[name][place] for place in sorted(parts[name])]))
        return found


def _rms_norm(out: Tensor, x: Tensor, weight: Tensor, eps: float) -> None:
    if weight.dim() == 2:
        weight = weight.view(len(weight), *[1] * (x.dim() - 2), -1)
    out.copy_(_normed(x, weight, eps))


def _rotary(positions: Tensor, q: Tensor, k: None, head_size: int, table: Tensor, is_neox: bool) -> None:
    assert is_neox and k is None
    q.copy_(Rotary.turned(positions, q, head_size, table))


def modules(root: Path, put: Callable[[str, ModuleType], None]) -> Mapping[str, ModuleType]:
    """The modules of FILES, executed from `root`/vllm; `put` registers a module under a name for as long as wanted."""
    current = SimpleNamespace(cache_config=None, use_v2_model_runner=True)
    stand_ins: dict[str, dict[str, Any]] = {
        "_custom_ops": {"rms_norm": _rms_norm, "rotary_embedding": _rotary},
        "compilation.decorators": {"support_torch_compile": lambda kind: kind},
        "config": {"CacheConfig": object, "VllmConfig": object, "get_current_vllm_config": lambda: current},
        "distributed": {
            "get_tensor_model_parallel_rank": lambda: 0,
            "get_tensor_model_parallel_world_size": lambda: 1,
        },
        "logger": {"init_logger": lambda name: SimpleNamespace(info=print, warning_once=print)},
        "model_executor.layers.attention": {"Attention": Attention},
        "model_executor.layers.layernorm": {"RMSNorm": RMSNorm},
        "model_executor.layers.linear": {
            "QKVParallelLinear": qkv_linear,
            "ReplicatedLinear": Linear,
            "RowParallelLinear": Linear,
        },
        "model_executor.layers.logits_processor": {"LogitsProcessor": LogitsProcessor},
        "model_executor.layers.quantization.base_config": {"QuantizationConfig": object},
        "model_executor.layers.rotary_embedding": {"get_rope": Rotary},
        "model_executor.layers.vocab_parallel_embedding": {"ParallelLMHead": Table, "VocabParallelEmbedding": Table},
        "model_executor.models.qwen2": {"Qwen2MLP": MLP},
        "model_executor.models.qwen3": {"Qwen3ForCausalLM": nn.Module},
        "model_executor.models.utils": {
            "AutoWeightsLoader": Loader,
            "WeightsMapper": dict,
            "get_draft_quant_config": lambda config: None,
            "maybe_prefix": lambda prefix, name: f"{prefix}.{name}",
            "process_eagle_weight": lambda module, name: None,
        },
        "multimodal.inputs": {"NestedTensors": object},
        "transformers_utils.config": {"set_default_rope_theta": lambda config, default_theta: None},
        "transformers_utils.repo_utils": {"get_hf_file_bytes": lambda *_: None},
        "v1.attention.backend": {"AttentionType": SimpleNamespace(DECODER="decoder")},
    }
    for name, content in stand_ins.items():
        stand_in = ModuleType(f"vllm.{name}")
        vars(stand_in).update(content)
        put(stand_in.__name__, stand_in)
    for name in {full.rpartition(".")[0] for full in (*stand_ins, *(file[5:] for file in FILES))}:
        parts = [part for part in name.split(".") if part]
        for depth in range(len(parts) + 1):
            package = ".".join(("vllm", *parts[:depth]))
            if package not in sys.modules:
                put(package, ModuleType(package))
                sys.modules[package].__path__ = []
    found = {}
    for name, file in FILES.items():
        spec = importlib.util.spec_from_file_location(name, root / "vllm" / file)
        assert spec is not None and spec.loader is not None
        found[name] = importlib.util.module_from_spec(spec)
        put(name, found[name])
        spec.loader.exec_module(found[name])
    return found
