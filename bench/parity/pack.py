"""Make a small reference folder out of a full one: `python -m bench.parity.pack SOURCE TARGET`.

Same names and same checks, but compressed (.xz) and lighter in three ways that the checks cannot see: recorded outputs
are rounded by less than a third of their tolerance (most by a tenth), rows of the flow's token embedding that no case
reads are zero, and the excitation noise is left to be re-drawn. Inputs and weights stay exact.
"""

import argparse
import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from bench.parity.rows import REDRAW, document, metadata, tensors

_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 1, "lp": 2, "pb": 2}]
_PLAIN = ("cosyvoice3_state_dict.json", "cosyvoice3_special_tokens.json", "config.json")
_INPUTS = (
    "in.",
    "est.in.",
    "rand_noise",
    "audio_",
    "noise.",
    "ras.",
    "euler.t",
    "stage.t_span",
    "mel24k_filterbank",
    "whisper128_filterbank",
)
_MEL = ("mel", "hop25", "upstream", "euler")
_SOURCE = ("oneshot.source", "oneshot.sine_first", "short24.source", "short24.nonfinal.source")


def grid(section: str, key: str) -> float:
    """Step, a power of two, that recorded outputs are rounded to; 0 for what must stay exact."""
    if key.startswith(_INPUTS):
        return 0.0
    if section == "flow" and key.startswith(_MEL):
        return 2.0**-14
    if section == "hift" and key.startswith(_SOURCE):
        return 2.0**-18
    if section == "hift":
        return 2.0**-15
    return {"token2wav": 2.0**-11, "llm": 2.0**-13}.get(section, 2.0**-16)


def rounded(value: Tensor, step: float) -> Tensor:
    """`value` rounded to multiples of `step`; anything but float32, and a step of 0, passes through."""
    if step == 0.0 or value.dtype != torch.float32:
        return value
    return (value.double() / step).round().mul(step).float()


def _golden(folder: Path, section: str, name: str) -> bytes:
    entries = dict(metadata(folder, name))
    kept = {}
    for key, value in tensors(folder, name).items():
        if key == "noise.sine_waves":
            entries[REDRAW] = json.dumps({key: value.shape[1]})
        else:
            kept[key] = rounded(value, grid(section, key))
    return save(kept, entries)


def _weights(folder: Path, name: str, read_ids: Tensor | None) -> bytes:
    state = tensors(folder, name)
    if read_ids is not None:
        table = torch.zeros_like(state["input_embedding.weight"])
        table[read_ids] = state["input_embedding.weight"][read_ids]
        state["input_embedding.weight"] = table
    return save(state)


def _token_ids(goldens: dict[str, Tensor]) -> Tensor:
    ids = [value.flatten().long() for value in goldens.values() if value.dtype == torch.int32]
    return torch.cat([torch.zeros(1, dtype=torch.long), *ids])


def pack(source: Path, target: Path) -> None:
    """Write the small form of `source` to `target`, which is created."""
    target.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = document(source, "config.json")
    for section, listed in config["files"].items():
        for name in [listed] if isinstance(listed, str) else listed:
            if name.endswith(".json"):
                data = json.dumps(document(source, name), ensure_ascii=False, separators=(",", ":")).encode()
            elif "weights" in name:
                ids = _token_ids(tensors(source, listed[1])) if section == "flow" else None
                data = _weights(source, name, ids)
            else:
                data = _golden(source, section, name)
            packed = lzma.compress(data, format=lzma.FORMAT_XZ, filters=_FILTERS)
            (target / f"{name}.xz").write_bytes(packed)
    for name in _PLAIN:
        shutil.copyfile(source / name, target / name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parity.pack", description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    pack(options.source, options.target)
    total = sum(path.stat().st_size for path in options.target.iterdir())
    print(f"{options.target}: {total} bytes")


if __name__ == "__main__":
    main()
