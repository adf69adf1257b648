"""One row per parity check, and the helpers that make them.

A check module (llm, flow, hift, token2wav, features, text) exposes `checks(folder, config) -> Iterable[Row]`:
`folder` is the Path of the reference folder, `config` its config.json as a plain dict. File names come from
config["files"] and sizes from config's sections, so that other folders of the same schema work too.
"""

import json
import lzma
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load
from torch import Tensor

from oscine_engine.checkpoint.noise import default_noise
from oscine_engine.config import ModelConfig

REDRAW = "redraw"
"""Metadata entry of a packed file: tensors left out because the fixed noises give them, as {name: rows}."""


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one check. `max_abs_diff` is inf where nothing could be compared; `note` says why."""

    name: str
    max_abs_diff: float
    tolerance: float
    ok: bool
    note: str = ""


def compare(name: str, got: Tensor, want: Tensor, tolerance: float) -> Row:
    """Largest absolute difference, in float64. Equal infinities differ by 0; a NaN or a wrong shape by inf."""
    if tuple(got.shape) != tuple(want.shape):
        return Row(name, math.inf, tolerance, False, f"shape {list(got.shape)}, wanted {list(want.shape)}")
    left, right = got.detach().to("cpu", torch.float64), want.detach().to("cpu", torch.float64)
    gap = torch.where(left == right, torch.zeros_like(left), (left - right).abs())
    worst = float(gap.max()) if gap.numel() else 0.0
    worst = math.inf if math.isnan(worst) else worst
    return Row(name, worst, tolerance, worst <= tolerance)


def equal(name: str, got: Any, want: Any) -> Row:
    """Exact equality of plain values (ids, strings, lists)."""
    same = bool(got == want)
    note = "" if same else f"got {str(got)[:120]}, wanted {str(want)[:120]}"
    return Row(name, 0.0 if same else math.inf, 0.0, same, note)


def missing(name: str, what: str = "") -> Row:
    """A check whose reference file, tensor or code is not there: it fails."""
    return Row(name, math.inf, 0.0, False, f"missing {what}".strip())


def tensors(folder: Path, name: str) -> dict[str, Tensor]:
    """All tensors of one safetensors file, or of `name`.xz (see pack). FileNotFoundError becomes a failing row."""
    data = _bytes(folder, name)
    found = load(data)
    redraw = json.loads(_metadata(data).get(REDRAW, "{}"))
    for key, rows in redraw.items():
        found[key] = default_noise(ModelConfig()).sine_waves(rows)
    return found


def metadata(folder: Path, name: str) -> dict[str, str]:
    """The free-form text entries of one safetensors file, {} if it has none."""
    return _metadata(_bytes(folder, name))


def document(folder: Path, name: str) -> Any:
    """One JSON file, parsed. Raises FileNotFoundError."""
    return json.loads(_bytes(folder, name))


def _bytes(folder: Path, name: str) -> bytes:
    plain, packed = folder / name, folder / f"{name}.xz"
    if plain.is_file():
        return plain.read_bytes()
    if packed.is_file():
        return lzma.decompress(packed.read_bytes())
    raise FileNotFoundError(f"{name} is not in the reference folder")


def _metadata(data: bytes) -> dict[str, str]:
    size = int.from_bytes(data[:8], "little")
    entries: dict[str, str] = json.loads(data[8 : 8 + size]).get("__metadata__", {})
    return entries
