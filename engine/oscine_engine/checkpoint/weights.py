"""Weight files: reading them safely, loading them strictly, and the compact form of our own.

Compact form: in a safetensors file an int8 tensor `K` has a companion `K.scale`, one factor per row of its first
axis; the weight is K * scale. A language model's `llm.model.lm_head.weight` may be absent: it is the tied copy of the
text embedding.
"""

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from oscine_engine.errors import CheckpointError

M = TypeVar("M", bound=nn.Module)
Policy = Literal["int8", "fp16", "fp32"]

EMBEDDING = "llm.model.model.embed_tokens.weight"
TIED_HEAD = "llm.model.lm_head.weight"
_SCALE = ".scale"
_HALF_MAX = 65504.0
_SHOWN = 5
_OLD_SPELLING = {
    ".weight_g": ".parametrizations.weight.original0",
    ".weight_v": ".parametrizations.weight.original1",
}


def read(path: Path) -> dict[str, Tensor]:
    """All tensors of a .safetensors or .pt file, on the CPU, int8 storage undone (then float32).

    A .pt file must be a bare mapping of names to tensors; nothing in it is run. Raises CheckpointError.
    """
    if path.suffix == ".safetensors":
        try:
            return dequantise(load_file(path), path.name)
        except SafetensorError as error:
            raise CheckpointError(f"{path} is damaged or is not a safetensors file: {error}") from error
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged or holds more than plain tensors: {error}") from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise CheckpointError(f"{path} must be a bare mapping of names to tensors (no wrapper such as epoch or model)")
    return dict(state)


def dequantise(state: Mapping[str, Tensor], origin: str) -> dict[str, Tensor]:
    """Undo int8 storage; other tensors pass through. Raises CheckpointError if an int8 tensor has no fitting scale."""
    packed = {key for key, value in state.items() if value.dtype == torch.int8}
    plain = {key: value for key, value in state.items() if key not in packed and not _is_scale_of(key, packed)}
    for key in packed:
        rows = state.get(key + _SCALE)
        weight = state[key]
        if rows is None or rows.shape != weight.shape[:1]:
            raise CheckpointError(f"{origin}: {key} is int8 and needs {key}{_SCALE} with {weight.shape[0]} values")
        plain[key] = weight.float() * rows.float().reshape(-1, *[1] * (weight.dim() - 1))
    return plain


def _is_scale_of(key: str, packed: set[str]) -> bool:
    return key.endswith(_SCALE) and key.removesuffix(_SCALE) in packed


def quantise(state: Mapping[str, Tensor], policy: Policy) -> dict[str, Tensor]:
    """The stored form of `state`: "int8" packs floating tensors of two or more axes and halves the rest.

    `inv_freq` tables, and values that a half cannot hold, stay float32. The tied head is left out.
    """
    stored: dict[str, Tensor] = {}
    for key, value in state.items():
        weight = value.detach().to("cpu").contiguous()
        if key == TIED_HEAD:
            continue
        if not weight.is_floating_point():
            stored[key] = weight
        elif policy == "int8" and weight.dim() >= 2:
            stored[key], stored[key + _SCALE] = _pack(weight.float())
        elif policy == "fp32" or key.endswith("inv_freq") or weight.abs().max() > _HALF_MAX:
            stored[key] = weight.float()
        else:
            stored[key] = weight.half()
    return {key: value.clone() for key, value in stored.items()}


def _pack(weight: Tensor) -> tuple[Tensor, Tensor]:
    rows = weight.reshape(weight.shape[0], -1).abs().amax(dim=1) / 127
    rows = torch.where(rows > 0, rows, torch.ones_like(rows))
    steps = weight / rows.reshape(-1, *[1] * (weight.dim() - 1))
    return steps.round().clamp(-127, 127).to(torch.int8), rows


def save_quantised(state: Mapping[str, Tensor], path: Path, policy: Policy) -> None:
    """Write `state` as safetensors in the compact form: "int8" for llm and flow, "fp16" for hift."""
    save_file(quantise(state, policy), path)


def vocoder_keys(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Vocoder keys as the network has them: `generator.` removed, old weight-norm names turned into new ones."""
    renamed = {}
    for key, value in state.items():
        name = key.replace("generator.", "")
        for old, new in _OLD_SPELLING.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        renamed[name] = value
    return renamed


def retie(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put back the tied head if it was left out."""
    whole = dict(state)
    if EMBEDDING in whole:
        whole.setdefault(TIED_HEAD, whole[EMBEDDING])
    return whole


def load_into(module: nn.Module, state: Mapping[str, Tensor], origin: str) -> None:
    """Strict load, values cast to the module's types. Raises CheckpointError listing what does not fit."""
    check(module, state, origin)
    module.load_state_dict(dict(state), strict=True)


def build(make: Callable[[], M], state: Mapping[str, Tensor], origin: str) -> M:
    """A module whose tensors are those of `state`, as float32, without ever drawing or copying initial values.

    Only for modules all of whose tensors are in their state dict. Raises CheckpointError listing what does not fit.
    """
    with _Undrawn():
        module = make()
    check(module, state, origin)
    cast = {key: value.float() if value.is_floating_point() else value for key, value in state.items()}
    module.load_state_dict(cast, strict=True, assign=True)
    return module


class _Undrawn(TorchFunctionMode):
    """`torch.nn.init` does nothing. (Under the device meta it would import torch's compiler, two seconds, for that.)"""

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__module__", None) == nn.init.__name__:
            return kwargs["tensor"]
        return function(*args, **kwargs)


def check(module: nn.Module, state: Mapping[str, Tensor], origin: str) -> None:
    """Raise CheckpointError if keys or shapes of `state` are not the module's, or a value is not finite."""
    wanted = module.state_dict()
    faults = [
        _listed("missing", [key for key in wanted if key not in state]),
        _listed("unexpected", [key for key in state if key not in wanted]),
        _listed(
            "of another shape",
            [
                f"{key} {list(state[key].shape)} instead of {list(wanted[key].shape)}"
                for key in wanted
                if key in state and state[key].shape != wanted[key].shape
            ],
        ),
        _listed("not finite", [key for key, value in state.items() if not bool(torch.isfinite(value).all())]),
    ]
    if any(faults):
        raise CheckpointError(f"{origin} does not fit the configured model: {'; '.join(filter(None, faults))}")


def _listed(what: str, keys: list[str]) -> str:
    if not keys:
        return ""
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return f"{len(keys)} {what}: {', '.join(keys[:_SHOWN])}{more}"
