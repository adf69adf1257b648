"""Keyed noise and repetition-aware sampling against its closed form."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from oscine_engine.config import SamplingConfig
from oscine_engine.lm import noise
from oscine_engine.lm.sampling import NO_ID, distribution, mask_logits, nucleus, sample

RAS = SamplingConfig(top_p=0.8, top_k=25, win_size=10, tau_r=0.1)


def make_keys(seeds: range, position: int = 0) -> Tensor:
    return torch.tensor([[noise.key(s, position, use) for use in (0, 1)] for s in seeds])


def window(ids: list[int], size: int = 10) -> Tensor:
    return torch.tensor([[NO_ID] * (size - len(ids)) + ids])


def chi_square_z(counts: Tensor, expected: Tensor) -> float:
    """How many deviations Pearson's statistic lies from its mean, rare cells (expected < 5) pooled."""
    common = expected >= 5
    observed = torch.cat((counts[common], counts[~common].sum()[None]))
    wanted = torch.cat((expected[common], expected[~common].sum()[None]))
    seen = wanted > 0
    assert int(observed[~seen].sum()) == 0
    statistic = float(((observed - wanted)[seen] ** 2 / wanted[seen]).sum())
    freedom = int(seen.sum()) - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


def test_bits_are_splitmix64() -> None:
    """First outputs of the published generator from state 1234567 (counter k is its k-th output)."""
    got = noise.bits(torch.tensor([[1234567]]), torch.arange(1, 4))[0]
    assert [int(v) & (2**64 - 1) for v in got] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_uniform_fills_the_interval_evenly() -> None:
    keys = torch.tensor([[noise.key(1, p, 0)] for p in range(200)])
    values = noise.uniform(keys, torch.arange(1000))
    assert 0 < float(values.min()) < 1e-3
    assert 1 - 1e-3 < float(values.max()) < 1
    counts = torch.histc(values, 100, 0, 1)
    assert abs(chi_square_z(counts, torch.full((100,), 2000.0))) < 5


@pytest.mark.parametrize("vary", ["seed", "position", "use"])
def test_neighbouring_keys_are_independent(vary: str) -> None:
    """Correlation between the numbers of a key and of the next one stays within noise."""
    base = {"seed": 3, "position": 5, "use": 0}
    rows = [noise.key(**{**base, vary: base[vary] + step}) for step in range(64)]
    values = noise.uniform(torch.tensor(rows)[:, None], torch.arange(2000)) - 0.5
    correlation = torch.corrcoef(values)
    correlation.fill_diagonal_(0)
    assert float(correlation.abs().max()) < 5 / math.sqrt(2000)
    joint = torch.histc((values[:-1] + 0.5).mul(8).floor() * 8 + (values[1:] + 0.5).mul(8).floor(), 64, 0, 64)
    assert abs(chi_square_z(joint, torch.full((64,), 63 * 2000 / 64))) < 5


def test_gumbel_has_its_mean_and_variance() -> None:
    values = noise.gumbel(torch.tensor([[noise.key(9, p, 1)] for p in range(100)]), torch.arange(2000))
    assert abs(float(values.mean()) - 0.57722) < 0.015
    assert abs(float(values.var()) - math.pi**2 / 6) < 0.03


def test_the_id_that_crosses_top_p_is_kept_and_ties_come_in_order() -> None:
    probs = torch.tensor([[0.1, 0.3, 0.3, 0.2, 0.1]])
    ids, kept, inside = nucleus(probs, RAS)
    assert ids.tolist() == [[1, 2, 3, 0, 4]]
    assert inside.tolist() == [[True, True, True, False, False]]
    torch.testing.assert_close(kept, probs.gather(1, ids))
    _, _, capped = nucleus(probs, replace(RAS, top_k=2))
    assert capped.shape == (1, 2)
    assert bool(capped.all())


def test_masking_leaves_speech_and_a_permitted_eos() -> None:
    masked = mask_logits(torch.zeros(2, 12), 4, torch.tensor([False, True]))
    assert masked.isfinite().tolist() == [[True] * 4 + [False, False], [True] * 4 + [False, True]]


@pytest.mark.parametrize(
    ("scale", "history", "sampling", "temperature"),
    [
        (1.0, [], RAS, 1.0),
        (1.0, [3, 5, 9, 9, 1, 0], RAS, 1.0),
        (4.0, list(range(10)), RAS, 1.0),
        (2.0, [7, 7, 7, 2, 2, 5], replace(RAS, tau_r=0.2), 0.7),
        (0.3, list(range(10, 20)), replace(RAS, top_k=8), 1.5),
    ],
)
def test_samples_follow_the_closed_form(
    scale: float, history: list[int], sampling: SamplingConfig, temperature: float
) -> None:
    torch.manual_seed(2)
    logits = torch.randn(1, 40) * scale
    logits[0, :10] += scale
    draws = 40_000
    past = window(history)
    got = sample(logits.expand(draws, -1), past.expand(draws, -1), make_keys(range(draws)), sampling, temperature)
    expected = distribution(logits, past, sampling, temperature)[0]
    assert abs(float(expected.sum()) - 1) < 1e-9
    counts = torch.bincount(got, minlength=40).double()
    assert abs(chi_square_z(counts, expected * draws)) < 5


def test_a_certain_id_that_repeats_gives_way_to_the_next() -> None:
    logits = torch.zeros(1, 6)
    logits[0, 2] = 200.0
    past = window([2])
    got = sample(logits.expand(500, -1), past.expand(500, -1), make_keys(range(500)), RAS)
    assert set(got.tolist()) == {0, 1, 3, 4, 5}
    expected = distribution(logits, past, RAS)
    torch.testing.assert_close(expected[0, [0, 1, 3, 4, 5]], torch.full((5,), 0.2, dtype=torch.float64))
    assert float(expected[0, 2]) < 1e-9


def test_a_row_depends_on_itself_only() -> None:
    torch.manual_seed(0)
    logits, keys = torch.randn(16, 60) * 3, make_keys(range(16), position=4)
    past = torch.randint(0, 60, (16, 10))
    together = sample(logits, past, keys, RAS)
    order = torch.randperm(16)
    assert torch.equal(sample(logits[order], past[order], keys[order], RAS), together[order])
    alone = torch.cat([sample(logits[i : i + 1], past[i : i + 1], keys[i : i + 1], RAS) for i in range(16)])
    assert torch.equal(alone, together)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_masking_leaves_its_input_alone(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 16, dtype=dtype)
    before = logits.clone()
    masked = mask_logits(logits, 10, torch.tensor([True, False, True]))
    assert torch.equal(logits, before)
    assert masked.dtype == torch.float32
    assert masked[:, 10].isinf().all()
    assert masked[:, 11].isinf().tolist() == [False, True, False]
