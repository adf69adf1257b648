"""Each stage learns its few clips by heart with a small model, exports, and resumes."""

import argparse
import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from oscine_engine.config import DiTConfig
from oscine_engine.lm.interleave import Layout
from tests.training.conftest import LENGTHS
from training import flow, lm, sizes, tokenizer
from training.data import Corpus
from training.loop import Stage
from training.networks import SpeakerEncoder, SpeechTokenizer
from training.splice import Word


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
    lm.fit(stage, layout, 200, 0, 1, dropout=0.0, own=0.0)
    loss = column(work / "lm" / "train.csv", "loss")
    assert loss[0] > 5 and loss[-1] < 1
    keys = load_file(work / "export" / "llm.safetensors").keys()
    assert keys == lm.SpeechLM(sizes.LM).state_dict().keys()
    steps = column(work / "lm" / "valid.csv", "step")
    lm.fit(replace(stage, max_steps=260), layout, 200, 0, 1, dropout=0.0, own=0.0)
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


@pytest.mark.slow
def test_lm_is_judged_after_its_own_words_and_splices_where_words_are_known(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lm, "sample", lambda *_: None)
    layout = Layout(sizes.LM.speech_token_size, 4, 6)
    stage = Stage("lm", work, 60, max_steps=150, warmup_steps=40, keep_best="ce_own", keep_last=True)
    words = {f"c{i}": [[0, 2, 0, 5], [2, n // 3, 5, n]] for i, n in enumerate(LENGTHS)}
    with gzip.open(work / "align.json.gz", "wt", encoding="utf-8") as out:
        json.dump(words, out)
    lm.fit(stage, layout, 200, 0, 1, own=0.5)
    (first, *_), (mean, *_) = column(work / "lm" / "train.csv", "loss"), column(work / "lm" / "valid.csv", "ce_own")
    parts = [column(work / "lm" / "valid.csv", f"ce_own_{name}")[0] for name in ("whole", "mixed")]
    assert first > 5 and mean == pytest.approx(sum(parts) / 2, rel=1e-4)
    assert mean != column(work / "lm" / "valid.csv", "ce")[0]
    assert mean != column(work / "lm" / "valid.csv", "ce_own_en")[0]  # weighted by ids, not by layout
    assert (work / "export" / "llm.safetensors").exists()
    # The last weights are kept whatever their worth, and are something to begin from.
    lm.fit(replace(stage, name="again", max_steps=2), layout, 200, 0, 1, start=stage.last / "llm.safetensors")


def test_rounds_differ_and_a_weight_adds_spliced_utterances_of_its_language_alone(work: Path) -> None:
    data = work / "data"
    clips = json.loads((data / "clips.json").read_text(encoding="utf-8"))
    (data / "clips.json").write_text(json.dumps([{**c, "lang": ("en", "zh")[c["voice"]]} for c in clips]))
    corpus, tokens = Corpus(data, "cpu"), np.load(work / "tokens.npy")
    words: list[list[Word]] = [[(0, 2, 0, 5), (2, n // 3, 5, n)] for n in LENGTHS]
    layout = Layout(sizes.LM.speech_token_size, 4, 6)
    tags = {lang: sizes.FIRST_VOICE_TAG + voice for voice, lang in enumerate(("en", "zh"))}

    def counts(weight: dict[str, float]) -> dict[str, float]:
        """Tagged sequences of each language in a round, on average."""
        source = lm.Source(corpus, tokens, words, layout, weight)
        rounds = [source.round(np.random.default_rng(seed)) for seed in range(60)]
        assert len({r.codes.tobytes() for r in rounds}) == 60
        return {lang: sum(int((r.codes == tag).sum()) for r in rounds) / 60 for lang, tag in tags.items()}

    plain, more = counts({}), counts({"zh": 4.0})
    clips_of_a_voice, tagged = 2, 1 - lm.TAG_DROP
    added = int((4 * (1 + lm.SPLICED) - 1) * clips_of_a_voice) - int(lm.SPLICED * clips_of_a_voice)
    assert more["zh"] - plain["zh"] == pytest.approx(tagged * added, rel=0.15)
    assert more["en"] == pytest.approx(plain["en"], rel=0.15)


@pytest.mark.slow
def test_own_histories_outside_of_the_step_train_as_well(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lm, "sample", lambda *_: None)
    stage = Stage("lm", work, 60, max_steps=100, warmup_steps=40, log_steps=10)
    lm.fit(stage, Layout(sizes.LM.speech_token_size, 4, 6), 200, 0, 1, own=0.5, eager_own=True)
    loss = column(work / "lm" / "train.csv", "loss")
    assert loss[-1] < loss[0] - 1


@pytest.mark.parametrize("argument", ["zh", "=2", "zh=", "zh=0.5", "zh=nan", "zh=inf"])
def test_a_weight_is_a_language_and_a_factor(argument: str) -> None:
    assert lm.weighted("zh=2.5") == ("zh", 2.5)
    with pytest.raises(argparse.ArgumentTypeError, match="zh=2"):
        lm.weighted(argument)


@pytest.mark.slow
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
