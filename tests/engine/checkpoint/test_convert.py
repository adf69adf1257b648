"""Conversion keeps a model what it was."""

from pathlib import Path

import pytest
import torch

from oscine_engine.checkpoint import synthetic, weights
from oscine_engine.checkpoint.convert import convert
from oscine_engine.checkpoint.load import load
from oscine_engine.errors import CheckpointError


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of .pt files with a tuned language model, as released."""
    root = synthetic.write(tmp_path_factory.mktemp("released"), seed=5)
    for name in ("llm", "flow", "hift"):
        path = root / f"{name}.safetensors"
        state = weights.retie(weights.read(path))
        path.unlink()
        torch.save(state, root / f"{name}.pt")
        if name == "llm":
            torch.save({key: value + 1 for key, value in state.items()}, root / "llm.rl.pt")
    (root / "campplus.onnx").write_bytes(b"kept as it is")
    return root


def test_values_are_kept(released: Path, tmp_path: Path) -> None:
    written = convert(released, tmp_path / "out")
    names = {path.name for path in written}
    assert {"llm.safetensors", "llm.rl.safetensors", "flow.safetensors", "hift.safetensors", "spk2info.pt"} <= names
    assert (tmp_path / "out" / "campplus.onnx").read_bytes() == b"kept as it is"
    before, after = load(released), load(tmp_path / "out")
    for old, new in ((before.lm, after.lm), (before.flow, after.flow), (before.vocoder, after.vocoder)):
        for key, value in old.state_dict().items():
            assert torch.equal(value, new.state_dict()[key]), key
    assert after.voices.keys() == before.voices.keys()
    assert not torch.equal(load(tmp_path / "out", lm_file="llm.rl").lm.llm_decoder.weight, after.lm.llm_decoder.weight)


def test_int8_is_small_and_close(released: Path, tmp_path: Path) -> None:
    convert(released, tmp_path / "out", "int8")
    before, after = load(released), load(tmp_path / "out")
    ratio = (tmp_path / "out" / "flow.safetensors").stat().st_size / (released / "flow.pt").stat().st_size
    assert ratio < 0.4
    ids = torch.arange(20)[None]
    old = before.lm.head(before.lm(before.lm.embed_text(ids)))
    new = after.lm.head(after.lm(after.lm.embed_text(ids)))
    assert 0 < float((old - new).abs().max()) < 0.2 * float(old.std())


def test_target_in_use(released: Path, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(CheckpointError, match="not empty"):
        convert(released, tmp_path)
