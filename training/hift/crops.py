"""Random pieces of the corpus, drawn on the device so that drawing them is part of a captured step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oscine_engine.vocoder.f0 import LOOK_RIGHT

HOP = 480
CONTEXT = 20
AHEAD = 4 + LOOK_RIGHT


@dataclass(frozen=True, slots=True)
class Crop:
    """`mel` [B, 80, CONTEXT + frames + AHEAD] and `f0` [B, same] begin `offset` [B] frames before `wave` [B, n].

    An offset below CONTEXT means that the clip begins there: the zeros on the network's left are then what it
    will see at the start of a stream. Frames after the clip's end are zero, as at the end of one.
    """

    mel: Tensor
    f0: Tensor
    wave: Tensor
    offset: Tensor


class Crops:
    """Draws crops of `frames` frames, every frame of the clips about equally often.

    `mel` [K, F, 80]: K versions of the corpus' mels, of which version 0 is taken with probability `first`.
    `f0` [F], `audio` int16 [F * 480]; `starts`, `lengths` [N] in frames.
    """

    def __init__(
        self, mel: Tensor, f0: Tensor, audio: Tensor, starts: Tensor, lengths: Tensor, frames: int, first: float = 1.0
    ) -> None:
        usable = lengths >= frames
        if not bool(usable.any()):
            raise ValueError(f"no clip has {frames} frames: choose shorter crops")
        self.mel, self.f0, self.audio, self.frames, self.first = mel, f0, audio, frames, first
        self.starts, self.lengths = starts[usable].to(mel.device), lengths[usable].to(mel.device)
        self.ends = (self.lengths - frames + 1).cumsum(0)
        self.total = int(self.ends[-1])

    def draw(self, batch: int) -> Crop:
        """`batch` random crops."""
        device = self.mel.device
        place = torch.randint(self.total, (batch,), device=device)
        clip = torch.searchsorted(self.ends, place, right=True)
        start, length = self.starts[clip], self.lengths[clip]
        at = place - (self.ends[clip] - (length - self.frames + 1))
        first = (at - CONTEXT).clamp_min(0)
        inside = first[:, None] + torch.arange(CONTEXT + self.frames + AHEAD, device=device)
        real = inside < length[:, None]
        row = start[:, None] + torch.minimum(inside, length[:, None] - 1)
        version = (torch.rand(batch, device=device) >= self.first).long() * (len(self.mel) - 1)
        mel = self.mel[version[:, None], row].float() * real[..., None]
        sample = (start + at)[:, None] * HOP + torch.arange(self.frames * HOP, device=device)
        wave = self.audio[sample].float() / 32768
        return Crop(mel.transpose(1, 2), self.f0[row].float() * real, wave, at - first)


def pick(signal: Tensor, offset: Tensor, length: int, rate: int = 1) -> Tensor:
    """`length` values of `signal` [B, n] from `offset` [B] * rate on: [B, length]."""
    return signal.gather(1, offset[:, None] * rate + torch.arange(length, device=signal.device))
