"""How differently the speech tokenizer hears two waves: a distance that knows phones.

Spectral distances weigh a breath behind a plosive as little as it is loud. The tokenizer was trained to tell phones and
tones apart, so maps of its layers differ where a word would be misheard.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from oscine_engine.features.mel import MEL_RATE, WHISPER_RATE, whisper128
from oscine_engine.features.resampling import resample
from training.graphed import autocast
from training.networks import SpeechTokenizer


class HeardDistance(nn.Module):
    """Mean L1 distance of the tokenizer's layer-normed hidden maps of waves [B, n] at 24 kHz, n a multiple of 960."""

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.tokenizer = SpeechTokenizer()
        self.tokenizer.load_state_dict({name: value.float() for name, value in load_file(weights).items()})
        self.tokenizer.requires_grad_(False).eval()
        self.maps: list[Tensor] = []
        for block in self.tokenizer.stack.blocks:
            block.register_forward_hook(self._keep)

    def _keep(self, _: nn.Module, __: object, hidden: Tensor) -> None:
        self.maps.append(F.layer_norm(hidden.float(), hidden.shape[-1:]))

    def hear(self, wave: Tensor) -> list[Tensor]:
        """One map [B, n / 960, size] a layer."""
        self.maps = []
        mel = whisper128(resample(wave, MEL_RATE, WHISPER_RATE))
        tokens = mel.shape[2] // 4
        with autocast(wave.device):
            self.tokenizer.quantise(mel, torch.full((len(mel),), tokens, device=mel.device))
        return self.maps

    def forward(self, fake: Tensor, real: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = self.hear(real)
        return torch.stack([F.l1_loss(f, r) for f, r in zip(self.hear(fake), wanted, strict=True)]).mean()

    def train(self, mode: bool = True) -> HeardDistance:
        """Stays in evaluation mode: dropout would be heard too."""
        return super().train(False)
