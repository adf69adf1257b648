"""`oscine convert` as a user meets it, and what is served of it."""

import importlib.util
from pathlib import Path

import pytest

from oscine_engine.checkpoint import draft, merged, synthetic
from oscine_engine.checkpoint.load import load
from oscine_service.cli.main import main


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("model"))


def run(capsys: pytest.CaptureFixture[str], *arguments: "str | Path") -> tuple[int, str]:
    """Exit status, and what is printed about it."""
    status = main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    return status, err or out


def test_a_language_model_is_written_for_vllm(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    draft.save(draft.random(synthetic.TINY.lm), tmp_path / "draft")
    status, said = run(capsys, "convert", "--to", "vllm", model, out, "--draft", tmp_path / "draft")
    assert status == 0 and said == f"wrote {out}\n"
    assert merged.read(out, synthetic.TINY.lm).precision == "float16"
    assert draft.load(out / merged.DRAFT).config.count == 7
    # What is there is not overwritten, and a model it was not made of is told apart before anything starts.
    status, said = run(capsys, "convert", "--to", "vllm", model, out)
    assert status == 1 and "not an empty directory" in said and said.count("\n") == 1
    status, said = run(capsys, "serve", "--port", "0", "--in-process", "--vllm", out)
    assert status == 1 and "another language model" in said


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
@pytest.mark.parametrize("how", [("--in-process",), pytest.param((), marks=pytest.mark.slow)])
def test_serving_without_vllm_says_what_to_install(
    how: tuple[str, ...], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    merged.write(load(model).lm, tmp_path / "out")
    status, said = run(capsys, "serve", "--port", "0", "--model", model, "--vllm", tmp_path / "out", *how)
    assert status == 1 and "pip install 'oscine[vllm]'" in said and "Traceback" not in said


def test_a_whole_model_becomes_safetensors(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(capsys, "convert", model, out, "--precision", "int8")[0] == 0
    assert load(out).config == load(model).config
    assert (out / "llm.safetensors").stat().st_size < (model / "llm.safetensors").stat().st_size / 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--to", "vllm", "--precision", "int8"), ("int8", "float16, bfloat16, float32")),
        (("--precision", "bfloat16"), ("bfloat16", "float32, float16, int8")),
        (("--draft", "somewhere"), ("--draft", "--to vllm")),
    ],
)
def test_options_that_do_not_go_together_are_named(
    options: tuple[str, ...], words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = run(capsys, "convert", "nowhere", tmp_path / "out", *options)
    assert status == 1 and all(word in said for word in words)
    assert not (tmp_path / "out").exists()
