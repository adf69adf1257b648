"""Thousands of sentences say with guesses, however many a step has, what they say step by step."""

import numpy as np
import pytest

from oscine_engine.lm.network import SpeechLM
from tests.engine.lm.test_speculation import guessing, lm, of_all_kinds, spoken, stepwise

__all__ = ["lm"]

SEEDS = range(1, 4201)


@pytest.fixture(scope="module")
def wanted(lm: SpeechLM) -> list[list[int]]:
    return spoken(stepwise(lm), SEEDS, 1)[0]


@pytest.mark.slow
@pytest.mark.parametrize("together", [1, 7, 24])
def test_thousands_of_sentences(lm: SpeechLM, wanted: list[list[int]], together: int) -> None:
    """Guesses that are true, anything, and true for a while, side by side; their number drawn for every step."""
    assert len({tuple(tokens) for tokens in wanted}) > 0.9 * len(wanted)
    prophet, random = of_all_kinds(dict(zip(SEEDS, wanted, strict=True))), np.random.default_rng(together)
    runner = guessing(lm, prophet, choices=(0, 1, 3))
    got, steps = spoken(runner, SEEDS, together, lambda: int(random.choice((0, 1, 3, 5))))
    assert got == wanted
    ids = sum(map(len, wanted))
    print(f"{len(got)} sentences, {ids} ids, {together} together: {steps} steps, the same ids")
