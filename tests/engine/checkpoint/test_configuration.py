"""Configuration files: the released form, its arithmetic, and clear refusals. Nothing in them may run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from oscine_engine.checkpoint import hyperyaml, layout
from oscine_engine.checkpoint.configuration import read_config, write_config
from oscine_engine.checkpoint.load import load
from oscine_engine.checkpoint.synthetic import FLEDGLING, TINY
from oscine_engine.config import ModelConfig, SamplingConfig, TextRules
from oscine_engine.errors import CheckpointError

RELEASED_FORM = Path(__file__).with_name("released_form.yaml")


def directory(root: Path, config: ModelConfig | None = None, text: str | None = None) -> layout.ModelFiles:
    write_config(config or ModelConfig(), root)
    for name in ("llm.pt", "flow.pt", "hift.pt"):
        (root / name).touch()
    if text is not None:
        (root / layout.CONFIG).write_text(text, encoding="utf-8")
    return layout.find(root)


def test_released_form_gives_the_default_sizes(tmp_path: Path) -> None:
    files = directory(tmp_path, text=RELEASED_FORM.read_text(encoding="utf-8"))
    assert read_config(files) == ModelConfig()


@pytest.mark.parametrize(
    "config",
    [
        TINY,
        FLEDGLING,
        replace(
            ModelConfig(),
            sampling=SamplingConfig(0.7, 20, 8, 0.25),
            text=TextRules((3, 11), 1.5, 9.0, "phones"),
            n_timesteps=6,
            flow=replace(ModelConfig().flow, cfm=replace(ModelConfig().flow.cfm, n_timesteps=6)),
        ),
    ],
)
def test_written_configuration_is_read_back(tmp_path: Path, config: ModelConfig) -> None:
    assert read_config(directory(tmp_path, config)) == config


def test_nothing_named_in_the_file_runs(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    attacks = f"""
a: !apply:pathlib.Path.touch [!new:pathlib.Path ["{witness}"]]
b: !new:pathlib.Path
    args: ["{witness}"]
c: !name:os.system "touch {witness}"
"""
    text = RELEASED_FORM.read_text(encoding="utf-8")
    read_config(directory(tmp_path, text=text + attacks))
    with pytest.raises(CheckpointError, match="python"):
        read_config(directory(tmp_path, text=text + f'd: !!python/object/apply:os.system ["touch {witness}"]\n'))
    assert not witness.exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("CosyVoice3LM", "Qwen2LM", "only CosyVoice3"),
        ("CausalMaskedDiffWithDiT", "CausalMaskedDiffWithXvec", "only CosyVoice3"),
        ("solver: 'euler'", "solver: 'midpoint'", "euler"),
        ("depth: 22", "depth: many", "depth"),
        ("mix_ratio: [5, 15]", "mix_ratio: [5]", "mix_ratio"),
        ("chunk_size> * <token_mel_ratio>", "nowhere> * <token_mel_ratio>", "nowhere"),
        ("chunk_size> * <token_mel_ratio>", "chunk_size> * len(x)", "compute"),
        ("chunk_size: 25", "chunk_size: !ref <chunk_size>", "itself"),
        ("mix_ratio: [5, 15]", "mix_ratio: [five, fifteen]", "mix_ratio"),
        ("mix_ratio: [5, 15]", "mix_ratio: [0, 15]", "mix_ratio"),
        ("token_mel_ratio: 2", "token_mel_ratio: 0", "token_mel_ratio"),
        ("speech_token_size: 6561", 'speech_token_size: "x"', "speech_token_size"),
        ("top_p: 0.8", "top_p: .nan", "top_p"),
        ("depth: 22", "depth: true", "depth"),
        ("upsample_rates: [8, 5, 3]", "upsample_rates: [120]", "kernel sizes"),
        ("upsample_rates: [8, 5, 3]", "upsample_rates: 120", "upsample_rates"),
        ("sample_rate: 24000", "sample_rate: 2001-99-99", "YAML"),
        ("llm_input_size: 896", "llm_input_size: 512", "hidden_size"),
        ("    mix_ratio: [5, 15]", "    mix_ratio: [5, 15]\n    silent_ids: [6561]", "silent_ids"),
        ("    mix_ratio: [5, 15]", "    mix_ratio: [5, 15]\n    silent_ids: 5", "silent_ids"),
        ("sample_rate: 24000", "sample_rate: 22050", "frames a second"),
        ("hift: !new", "vocoder: !new", "hift"),
        ("sample_rate: 24000", "sample_rate: [", "YAML"),
    ],
)
def test_bad_values_are_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = RELEASED_FORM.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(CheckpointError, match=said):
        read_config(directory(tmp_path, text=text.replace(old, new)))


def test_own_keys(tmp_path: Path) -> None:
    own = "    mix_ratio: [5, 15]\n    min_token_text_ratio: 1.5\n    max_token_text_ratio: 9\n    front_end: phones"
    text = RELEASED_FORM.read_text(encoding="utf-8").replace("    mix_ratio: [5, 15]", own) + "n_timesteps: 4\n"
    config = read_config(directory(tmp_path, text=text))
    assert config.text == TextRules((5, 15), 1.5, 9.0, "phones")
    assert config.n_timesteps == config.flow.cfm.n_timesteps == 4


def test_silent_ids_are_the_released_ones_in_the_released_vocabulary_only(tmp_path: Path) -> None:
    config = read_config(directory(tmp_path))
    assert config.silent_ids is None
    assert config.silence == {1, 2, 28, 29, 55, 248, 494, 2241, 2242, 2322, 2323}
    assert replace(config, lm=replace(config.lm, speech_token_size=2187)).silence == frozenset()
    assert load().config.silence == frozenset()


@pytest.mark.parametrize(("given", "ids"), [("[]", ()), ("[7, 0]", (7, 0))])
def test_a_checkpoint_may_name_its_own_silent_ids(tmp_path: Path, given: str, ids: tuple[int, ...]) -> None:
    own = f"    mix_ratio: [5, 15]\n    silent_ids: {given}"
    text = RELEASED_FORM.read_text(encoding="utf-8").replace("    mix_ratio: [5, 15]", own)
    config = read_config(directory(tmp_path, text=text))
    assert config.silent_ids == ids
    assert config.silence == set(ids)
    folder = tmp_path / "copy"
    folder.mkdir()
    write_config(config, folder)
    assert f"silent_ids: {given}" in (folder / "cosyvoice3.yaml").read_text(encoding="utf-8")


def test_text_model_of_another_kind(tmp_path: Path) -> None:
    files = directory(tmp_path)
    (files.text_model / "config.json").write_text(json.dumps({"model_type": "llama"}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="qwen2"):
        read_config(files)


@pytest.mark.parametrize(
    ("expression", "value"),
    [("<a> * <b>", 50), ("<a> // 4 - <c[d]>", -1), ("-<a> + 1.5", -23.5), ("<a>", 25), ("<s>/x", "dir/x")],
)
def test_references(tmp_path: Path, expression: str, value: object) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"a: 25\nb: 2\nc: !new:k.l\n    d: 7\ns: dir\nr: !ref {expression}\n", encoding="utf-8")
    assert hyperyaml.read(path).get("r") == value
