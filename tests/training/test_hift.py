"""Training of the vocoder: crops line up with their waves, every part learns, and a run can be resumed."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from oscine_engine.features import mel24k
from training.data import MEL, SAMPLES, Corpus
from training.f0 import extract
from training.hift.crops import CONTEXT, Crops
from training.hift.heard import HeardDistance
from training.hift.train import Plan, Trainer, build, fit
from training.loop import save_weights
from training.networks import SpeechTokenizer

TOKENS = (30, 40)
PLAN = Plan(
    seconds=0.01, warm_up=25, batch=2, frames=10, width=16, period_channels=(2, 4), spectrum_channels=4, lr=1e-3
)


def voiced(samples: int, hertz: float) -> np.ndarray:
    """Ten harmonics that swell and fade, over a little noise."""
    t = np.arange(samples) / 24000
    tone = sum(np.sin(2 * np.pi * hertz * h * t) / h for h in range(1, 11))
    noise = np.random.default_rng(0).normal(size=samples)
    return (0.1 * tone * (1 + 0.5 * np.sin(2 * np.pi * 3 * t)) + 0.001 * noise).astype(np.float32)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    waves = [voiced(n * SAMPLES, 110.0 * (i + 1)) for i, n in enumerate(TOKENS)]
    np.save(folder / "audio.npy", np.concatenate([(w * 32768).astype(np.int16) for w in waves]))
    np.save(folder / "mel.npy", np.concatenate([mel24k(torch.from_numpy(w)).T.numpy() for w in waves]))
    np.save(folder / "f0.npy", np.concatenate([extract(w) for w in waves]))
    np.save(folder / "starts.npy", np.cumsum([0, *TOKENS]))
    np.save(folder / "text.npy", np.zeros(1, np.int16))
    np.save(folder / "text_starts.npy", np.zeros(len(TOKENS) + 1, np.int64))
    clips = [{"id": f"c{i}", "lang": "en", "voice": 0, "text": "", "split": "train"} for i in range(len(TOKENS))]
    (folder / "clips.json").write_text(json.dumps(clips))
    return tmp_path


def test_pitch_of_a_harmonic_tone_is_found() -> None:
    for hertz in (110.0, 220.0):
        found = extract(voiced(24000, hertz)).astype(float)[3:-3]
        assert np.all(np.abs(found / hertz - 1) < 0.02)
    assert not extract(np.zeros(24000, np.float32)).any()


def test_crops_begin_offset_frames_before_their_wave(work: Path) -> None:
    corpus = Corpus(work / "data", "cpu", ("audio", "mel", "f0"))
    starts, lengths = (torch.from_numpy(a * MEL) for a in (corpus.starts[:-1], corpus.lengths))
    mel, f0, audio = (corpus.arrays[name] for name in ("mel", "f0", "audio"))
    torch.manual_seed(0)
    crop = Crops(mel[None], f0, audio, starts, lengths, frames=20).draw(32)
    for made, wave, offset in zip(crop.mel, crop.wave, crop.offset.tolist(), strict=True):
        inside = mel24k(wave)[:, 4:-4]
        assert (inside - made[:, offset + 4 : offset + 16]).abs().mean() < 0.02
    assert set(crop.offset.tolist()) - {CONTEXT}, "some crops must begin where their clip begins"


@pytest.mark.slow
def test_mel_only_and_adversarial_steps_learn(work: Path) -> None:
    trainer, _ = build(work, PLAN, torch.device("cpu"), None, 1.0)
    before = {name: [p.clone() for p in update.parameters] for name, update in trainer.updates.items()}
    first = float(trainer.run({}, False)["mel"])
    for _ in range(20):
        last = float(trainer.run({}, False)["mel"])
    assert last < first
    assert all(torch.equal(a, b) for a, b in zip(before["judge"], trainer.updates["judge"].parameters, strict=True))
    out = trainer.run({}, True)
    assert all(np.isfinite(float(value)) for value in out.values())
    for name, update in trainer.updates.items():
        assert any(not torch.equal(a, b) for a, b in zip(before[name], update.parameters, strict=True)), name


def test_a_run_resumes_where_it_was_saved(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.hift.train.LOG_STEPS", 4)
    trainer, corpus = build(work, PLAN, torch.device("cpu"), None, 1.0)
    out = tmp_path / "out"
    out.mkdir()
    fit(trainer, corpus, corpus.arrays["mel"], out)
    assert (out / "hift.safetensors").exists()
    assert (out / "log.csv").read_text().count("\n") == 2
    again = Trainer(PLAN, trainer.crops, torch.device("cpu"))
    again.load(out / "state.pt", fresh=False)
    assert again.steps == trainer.steps > 0
    for a, b in zip(again.hift.parameters(), trainer.hift.parameters(), strict=True):
        assert torch.equal(a, b)


def test_what_the_tokenizer_hears_counts(work: Path) -> None:
    tokenizer = work / "tokenizer.safetensors"
    save_weights(tokenizer, SpeechTokenizer())
    heard = HeardDistance(tokenizer)
    wave = torch.from_numpy(voiced(9600, 150.0))[None]
    assert heard(wave, wave) == 0
    assert heard(wave, torch.from_numpy(voiced(9600, 300.0))[None]) > 0.05
    trainer, _ = build(work, PLAN, torch.device("cpu"), None, 1.0, tokenizer, {"en": 2})
    assert trainer.crops.total == 2 * sum(MEL * n - PLAN.frames + 1 for n in TOKENS)
    before = [p.clone() for p in trainer.heard.parameters()]
    assert trainer.step({}, True)["heard"] > 0
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.heard.parameters(), strict=True))
