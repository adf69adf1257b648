"""Whole model directories."""

import logging
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from oscine_engine.checkpoint import layout, synthetic, weights
from oscine_engine.checkpoint.load import load
from oscine_engine.checkpoint.voices import read_voices, write_voices
from oscine_engine.errors import CheckpointError, InvalidInput
from oscine_engine.voices.prompt import VoicePrompt


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("model"), seed=3)


@pytest.fixture
def model(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "model"))


def test_loads_what_was_written(written: Path) -> None:
    checkpoint = load(written)
    assert checkpoint.config == synthetic.TINY
    assert checkpoint.directory == written
    stored = weights.read(written / "flow.safetensors")
    assert all(torch.equal(value, stored[key]) for key, value in checkpoint.flow.state_dict().items())
    assert not any(parameter.requires_grad for parameter in checkpoint.lm.parameters())
    assert not checkpoint.vocoder.training
    voice = checkpoint.voices["synthetic"]
    assert voice.mel.shape == (2 * voice.flow_speech_tokens.numel(), 80)
    assert checkpoint.tokenizer.encode(voice.prompt_text)[-1] == checkpoint.tokenizer.end_of_prompt


def test_loading_needs_no_compiler(written: Path) -> None:
    asked = f"import sys; from oscine_engine.checkpoint.load import load; load({str(written)!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert {"torch", "oscine_engine.flow.network"} <= set(done.stdout.split())
    assert not {"torch._dynamo", "sympy", "triton"} & set(done.stdout.split())


def test_same_seed_same_model(written: Path, tmp_path: Path) -> None:
    again = synthetic.write(tmp_path / "again", seed=3)
    other = synthetic.write(tmp_path / "other", seed=4)
    for name in ("llm.safetensors", "flow.safetensors", "hift.safetensors"):
        assert (again / name).read_bytes() == (written / name).read_bytes()
        assert (other / name).read_bytes() != (written / name).read_bytes()


def test_synthetic_sound_is_bounded_and_not_silent(written: Path) -> None:
    checkpoint = load(written)
    mel = torch.randn(1, 80, 50, generator=torch.Generator().manual_seed(0))
    wave, _ = checkpoint.vocoder(mel, checkpoint.noise.sine_waves(50 * 480))
    assert bool(torch.isfinite(wave).all())
    assert 1e-3 < float(wave.square().mean().sqrt()) < 0.3


def test_reduced_precision_leaves_the_vocoder_alone(written: Path) -> None:
    checkpoint = load(written, dtype=torch.bfloat16)
    kinds = [next(m.parameters()).dtype for m in (checkpoint.lm, checkpoint.flow, checkpoint.vocoder)]
    assert kinds == [torch.bfloat16, torch.bfloat16, torch.float32]


def test_released_form_with_pt_files(model: Path) -> None:
    for name in ("llm", "flow", "hift"):
        path = model / f"{name}.safetensors"
        state = weights.retie(weights.read(path))
        path.unlink()
        torch.save(
            {f"generator.{key}" if name == "hift" else key: value for key, value in state.items()},
            f"{path.with_suffix('.pt')}",
        )
    assert load(model).config == synthetic.TINY


def test_pt_without_the_tied_head_is_refused(model: Path) -> None:
    state = weights.read(model / "llm.safetensors")
    (model / "llm.safetensors").unlink()
    torch.save(state, model / "llm.pt")
    with pytest.raises(CheckpointError, match="lm_head"):
        load(model)


def test_safetensors_come_first(model: Path) -> None:
    (model / "flow.pt").write_bytes(b"not read")
    assert layout.find(model).flow.name == "flow.safetensors"


def test_tuned_language_model_by_setting(model: Path) -> None:
    with pytest.raises(CheckpointError, match=r"llm\.rl\.safetensors"):
        load(model, lm_file="llm.rl")
    state = weights.read(model / "llm.safetensors")
    state["llm_decoder.weight"] = state["llm_decoder.weight"] + 1
    weights.save_quantised(state, model / "llm.rl.safetensors", "fp32")
    tuned = load(model, lm_file="llm.rl").lm.llm_decoder.weight
    assert torch.equal(tuned, load(model).lm.llm_decoder.weight + 1)


@pytest.mark.parametrize(
    "name", ["cosyvoice3.yaml", "llm.safetensors", "flow.safetensors", "hift.safetensors", "CosyVoice-BlankEN"]
)
def test_missing_files_are_named(model: Path, name: str) -> None:
    path = model / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(CheckpointError, match=name.partition(".")[0]) as caught:
        load(model)
    assert str(model) in str(caught.value)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no model directory"):
        load(tmp_path / "absent")


def test_no_voices_file(model: Path) -> None:
    (model / layout.VOICES).unlink()
    assert load(model).voices == {}


def test_encoders_are_only_needed_for_new_voices(model: Path) -> None:
    files = layout.find(model)
    with pytest.raises(CheckpointError, match=r"campplus\.onnx"):
        files.encoders()
    (model / layout.SPEAKER_ENCODER).touch()
    with pytest.raises(CheckpointError, match=r"speech_tokenizer_v3\.onnx"):
        layout.find(model).encoders()
    (model / layout.SPEECH_TOKENIZER).touch()
    assert [path.name for path in layout.find(model).encoders()] == ["campplus.onnx", "speech_tokenizer_v3.onnx"]


def test_tokenizer_larger_than_the_model(model: Path) -> None:
    config = replace(synthetic.TINY, lm=replace(synthetic.TINY.lm, vocab_size=100))
    with pytest.raises(ValueError, match="vocab_size"):
        synthetic.write(model, config)
    with pytest.raises(CheckpointError, match="tokenizer has"):
        load(model)


def released_entry() -> dict[str, torch.Tensor]:
    return {
        "prompt_text": torch.tensor([[5, 6, 7]], dtype=torch.int32),
        "prompt_text_len": torch.tensor([3], dtype=torch.int32),
        "llm_prompt_speech_token": torch.arange(4, dtype=torch.int32)[None],
        "flow_prompt_speech_token": torch.arange(4, dtype=torch.int32)[None],
        "prompt_speech_feat": torch.randn(1, 10, 80),
        "llm_embedding": torch.ones(1, 192),
        "flow_embedding": torch.full((1, 192), 2.0),
    }


def test_released_voices_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "spk2info.pt"
    torch.save({"full": released_entry(), "old": {"embedding": torch.ones(1, 192)}}, path)
    said = {5: "Kind.<|endofprompt|>", 6: "你", 7: "好"}
    with caplog.at_level(logging.WARNING):
        voices = read_voices(path, lambda ids: "".join(said[i] for i in ids))
    assert list(voices) == ["full"] and "old" in caplog.text
    voice = voices["full"]
    assert (voice.prompt_text, voice.transcript, voice.language) == ("Kind.<|endofprompt|>", "你好", "zh")
    assert voice.mel.shape == (8, 80) and voice.flow_speech_tokens.tolist() == [0, 1, 2, 3]
    assert float(voice.embedding[0]) == 2.0


def test_voices_round_trip(written: Path, tmp_path: Path) -> None:
    voice = replace(load(written).voices["synthetic"], language="zh", description="calm", transcript="有人")
    write_voices({"synthetic": voice}, tmp_path / "voices.pt")
    back = read_voices(tmp_path / "voices.pt", lambda ids: "")["synthetic"]
    for name in VoicePrompt.__slots__:
        want, got = getattr(voice, name), getattr(back, name)
        assert torch.equal(want, got) if isinstance(want, torch.Tensor) else want == got, name


def test_voice_of_a_wrong_shape(tmp_path: Path) -> None:
    torch.save({"bad": {**released_entry(), "flow_embedding": torch.ones(1, 80)}}, tmp_path / "spk2info.pt")
    with pytest.raises(CheckpointError, match=r"bad.*192"):
        read_voices(tmp_path / "spk2info.pt", lambda ids: "")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flow_prompt_speech_token", [1, 2, 3]),
        ("flow_prompt_speech_token", torch.tensor([[-1, 2]])),
        ("llm_prompt_speech_token", "none"),
        ("prompt_speech_feat", None),
        ("prompt_speech_feat", torch.zeros(80)),
        ("flow_embedding", 1.5),
        ("prompt_text", torch.tensor([0.5])),
    ],
)
def test_voice_of_a_wrong_type(tmp_path: Path, key: str, value: object) -> None:
    torch.save({"bad": {**released_entry(), key: value}}, tmp_path / "spk2info.pt")
    with pytest.raises(CheckpointError, match=f"bad.*{key}"):
        read_voices(tmp_path / "spk2info.pt", lambda ids: "")


def test_voice_of_another_model(model: Path, written: Path) -> None:
    tokens = torch.full((10,), synthetic.TINY.lm.speech_token_size, dtype=torch.int32)
    voice = load(written).voices["synthetic"]
    write_voices({"far": replace(voice, flow_speech_tokens=tokens, mel=voice.mel[:20])}, model / layout.VOICES)
    with pytest.raises(CheckpointError, match=r"far.*2187"):
        load(model)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mel": torch.zeros(3, 80)}, "two frames"),
        ({"mel": torch.full((4, 80), float("nan"))}, "finite"),
        ({"flow_speech_tokens": torch.zeros(0, dtype=torch.int32)}, "P > 0"),
        ({"lm_speech_tokens": torch.zeros(2)}, "int32"),
        ({"embedding": torch.zeros(1, 192)}, "192"),
    ],
)
def test_prompt_shapes(change: dict[str, torch.Tensor], said: str) -> None:
    good = VoicePrompt(
        name="v",
        language="en",
        description="",
        prompt_text="",
        transcript="",
        lm_speech_tokens=torch.zeros(0, dtype=torch.int32),
        flow_speech_tokens=torch.zeros(2, dtype=torch.int32),
        mel=torch.zeros(4, 80),
        embedding=torch.zeros(192),
    )
    with pytest.raises(InvalidInput, match=said):
        replace(good, **change)
