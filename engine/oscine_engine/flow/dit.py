"""The diffusion transformer (DiT) that estimates the velocity of a mel under flow matching.

Blocks follow adaLN-Zero (Peebles and Xie 2023, section 3.2). Layout and quirks are those of CosyVoice3: the rotary
embedding turns the first head only, and the position embedding is a pair of causal grouped convolutions. Parameter
names are those of the released flow.pt.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from oscine_engine.config import DiTConfig

NORM_EPS = 1e-6
TIME_FREQUENCIES = 128
TIME_SCALE = 1000.0

Observer = Callable[[str, Tensor], None]
"""Called with the name and value of an intermediate state, for parity checks."""


def chunk_mask(frames: int, chunk: int, device: torch.device | None = None) -> Tensor:
    """Bool [frames, frames]: frame i sees key j when j < (i // chunk + 1) * chunk."""
    index = torch.arange(frames, device=device)
    return index[None, :] < ((index // chunk + 1) * chunk)[:, None]


def rotate_head(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn interleaved pairs of the first `cos.shape[-1]` channels of `x` [..., channels]; the others pass through."""
    width = cos.shape[-1]
    head = x[..., :width]
    even, odd = head[..., 0::2], head[..., 1::2]
    turned = torch.stack((-odd, even), dim=-1).flatten(-2)
    return torch.cat(((head * cos + turned * sin).to(x.dtype), x[..., width:]), dim=-1)


class RotaryEmbedding(nn.Module):
    """Angles of the rotary position embedding, base 10000, positions counted from the first prompt frame."""

    inv_freq: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, width, 2).float() / width))

    def forward(self, frames: int) -> Tensor:
        """Angles [frames, width], each frequency twice in a row."""
        position = torch.arange(frames, device=self.inv_freq.device, dtype=torch.float32)
        return (position[:, None] * self.inv_freq.float()).repeat_interleave(2, dim=-1)


def time_frequencies(device: torch.device) -> Tensor:
    """The 128 frequencies of the time embedding, float32: 10000^(-k / 127), rounded as the released models had them.

    Multiplied by 1000, one unit in the last place of a frequency moves the mel by 3e-6. One of them lies a hundredth of
    that from a tie, and libraries disagree about it; so the exponential is taken in float64 and leant towards zero.
    """
    exponent = torch.arange(TIME_FREQUENCIES, device=device, dtype=torch.float32)
    exponent = exponent * (-math.log(10000.0) / (TIME_FREQUENCIES - 1))
    return (torch.exp(exponent.double()) * (1 - 2.0**-30)).float()


class TimeEmbedding(nn.Module):
    """Sinusoids of the time in [0, 1], then two linear layers."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.time_mlp = nn.Sequential(nn.Linear(2 * TIME_FREQUENCIES, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t: Tensor) -> Tensor:
        """`t` [B] -> [B, dim]."""
        angle = TIME_SCALE * t.float()[:, None] * time_frequencies(t.device)
        wave = torch.cat((angle.sin(), angle.cos()), dim=-1)
        embedded: Tensor = self.time_mlp(wave.to(next(self.parameters()).dtype))
        return embedded


class PositionConv(nn.Module):
    """Two grouped convolutions, each followed by Mish, over the past only."""

    def __init__(self, dim: int, kernel: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv1d(dim, dim, kernel, groups=groups), nn.Mish())
        self.conv2 = nn.Sequential(nn.Conv1d(dim, dim, kernel, groups=groups), nn.Mish())
        self.context = kernel - 1

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, dim, T] -> [B, dim, T]; before the first frame there are zeros."""
        x = self.conv1(F.pad(x, (self.context, 0)))
        convolved: Tensor = self.conv2(F.pad(x, (self.context, 0)))
        return convolved


class InputEmbedding(nn.Module):
    """Joins state, prompt mel, tokens' mel and speaker, frame by frame, and adds the position convolutions."""

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        channels = 2 * config.mel_dim + config.mu_dim + config.spk_dim
        self.proj = nn.Linear(channels, config.dim)
        self.conv_pos_embed = PositionConv(config.dim, config.conv_pos_kernel, config.conv_pos_groups)

    def forward(self, x: Tensor, cond: Tensor, mu: Tensor, spks: Tensor, observe: Observer | None = None) -> Tensor:
        """All [B, T, channels] but `spks` [B, spk_dim] -> [B, T, dim]."""
        speaker = spks[:, None].expand(-1, x.shape[1], -1)
        projected: Tensor = self.proj(torch.cat((x, cond, mu, speaker), dim=-1))
        if observe:
            observe("input_proj", projected)
        convolved: Tensor = self.conv_pos_embed(projected.transpose(1, 2))
        return convolved.transpose(1, 2) + projected


class Modulation(nn.Module):
    """The linear layer that turns a time embedding into `parts` vectors of shifts, scales and gates."""

    def __init__(self, dim: int, parts: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, parts * dim)
        self.parts = parts

    def forward(self, embedded: Tensor) -> tuple[Tensor, ...]:
        """`embedded` [B, dim] -> `parts` tensors [B, 1, dim]."""
        modulation: Tensor = self.linear(F.silu(embedded))
        parts: tuple[Tensor, ...] = torch.chunk(modulation[:, None], self.parts, dim=-1)
        return parts


class Attention(nn.Module):
    """Multi-head self-attention whose rotary embedding touches head 0 only."""

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        inner = config.heads * config.dim_head
        self.heads = config.heads
        self.to_q = nn.Linear(config.dim, inner)
        self.to_k = nn.Linear(config.dim, inner)
        self.to_v = nn.Linear(config.dim, inner)
        self.to_out = nn.Sequential(nn.Linear(inner, config.dim))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, observe: Observer | None) -> Tensor:
        """`x` [B, T, dim], `mask` bool broadcastable to [B, heads, T, T] -> [B, T, dim]."""
        query, key = rotate_head(self.to_q(x), cos, sin), rotate_head(self.to_k(x), cos, sin)
        if observe:
            observe("q", query)
            observe("k", key)
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (query, key, self.to_v(x))
        )
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        attended: Tensor = self.to_out(seen.transpose(1, 2).flatten(-2))
        return attended


class FeedForward(nn.Module):
    """Linear, GELU in its tanh form, linear."""

    def __init__(self, dim: int, inner: int) -> None:
        super().__init__()
        up = nn.Sequential(nn.Linear(dim, inner), nn.GELU(approximate="tanh"))
        self.ff = nn.Sequential(up, nn.Identity(), nn.Linear(inner, dim))

    def forward(self, x: Tensor) -> Tensor:
        fed: Tensor = self.ff(x)
        return fed


def normed(x: Tensor) -> Tensor:
    """Layer norm over the channels, without weights."""
    return F.layer_norm(x, x.shape[-1:], eps=NORM_EPS)


class Block(nn.Module):
    """Attention and feed-forward, each shifted, scaled and gated by the time embedding."""

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        self.attn_norm = Modulation(config.dim, 6)
        self.attn = Attention(config)
        self.ff = FeedForward(config.dim, config.ff_mult * config.dim)

    def forward(
        self,
        x: Tensor,
        embedded: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor | None,
        observe: Observer | None = None,
    ) -> Tensor:
        """`x` [B, T, dim], `embedded` [B, dim] -> [B, T, dim]."""
        shift, scale, gate, ff_shift, ff_scale, ff_gate = self.attn_norm(embedded)
        attended = self.attn(normed(x) * (1 + scale) + shift, cos, sin, mask, observe)
        if observe:
            observe("attn", attended)
        x = x + gate * attended
        fed = self.ff(normed(x) * (1 + ff_scale) + ff_shift)
        after: Tensor = x + ff_gate * fed
        return after


class DiT(nn.Module):
    """Velocity of `x` at time `t`, given the tokens' mel `mu`, the prompt mel `cond` and the speaker."""

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        self.config = config
        self.time_embed = TimeEmbedding(config.dim)
        self.input_embed = InputEmbedding(config)
        self.rotary_embed = RotaryEmbedding(config.dim_head)
        self.transformer_blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.norm_out = Modulation(config.dim, 2)
        self.proj_out = nn.Linear(config.dim, config.out_channels)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        mu: Tensor,
        t: Tensor,
        spks: Tensor,
        cond: Tensor,
        streaming: bool = False,
        observe: Observer | None = None,
    ) -> Tensor:
        """Estimate a velocity.

        `x`, `mu`, `cond` [B, 80, T]; `mask` [B, 1, T], non-zero on real frames, or None when all are; `t` [B] in
        [0, 1]; `spks` [B, 80]. With `streaming` a frame sees to the end of its own chunk, else everything. Returns
        [B, 80, T], meaningless on padding. `observe` receives intermediate states by name.
        """
        frames = x.shape[-1]
        angles = self.rotary_embed(frames)
        cos, sin = angles.cos(), angles.sin()
        visible = self._visible(frames, mask, streaming, x.device)
        embedded = self.time_embed(t)
        h = self.input_embed(x.transpose(1, 2), cond.transpose(1, 2), mu.transpose(1, 2), spks, observe)
        if observe:
            observe("rope_freqs", angles)
            observe("time_embed", embedded)
            observe("input_embed", h)
        for number, block in enumerate(self.transformer_blocks):
            inside = _within(observe, f"block{number}.") if observe else None
            h = block(h, embedded, cos, sin, visible, inside)
            if observe:
                observe(f"block{number}", h)
        scale, shift = self.norm_out(embedded)
        h = normed(h) * (1 + scale) + shift
        if observe:
            observe("norm_out", h)
        velocity: Tensor = self.proj_out(h)
        return velocity.transpose(1, 2)

    def _visible(self, frames: int, mask: Tensor | None, streaming: bool, device: torch.device) -> Tensor | None:
        """Bool mask for attention, broadcastable to [B, heads, T, T], or None when every frame sees every other."""
        real = None if mask is None else mask[:, :, None, :].bool()
        if not streaming:
            return real
        chunks = chunk_mask(frames, self.config.static_chunk_size, device)
        return chunks if real is None else chunks & real


def _within(observe: Observer, prefix: str) -> Observer:
    return lambda name, value: observe(prefix + name, value)
