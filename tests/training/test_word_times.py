"""What is trained is what the engine computes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from oscine_engine.text.sounds import SILENCE, sounds
from oscine_engine.word_times import listener
from oscine_engine.word_times.features import SIZE, features_of_silence
from training.word_times import BATCH, Clip, Network, augment, flat, prior, realign, save


def test_the_engine_scores_as_the_network_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network, frames = Network(), torch.randn(40, SIZE)
    target = np.random.default_rng(0).integers(0, len(sounds()) + 1, 5000)
    save(network, target, tmp_path / "network.safetensors")
    stored = {name: value.astype(np.float32) for name, value in load_file(tmp_path / "network.safetensors").items()}
    assert {name: value.shape for name, value in stored.items()} == {
        name: value.shape for name, value in listener.network().items()
    }
    monkeypatch.setattr(listener, "network", lambda: stored)
    with torch.no_grad():
        expected = network(frames.T[None])[0].T.log_softmax(-1).numpy() - prior(target)
    np.testing.assert_allclose(listener.scores(frames.numpy())[:, :-1], expected, atol=0.02)


def clip() -> tuple[np.ndarray, Clip]:
    """Two words with silence before, between and behind them."""
    frames = np.tile(features_of_silence(), (30, 1))
    frames[4:12] = frames[16:24] = 1.0
    return frames, Clip("one", 0, 30, [([5, 6], 3, 14), ([7], 14, 28)])


def test_sounds_are_spread_over_what_is_not_silent() -> None:
    frames, one = clip()
    wanted = [SILENCE] * 4 + [5] * 4 + [6] * 4 + [SILENCE] * 4 + [7] * 8 + [SILENCE] * 6
    assert flat(frames, [one]).tolist() == wanted


def test_paths_say_the_clip_anew() -> None:
    torch.manual_seed(0)
    frames, one = clip()
    target = flat(frames, [one])
    found = realign(Network(), torch.from_numpy(frames), target, [one])
    said = [int(s) for s, before in zip(found, [SILENCE, *found[:-1]], strict=True) if s not in (SILENCE, before)]
    assert said == [5, 6, 7]


def test_augmented_features_are_features() -> None:
    torch.manual_seed(0)
    frames, _ = clip()
    other = augment(torch.from_numpy(np.tile(frames, (BATCH, 1, 1))))
    assert other.shape == (BATCH, 30, SIZE) and torch.isfinite(other).all()
    assert other.min() >= features_of_silence().min() - 1e-4
    assert (other[:, 8].mean(-1) > other[:, 1].mean(-1)).all(), "speech is still louder than what is around it"
