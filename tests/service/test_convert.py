"""`oscine convert` as a user meets it, and what is served of it."""

import importlib.util
from pathlib import Path

import pytest

from oscine_engine.checkpoint import draft, merged, synthetic
from oscine_engine.checkpoint.load import load
from tests.service.test_cli import check_failed, run


def test_a_language_model_is_written_for_vllm(tmp_path: Path) -> None:
    model, out = synthetic.write(tmp_path / "model"), tmp_path / "out"
    draft.save(draft.random(synthetic.TINY.lm), tmp_path / "draft")
    done = run("convert", "--to", "vllm", model, out, "--draft", tmp_path / "draft")
    assert done.returncode == 0 and str(out) in done.stdout.decode(), done.stderr
    assert merged.read(out, synthetic.TINY.lm).precision == "float16"
    assert draft.load(out / merged.DRAFT).config.count == 7
    # What is there is not overwritten, and a model it was not made of is told apart, before anything starts.
    check_failed(run("convert", "--to", "vllm", model, out), 1, str(out), "not an empty directory")
    other = synthetic.write(tmp_path / "other", synthetic.REFERENCE_TINY)
    check_failed(run("serve", "--port", "0", "--model", other, "--vllm", out), 1, str(out), "another language model")


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_serving_without_vllm_says_what_to_install(tmp_path: Path) -> None:
    model = synthetic.write(tmp_path / "model")
    merged.write(load(model).lm, tmp_path / "out")
    check_failed(run("serve", "--port", "0", "--model", model, "--vllm", tmp_path / "out"), 1, "pip install", "vllm")


def test_a_whole_model_becomes_safetensors(tmp_path: Path) -> None:
    model, out = synthetic.write(tmp_path / "model"), tmp_path / "out"
    assert run("convert", model, out, "--precision", "int8").returncode == 0
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
    options: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    check_failed(run("convert", "nowhere", tmp_path / "out", *options), 1, *words)
    assert not (tmp_path / "out").exists()
