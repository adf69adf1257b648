"""What no checkpoint stores: the fixed noise and the solver's times."""

import hashlib

import pytest
import torch

from oscine_engine.config import CFMConfig
from oscine_engine.errors import CheckpointError
from oscine_engine.flow.dit import time_frequencies
from oscine_engine.flow.noise import initial_noise
from oscine_engine.flow.schedule import euler_steps, time_span

RELEASED_NOISE = "584a26e6eaad944407a96c5999aaa5cd0a6a359309a841eade68bf805c072322"


def test_the_noise_is_the_released_one_and_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    noise = initial_noise(CFMConfig())
    assert hashlib.sha256(noise.numpy().tobytes()).hexdigest() == RELEASED_NOISE
    assert torch.equal(torch.get_rng_state(), before)


def test_steps_add_up_and_start_small() -> None:
    span = time_span(CFMConfig(), 10)
    times, lengths = euler_steps(span)
    torch.testing.assert_close(times, span[:-1])
    torch.testing.assert_close(lengths.sum(), torch.tensor(1.0))
    assert (lengths.diff() > 0).all()


def test_one_step_is_the_whole_way() -> None:
    times, lengths = euler_steps(time_span(CFMConfig(), 1))
    assert times.tolist() == [0.0]
    torch.testing.assert_close(lengths, torch.ones(1))


def test_an_unknown_solver_is_refused() -> None:
    with pytest.raises(CheckpointError, match="midpoint"):
        time_span(CFMConfig(solver="midpoint"), 10)


def test_the_time_frequencies_are_rounded_as_the_released_ones() -> None:
    frequencies = time_frequencies(torch.device("cpu"))
    torch.testing.assert_close(frequencies.double(), 10000.0 ** (-torch.arange(128).double() / 127), atol=0, rtol=1e-6)
    # the one that libraries disagree about
    assert frequencies[4].item() == 0.7481966018676758
