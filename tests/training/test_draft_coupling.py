"""Chances that are worked out against draws, and against what they must lie between."""

from pathlib import Path

import numpy as np
import pytest
import torch

from oscine_engine.checkpoint import synthetic
from oscine_engine.checkpoint.load import load
from oscine_engine.config import SamplingConfig
from oscine_engine.lm import noise
from oscine_engine.lm.draft import DraftNetwork
from training import draft
from training.data import Corpus
from training.draft_coupling import by_equal_noise, by_rejection, compare, truncated
from training.draft_data import speak
from training.lm import SPEECH_FROM


def two_distributions() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    p = torch.rand(6, generator=random).double() ** 2
    q = p * torch.rand(6, generator=random) + 0.05
    q[2] = 0
    return p / p.sum(), q / q.sum()


def test_equal_noise_agrees_as_often_as_was_worked_out() -> None:
    p, q = two_distributions()
    keys = torch.tensor([[noise.key(seed, 3, 0)] for seed in range(60_000)])
    gumbel = noise.gumbel(keys, torch.arange(6))
    ours, theirs = (p.log() + gumbel).argmax(1), (q.log() + gumbel).argmax(1)
    ids = torch.arange(6)
    given = by_equal_noise(p.expand(6, -1), q.expand(6, -1), ids)
    for id in range(6):
        drawn = ours == id
        assert float((theirs[drawn] == id).double().mean()) == pytest.approx(float(given[id]), abs=0.02)
    agree = float((p * given).sum())
    assert float((ours == theirs).double().mean()) == pytest.approx(agree, abs=0.01)
    variation = float((p - q).abs().sum() / 2)
    assert (1 - variation) / (1 + variation) <= agree <= 1 - variation


def test_rejection_keeps_what_the_two_have_in_common() -> None:
    p, q = two_distributions()
    weights = by_rejection(p.expand(6, -1), q.expand(6, -1), torch.arange(6))
    assert float((p * weights).sum()) == pytest.approx(float(torch.minimum(p, q).sum()))


def test_a_nucleus_is_cut_and_whole() -> None:
    cut = truncated(torch.tensor([[0.0, 3.0, 2.0, -torch.inf, 1.0]]), SamplingConfig(top_p=0.8, top_k=25))[0]
    assert cut[[0, 3, 4]].tolist() == [0, 0, 0]
    assert cut.sum() == pytest.approx(1) and cut[1] / cut[2] == pytest.approx(np.e, rel=1e-5)


def test_a_head_is_compared_along_what_its_target_said(tmp_path: Path, work: Path) -> None:
    """What equal noise accepts is what was worked out, and rejection never less."""
    config = synthetic.TINY
    model = load(synthetic.write(tmp_path / "model", config))
    corpus = Corpus(work / "data", "cpu")
    spoken = speak(model, corpus, corpus.train[:6].tolist(), seed=2)
    assert (spoken.codes >= SPEECH_FROM).any()
    torch.manual_seed(1)
    network = DraftNetwork(draft.shape(config.lm, 1, 4, 8)).eval().requires_grad_(False)
    found = compare(network, model, spoken, truncate=True)
    ours, best, drawn = (found[name] for name in ("noise", "rejection", "drawn"))
    assert isinstance(ours, list) and isinstance(best, list) and isinstance(drawn, list)
    assert all(0 < a <= b + 1e-9 <= 1 for a, b in zip(ours, best, strict=True))
    assert drawn[0] == pytest.approx(ours[0], abs=0.1)
    assert found["blocks"] > 50
