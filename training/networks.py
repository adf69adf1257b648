"""Networks of the tokenizer stage. SpeechTokenizer and SpeakerEncoder ship; the others only give them their losses."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oscine_engine.lm.network import rope_table, rotate

LEVELS, CODE_SIZE = 3, 7
CODES = LEVELS**CODE_SIZE
ROPE_THETA = 10000.0
# Attention reaches 1.3 s to each side and no further, so a 30 s input behaves like the short clips of the training.
REACH = 32
# tanh(SPREAD * u) of a unit normal u rounds to -1, 0 and 1 about equally often.
SPREAD = 1.275


def real_frames(frames: Tensor, width: int) -> Tensor:
    """Bool [B, width]: the first `frames` [B] places of each row."""
    return torch.arange(width, device=frames.device) < frames[:, None]


class Block(nn.Module):
    """A pre-norm transformer layer whose attention sees REACH places to each side, with rotary positions."""

    def __init__(self, size: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.attention_norm = nn.LayerNorm(size)
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.feed_norm = nn.LayerNorm(size)
        self.up = nn.Linear(size, inner)
        self.down = nn.Linear(inner, size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, visible: Tensor) -> Tensor:
        batch, width, size = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, width, 3, self.heads, size // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        x = x + F.dropout(self.out(seen.transpose(1, 2).reshape(batch, width, size)), self.dropout, self.training)
        fed = self.down(F.gelu(self.up(self.feed_norm(x)), approximate="tanh"))
        return x + F.dropout(fed, self.dropout, self.training)


class Stack(nn.Module):
    """Blocks over [B, T, size], of which the first `frames` [B] places of each row are real."""

    def __init__(self, size: int, layers: int, heads: int = 4, inner: int = 512, dropout: float = 0.1) -> None:
        super().__init__()
        self.head_dim = size // heads
        self.blocks = nn.ModuleList(Block(size, heads, inner, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(size)

    def forward(self, x: Tensor, frames: Tensor) -> Tensor:
        place = torch.arange(x.shape[1], device=x.device)
        cos, sin = rope_table(place, self.head_dim, ROPE_THETA)
        distance = (place[:, None] - place).abs()
        # Padding sees itself: a row of the softmax must never be empty.
        visible = ((distance <= REACH) & real_frames(frames, x.shape[1])[:, None]) | (distance == 0)
        x = x.float()  # under autocast the residual sum keeps full precision
        for block in self.blocks:
            x = block(x, cos, sin, visible[:, None])
        normed: Tensor = self.norm(x)
        return normed


class Codes(nn.Module):
    """Finite scalar quantisation (Mentzer et al. 2023, arXiv:2309.15505) with 3 levels in each of 7 dimensions.

    Inputs are standardised per dimension before the tanh: by the batch while training, by running figures after. That
    keeps all levels of each dimension in use; the correlation, as a loss, keeps the dimensions from saying the same.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.project = nn.Linear(size, CODE_SIZE)
        self.register_buffer("mean", torch.zeros(CODE_SIZE))
        self.register_buffer("var", torch.ones(CODE_SIZE))
        self.mean: Tensor
        self.var: Tensor

    def forward(self, x: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T, size] -> values in {-1, 0, 1} [B, T, 7] with a straight-through gradient, and the mean squared
        correlation of two dimensions, a scalar."""
        with torch.autocast(x.device.type, enabled=False):
            return self._standardise(self.project(x.float()), frames)

    def _standardise(self, u: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        real = real_frames(frames, u.shape[1])[..., None].float()
        count = real.sum().clamp(min=1)
        if self.training:
            mean = (u * real).sum((0, 1)) / count
            var = ((u - mean).square() * real).sum((0, 1)) / count
            with torch.no_grad():
                self.mean.lerp_(mean.detach(), 0.01)
                self.var.lerp_(var.detach(), 0.01)
        else:
            mean, var = self.mean, self.var
        unit = (u - mean) * torch.rsqrt(var + 1e-5)
        z = torch.tanh(SPREAD * unit)
        flat = (unit * real).flatten(0, 1)
        cross = (flat.T @ flat / count).fill_diagonal_(0)
        return z + (torch.round(z) - z).detach(), cross.square().sum() / (CODE_SIZE * (CODE_SIZE - 1))


def code_ids(values: Tensor) -> Tensor:
    """Ids [..] of quantised values [.., 7]: digit i counts 3^i."""
    digits = torch.round(values + 1).long()
    weights = LEVELS ** torch.arange(CODE_SIZE, device=values.device)
    return (digits * weights).sum(-1)


class SpeechTokenizer(nn.Module):
    """Log-mel at 100 Hz to speech ids at 25 Hz."""

    def __init__(self, size: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(128, size, 3, stride=2, padding=1)
        self.conv2 = nn.Conv1d(size, size, 3, stride=2, padding=1)
        self.stack = Stack(size, layers)
        self.codes = Codes(size)

    def quantise(self, mel: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """`mel` [B, 128, F] with F a multiple of 4, `frames` [B] real tokens of each row -> values [B, F / 4, 7] and
        their correlation."""
        mel = mel * real_frames(4 * frames, mel.shape[2])[:, None]
        x = F.gelu(self.conv1(mel))
        x = x * real_frames(2 * frames, x.shape[2])[:, None]
        x = F.gelu(self.conv2(x))
        found: tuple[Tensor, Tensor] = self.codes(self.stack(x.transpose(1, 2), frames), frames)
        return found

    def forward(self, mel: Tensor, lengths: Tensor) -> Tensor:
        """`mel` [B, 128, F], `lengths` [B] real frames of each row -> int64 ids [B, F // 4]; a row counts
        lengths // 4 of them. Frames beyond a multiple of 4 are left out."""
        whole = mel.shape[2] // 4 * 4
        return code_ids(self.quantise(mel[:, :, :whole], lengths // 4)[0])


class SpeakerEncoder(nn.Module):
    """Mean-subtracted fbank [B, F, 80] to a speaker embedding [B, 192]: dilated convolutions, mean and deviation."""

    def __init__(self, size: int = 128, pooled: int = 256, embedding: int = 192) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, size, 5, padding=2)
        self.dilated = nn.ModuleList(nn.Conv1d(size, size, 3, padding=d, dilation=d) for d in (1, 2, 3, 4))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(4))
        self.wide = nn.Linear(size, pooled)
        self.embed = nn.Linear(2 * pooled, embedding)

    def forward(self, fbank: Tensor, frames: Tensor | None = None) -> Tensor:
        if frames is None:
            frames = torch.full((fbank.shape[0],), fbank.shape[1], device=fbank.device)
        real = real_frames(frames, fbank.shape[1])[..., None].to(fbank.dtype)
        x = F.gelu(self.first((fbank * real / 4).transpose(1, 2)).transpose(1, 2))
        for norm, conv in zip(self.norms, self.dilated, strict=True):
            y = conv((norm(x) * real).transpose(1, 2)).transpose(1, 2)
            x = x + F.gelu(y)
        x = F.gelu(self.wide(x)).float()
        count = real.float().sum(1)
        mean = (x * real).sum(1) / count
        deviation = (((x - mean[:, None]).square() * real).sum(1) / count + 1e-5).sqrt()
        embedding: Tensor = self.embed(torch.cat([mean, deviation], 1))
        return embedding


class PhoneHead(nn.Module):
    """Code values to text-id log-probabilities for CTC. It is small: the codes themselves must say the phones."""

    def __init__(self, vocabulary: int, size: int = 256) -> None:
        super().__init__()
        self.first = nn.Conv1d(CODE_SIZE, size, 5, padding=2)
        self.second = nn.Conv1d(size, size, 5, padding=2)
        self.out = nn.Linear(size, vocabulary)

    def forward(self, values: Tensor) -> Tensor:
        x = F.gelu(self.second(F.gelu(self.first(values.transpose(1, 2)))))
        return self.out(x.transpose(1, 2)).float().log_softmax(-1)


class MelDecoder(nn.Module):
    """Code values [B, T, 7] and a speaker embedding [B, 192] to standardised mel [B, 2T, 80]."""

    def __init__(self, size: int = 256, layers: int = 3) -> None:
        super().__init__()
        self.size = size
        self.inward = nn.Conv1d(CODE_SIZE, size, 3, padding=1)
        self.speaker = nn.Linear(192, size)
        self.stack = Stack(size, layers)
        self.widen = nn.Linear(size, 2 * size)
        self.smooth = nn.Conv1d(size, size, 5, padding=2)
        self.out = nn.Linear(size, 80)

    def forward(self, values: Tensor, embedding: Tensor, frames: Tensor) -> Tensor:
        x = self.inward(values.transpose(1, 2)).transpose(1, 2)
        x = x + self.speaker(F.normalize(embedding, dim=1) * math.sqrt(192))[:, None]
        x = self.widen(self.stack(x, frames)).view(x.shape[0], 2 * x.shape[1], self.size)
        x = x + F.gelu(self.smooth(x.transpose(1, 2))).transpose(1, 2)
        mel: Tensor = self.out(x)
        return mel.float()
