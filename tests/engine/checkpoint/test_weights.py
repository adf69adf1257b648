"""Weight files: safe reading, strict loading, compact storage."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from oscine_engine.checkpoint import weights
from oscine_engine.checkpoint.synthetic import TINY
from oscine_engine.errors import CheckpointError
from oscine_engine.flow.network import Flow
from oscine_engine.lm.network import SpeechLM
from oscine_engine.vocoder.network import HiFT


class Opener:
    """Unpickling this would open a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (self.path, "w")


def test_pickled_code_is_refused(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    torch.save({"a": torch.zeros(1), "b": Opener(str(witness))}, tmp_path / "llm.pt")
    with pytest.raises(CheckpointError, match="more than plain tensors"):
        weights.read(tmp_path / "llm.pt")
    assert not witness.exists()


@pytest.mark.parametrize("name", ["flow.pt", "flow.safetensors"])
def test_damaged_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x50\x00\x00\x00\x00\x00\x00\x00 not weights")
    with pytest.raises(CheckpointError, match="damaged"):
        weights.read(tmp_path / name)


def test_wrapped_mapping_is_refused(tmp_path: Path) -> None:
    torch.save({"model": {"a": torch.zeros(1)}, "epoch": 3}, tmp_path / "flow.pt")
    with pytest.raises(CheckpointError, match="bare mapping"):
        weights.read(tmp_path / "flow.pt")


def test_misfits_are_listed() -> None:
    module = nn.Linear(3, 2)
    state = {"weight": torch.zeros(2, 4), "extra": torch.zeros(1)}
    with pytest.raises(CheckpointError) as caught:
        weights.load_into(module, state, "x.pt")
    said = str(caught.value)
    assert "1 missing: bias" in said and "1 unexpected: extra" in said and "weight [2, 4] instead of [2, 3]" in said


def test_long_lists_are_cut() -> None:
    with pytest.raises(CheckpointError, match=r"and [0-9]+ more"):
        weights.load_into(Flow(TINY.flow), {}, "flow.pt")


def test_weights_that_are_not_numbers() -> None:
    state = {"weight": torch.full((2, 3), float("nan")), "bias": torch.zeros(2)}
    with pytest.raises(CheckpointError, match="not finite: weight"):
        weights.load_into(nn.Linear(3, 2), state, "x.pt")


def test_half_weights_load_into_float32() -> None:
    module = nn.Linear(3, 2)
    weights.load_into(module, {key: value.half() for key, value in module.state_dict().items()}, "x.pt")
    assert module.weight.dtype == torch.float32


@pytest.mark.parametrize("prefix", ["", "generator."])
def test_both_spellings_of_weight_norm_give_one_vocoder(prefix: str) -> None:
    torch.manual_seed(1)
    ours = HiFT(TINY.vocoder)
    old = {}
    for key, value in ours.state_dict().items():
        name = key.replace(".parametrizations.weight.original0", ".weight_g")
        old[prefix + name.replace(".parametrizations.weight.original1", ".weight_v")] = value.clone()
    assert any(key.endswith(".weight_v") for key in old)
    other = HiFT(TINY.vocoder)
    weights.load_into(other, weights.vocoder_keys(old), "hift.pt")
    for key, value in other.state_dict().items():
        assert torch.equal(value, ours.state_dict()[key]), key


@pytest.mark.parametrize("module", [SpeechLM(TINY.lm), Flow(TINY.flow)], ids=["lm", "flow"])
def test_int8_round_trip(tmp_path: Path, module: nn.Module) -> None:
    path = tmp_path / "x.safetensors"
    state = module.state_dict()
    weights.save_quantised(state, path, "int8")
    back = weights.retie(weights.read(path))
    assert back.keys() == state.keys()
    for key, value in state.items():
        if value.dim() >= 2:
            step = value.reshape(value.shape[0], -1).abs().amax(1) / 127
            gap = (back[key] - value).reshape(value.shape[0], -1).abs().amax(1)
            assert bool((gap <= 0.501 * step).all()), key
        elif key.endswith("inv_freq"):
            assert torch.equal(back[key], value)
        else:
            assert torch.allclose(back[key].float(), value, rtol=1e-3, atol=1e-7), key
    assert path.stat().st_size < 0.4 * sum(value.numel() * 4 for key, value in state.items() if "lm_head" not in key)


def test_stored_types(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    state = {
        "conv": torch.randn(4, 3, 5),
        "zero": torch.zeros(2, 2),
        "bias": torch.randn(4),
        "huge": torch.full((2,), 1e6),
        "rotary.inv_freq": torch.rand(4),
        "count": torch.tensor([3]),
    }
    weights.save_quantised(state, path, "int8")
    stored = {key: value.dtype for key, value in load_file(path).items()}
    assert stored == {
        "conv": torch.int8,
        "conv.scale": torch.float32,
        "zero": torch.int8,
        "zero.scale": torch.float32,
        "bias": torch.float16,
        "huge": torch.float32,
        "rotary.inv_freq": torch.float32,
        "count": torch.int64,
    }
    assert torch.equal(weights.read(path)["zero"], state["zero"])


@pytest.mark.parametrize("scale", [None, torch.ones(3)])
def test_int8_without_its_scale(tmp_path: Path, scale: torch.Tensor | None) -> None:
    stored = {"k": torch.ones(2, 2, dtype=torch.int8)}
    save_file(stored if scale is None else {**stored, "k.scale": scale}, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match=r"k\.scale"):
        weights.read(tmp_path / "x.safetensors")
