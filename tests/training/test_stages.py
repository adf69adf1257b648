"""Each stage learns its few clips by heart with a small model, exports, and resumes."""

import csv
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from oscine_engine.config import DiTConfig
from oscine_engine.lm.interleave import Layout
from tests.training.conftest import LENGTHS
from training import flow, lm, sizes, tokenizer
from training.loop import Stage
from training.networks import SpeakerEncoder, SpeechTokenizer


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "LM", replace(sizes.LM, hidden_size=64, num_hidden_layers=2, intermediate_size=128))
    dit = DiTConfig(dim=64, depth=2, heads=2, dim_head=32)
    monkeypatch.setattr(sizes, "FLOW", replace(sizes.FLOW, dit=dit))


def column(path: Path, name: str) -> list[float]:
    with path.open() as source:
        return [float(row[name]) for row in csv.DictReader(source)]


def test_lm_learns_by_heart_and_resumes(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lm, "sample", lambda *_: None)
    layout = Layout(sizes.LM.speech_token_size, 4, 6)
    stage = Stage("lm", work, 60, max_steps=250, warmup_steps=60, keep_best="ce")
    lm.fit(stage, layout, 200, 8, 0, 1, dropout=0.0, own=0.0)
    loss = column(work / "lm" / "train.csv", "loss")
    assert loss[0] > 5 and loss[-1] < 1
    keys = load_file(work / "export" / "llm.safetensors").keys()
    assert keys == lm.SpeechLM(sizes.LM).state_dict().keys()
    steps = column(work / "lm" / "valid.csv", "step")
    lm.fit(replace(stage, max_steps=260), layout, 200, 8, 0, 1, dropout=0.0, own=0.0)
    assert column(work / "lm" / "valid.csv", "step") == [*steps, 260]


def test_own_ids_replace_speech_alone_by_what_the_model_says() -> None:
    speech = lm.SPEECH_FROM + torch.arange(6)
    codes = torch.cat([torch.tensor([3, 4, lm.SPEECH_FROM + sizes.LM.speech_token_size + 2]), speech])[None]
    logits = torch.full((1, 9, sizes.LM.decoder_rows), -30.0)
    logits[0, torch.arange(9), 100 + torch.arange(9)] = 30.0
    generator = torch.Generator().manual_seed(0)
    replaced = torch.stack([lm.own_ids(codes, logits, 0.6, generator)[0] for _ in range(200)])
    assert (replaced[:, :3] == codes[0, :3]).all()
    said = lm.SPEECH_FROM + 99 + torch.arange(9)
    assert ((replaced[:, 3:] == codes[0, 3:]) | (replaced[:, 3:] == said[3:])).all()
    assert 0.5 < float((replaced[:, 3:] == said[3:]).float().mean()) < 0.7
    rows = lm.own_ids(codes.repeat(2, 1), logits.repeat(2, 1, 1), torch.tensor([[0.0], [1.0]]))
    assert (rows[0] == codes[0]).all() and (rows[1, 3:] == said[3:]).all()


def test_lm_is_judged_after_its_own_words_and_splices_where_words_are_known(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lm, "sample", lambda *_: None)
    layout = Layout(sizes.LM.speech_token_size, 4, 6)
    stage = Stage("lm", work, 60, max_steps=150, warmup_steps=40, keep_best="ce_own")
    words = {f"c{i}": [[0, 2, 0, 5], [2, n // 3, 5, n]] for i, n in enumerate(LENGTHS)}
    with gzip.open(work / "align.json.gz", "wt", encoding="utf-8") as out:
        json.dump(words, out)
    lm.fit(stage, layout, 200, 2, 0, 1, own=0.5)
    spliced = int(lm.SPLICED * 2)
    shown = re.search(r"(\d+) sequences", capsys.readouterr().out)
    # Of the four training clips two are of each voice, and at least one sequence holds every clip of a voice.
    assert shown is not None and 2 * (spliced + 1) <= int(shown[1]) <= 2 * (spliced + 2)
    (first, *_), (mean, *_) = column(work / "lm" / "train.csv", "loss"), column(work / "lm" / "valid.csv", "ce_own")
    parts = [column(work / "lm" / "valid.csv", f"ce_own_{name}")[0] for name in ("whole", "mixed")]
    assert first > 5 and mean == pytest.approx(sum(parts) / 2, rel=1e-4)
    assert mean != column(work / "lm" / "valid.csv", "ce")[0]
    assert (work / "export" / "llm.safetensors").exists()


def test_flow_learns_and_exports(work: Path) -> None:
    stage = Stage("flow", work, 60, max_steps=150, warmup_steps=20)
    flow.fit(stage, torch.device("cpu"), 128, 0)
    loss = column(work / "flow" / "train.csv", "loss")
    assert loss[0] < 3 and loss[-1] < 0.98 * loss[0]
    weights = load_file(work / "export" / "flow.safetensors")
    flow.Flow(sizes.FLOW).load_state_dict({k: v.float() for k, v in weights.items()})
    # Rotary frequencies keep full precision: sixteen bits would turn late frames by whole radians.
    assert weights["decoder.estimator.rotary_embed.inv_freq"].dtype == torch.float32


def test_tokenizer_trains_exports_and_extracts(work: Path) -> None:
    tokenizer.fit(Stage("tokenizer", work, 60, max_steps=12), torch.device("cpu"), 64, 0)
    tokenizer.extract(work, torch.device("cpu"))
    assert {p.name for p in (work / "export").iterdir()} >= {"speech_tokenizer.safetensors", "speaker.safetensors"}
    SpeakerEncoder().load_state_dict(load_file(work / "export" / "speaker.safetensors"))


def test_ids_do_not_depend_on_the_batch() -> None:
    torch.manual_seed(0)
    model = SpeechTokenizer(size=64, layers=2).eval()
    mel = torch.randn(2, 128, 403)
    together = model(mel, torch.tensor([403, 201]))
    assert together.shape == (2, 100)
    assert torch.equal(model(mel[:1], torch.tensor([403]))[0], together[0])
    assert torch.equal(model(mel[1:, :, :201], torch.tensor([201]))[0], together[1, :50])
