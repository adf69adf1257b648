"""The fixed noises of a CosyVoice3 model. They are in no file: upstream draws them while it builds its modules.

The flow-matching module seeds torch and draws `rand_noise`; every later constructor draws from the same generator,
so the vocoder's `sine_waves` are found by re-drawing, in order, the initial values of the modules built in between.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from oscine_engine.config import ModelConfig
from oscine_engine.errors import InvalidInput

SINE_ROWS = 7_200_000
"""Rows of the whole `sine_waves`: 300 s at 24 kHz."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedNoise:
    """rand_noise: float32 [1, mel, 15000], normal, the flow's initial state by mel frame counted from the prompt.

    The excitation noise is re-drawn on demand: whole it is 260 MB, and a stream's index into it starts over with each
    segment, so 720,000 rows (30 s) are all that streaming reads.
    """

    rand_noise: Tensor
    harmonics: int
    generator_state: Tensor

    def sine_waves(self, rows: int) -> Tensor:
        """The first `rows` samples of the excitation noise: float32 [1, rows, harmonics], uniform in [0, 1).

        Raises InvalidInput beyond SINE_ROWS.
        """
        if not 0 < rows <= SINE_ROWS:
            raise InvalidInput(f"{rows} rows of excitation noise wanted; there are 1 to {SINE_ROWS}")
        generator = torch.Generator()
        generator.set_state(self.generator_state)
        return torch.rand(1, rows, self.harmonics, generator=generator)


def default_noise(config: ModelConfig) -> FixedNoise:
    """Draw what upstream's constructors draw for `config` in the released order: flow, then F0 predictor and source."""
    flow, f0 = config.flow, config.vocoder.f0_predictor
    harmonics = config.vocoder.nb_harmonics + 1
    generator = torch.Generator().manual_seed(flow.cfm.noise_seed)
    rand_noise = torch.randn(*flow.cfm.noise_shape, generator=generator)
    torch.randn(flow.vocab_size, flow.input_size, generator=generator)
    between = (
        *_layer(flow.output_size, flow.spk_embed_dim),
        *_layer(f0.cond_channels, f0.in_channels, 4),
        *(4 * _layer(f0.cond_channels, f0.cond_channels, 3)),
        *_layer(f0.num_class, f0.cond_channels),
        (1, harmonics),
    )
    for shape in between:
        torch.rand(math.prod(shape), generator=generator)
    return FixedNoise(rand_noise, harmonics, generator.get_state())


def _layer(out_channels: int, *fan_in: int) -> tuple[tuple[int, ...], ...]:
    """Shapes a linear layer or convolution draws uniformly when it is made: weight, then bias."""
    return (out_channels, *fan_in), (out_channels,)
