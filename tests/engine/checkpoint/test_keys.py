"""The full-size networks have exactly the released names and shapes."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from oscine_engine.config import FlowConfig, LMConfig, VocoderConfig
from oscine_engine.flow.network import Flow
from oscine_engine.lm.network import SpeechLM
from oscine_engine.vocoder.network import HiFT

REFERENCE = Path(__file__).parents[2] / "reference"
RELEASED = json.loads((REFERENCE / "cosyvoice3_state_dict.json").read_text(encoding="utf-8"))


def build(name: str) -> nn.Module:
    with torch.device("meta"):
        if name == "llm.pt":
            return SpeechLM(LMConfig())
        return Flow(FlowConfig()) if name == "flow.pt" else HiFT(VocoderConfig())


@pytest.mark.parametrize(("name", "count"), [("llm.pt", 293), ("flow.pt", 330), ("hift.pt", 328)])
def test_keys_and_shapes(name: str, count: int) -> None:
    ours = {key: list(value.shape) for key, value in build(name).state_dict().items()}
    released = {entry["key"]: entry["shape"] for entry in RELEASED[name]["tensors"]}
    assert len(released) == count
    assert ours == released


def test_parameters() -> None:
    total = sum(parameter.numel() for parameter in build("llm.pt").parameters())
    assert total == RELEASED["llm.pt"]["unique_parameters"]
