"""The fixed noise every mel starts from, one value per channel and frame; frames count from the prompt's first."""

import torch
from torch import Tensor

from oscine_engine.config import CFMConfig


def initial_noise(config: CFMConfig, generator: torch.Generator | None = None) -> Tensor:
    """Draw float32 `noise_shape` ([1, 80, 15000]) from a normal distribution, as upstream does after seeding torch.

    `generator`, when given, is seeded here and left where the draw ends: the vocoder's noises follow on it. The
    process-wide generator is never touched.
    """
    generator = generator if generator is not None else torch.Generator()
    generator.manual_seed(config.noise_seed)
    return torch.randn(*config.noise_shape, generator=generator)
