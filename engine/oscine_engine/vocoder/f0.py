"""Fundamental frequency from a mel spectrogram."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oscine_engine.config import F0Config
from oscine_engine.vocoder.layers import SILENCE, Conv, Past, normed

LOOK_RIGHT = 3


class F0Predictor(nn.Module):
    """Five convolutions and a linear layer; the first one looks `LOOK_RIGHT` frames ahead.

    Computes in the type of its input: float64 at inference, since the excitation integrates F0 and multiplies the
    sum by 480, float32 in training.
    """

    def __init__(self, config: F0Config) -> None:
        super().__init__()
        width = config.cond_channels
        layers: list[nn.Module] = [normed(Conv(config.in_channels, width, LOOK_RIGHT + 1)), nn.ELU()]
        for _ in range(4):
            layers += [normed(Conv(width, width, 3)), nn.ELU()]
        self.condnet = nn.Sequential(*layers)
        self.classifier = nn.Linear(width, config.num_class)

    @property
    def convs(self) -> list[Conv]:
        return [cast(Conv, layer) for layer in self.condnet if isinstance(layer, nn.Conv1d)]

    def forward(self, mel: Tensor, finalize: bool = True) -> Tensor:
        """[B, 80, T] -> Hz [B, T], or [B, T - LOOK_RIGHT] if more frames are to come (`finalize` false)."""
        return self.predict(F.pad(mel, (0, LOOK_RIGHT)) if finalize else mel, SILENCE)

    def predict(self, mel: Tensor, past: Past) -> Tensor:
        """[B, 80, T + LOOK_RIGHT] -> Hz [B, T]."""
        exact, x = mel.dtype == torch.float64, mel
        for index, conv in enumerate(self.convs):
            x = x if index == 0 else past.extend(x, conv.left)
            x = F.elu(F.conv1d(x, *conv.exact()) if exact else conv(x))
        # In bfloat16 a hertz would be lost here.
        with torch.autocast(mel.device.type, enabled=False):
            weight, bias = self.classifier.weight, self.classifier.bias
            dtype = mel.dtype if exact else weight.dtype
            return F.linear(x.transpose(1, 2).to(dtype), weight.to(dtype), bias.to(dtype))[:, :, 0].abs()


def double(predictor: F0Predictor, mel: Tensor, finalize: bool = True) -> Tensor:
    """F0 in float64 whatever autocast says: [B, 80, T] -> float64 [B, T]."""
    with torch.autocast(mel.device.type, enabled=False):
        return cast(Tensor, predictor(mel.double(), finalize))
