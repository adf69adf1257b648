"""Fixed noises are upstream's, to the bit."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from oscine_engine.checkpoint.noise import SINE_ROWS, default_noise
from oscine_engine.config import ModelConfig
from oscine_engine.errors import InvalidInput

REFERENCE = Path(__file__).parents[2] / "reference"
HEAD = load_file(REFERENCE / "cosyvoice3_default_noise_head.safetensors")
HASHES = json.loads((REFERENCE / "cosyvoice3_state_dict.json").read_text(encoding="utf-8"))["default_noise"]


def digest(value: torch.Tensor) -> str:
    return hashlib.sha256(value.numpy().data).hexdigest()


def test_rand_noise() -> None:
    noise = default_noise(ModelConfig()).rand_noise
    assert torch.equal(noise[:, :, :64], HEAD["rand_noise_head"])
    assert digest(noise) == HASHES["rand_noise"]["sha256_of_little_endian_bytes"]


def test_first_rows_of_sine_waves() -> None:
    noise = default_noise(ModelConfig())
    assert torch.equal(noise.sine_waves(1920), HEAD["sine_waves_head"])
    assert torch.equal(noise.sine_waves(7), HEAD["sine_waves_head"][:, :7])


def test_whole_sine_waves() -> None:
    whole = default_noise(ModelConfig()).sine_waves(SINE_ROWS)
    assert digest(whole) == HASHES["sine_waves"]["sha256_of_little_endian_bytes"]


def test_global_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    default_noise(ModelConfig()).sine_waves(10)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("rows", [0, -1, SINE_ROWS + 1])
def test_rows_out_of_range(rows: int) -> None:
    with pytest.raises(InvalidInput, match="rows"):
        default_noise(ModelConfig()).sine_waves(rows)
