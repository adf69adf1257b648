"""The DiT over slots: fixed shapes, every stream's state in a row of tables that never move.

One step takes B streams, each wherever it is in its chunk, all with 50 frames: a shorter last chunk is padded, and keys
beyond its end are not looked at. Frames of both guidance rows are packed as [B * 2 * 50, dim] through every linear.
"""

from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from oscine_engine.config import FlowConfig
from oscine_engine.flow.dit import NORM_EPS, Block
from oscine_engine.flow.network import CONV2_CONTEXT, Flow
from oscine_engine.flow.streams import GUIDANCE_ROWS
from oscine_engine.runtime.kernels import flow as kernels


class Batch(NamedTuple):
    """Which streams, and where they are; all [B] on the device.

    slots: int64, their rows of the tables. steps: int64. starts: int32, frames before the chunk. frames: int32, of the
    chunk, 0 for a row that only fills up the batch. pages: int32 [B, most], the chunk's own last.
    """

    slots: Tensor
    steps: Tensor
    starts: Tensor
    frames: Tensor
    pages: Tensor


class Opening(NamedTuple):
    """Chunks to begin; all with a first dimension B.

    slots, sources: int64, where their tails go and where they come from. starts: int64. tokens: int64
    [B, 25 + look-ahead], of which `known` (int64) are there. cond: float32 [B, 50, 80], the prompt's mel. speakers:
    float32 [B, 192], as they came from the encoder.
    """

    slots: Tensor
    sources: Tensor
    starts: Tensor
    tokens: Tensor
    known: Tensor
    cond: Tensor
    speakers: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    qkv: tuple[Tensor, Tensor]
    out: tuple[Tensor, Tensor]
    up: tuple[Tensor, Tensor]
    down: tuple[Tensor, Tensor]


class SlottedDiT:
    """A copy of `flow` in `dtype`, and the state of `slots` streams.

    times [steps] are the Euler steps' times, lengths [steps] their widths. noise: [frames, 80]. Tables, by slot: state
    [S, 50, 80] float32; static [S, 2, 50, dim]; position [S, 2 convolutions, steps, 2 rows, kernel - 1, dim]; lookahead
    [S, channels, 2].
    """

    @torch.no_grad()
    def __init__(
        self,
        flow: Flow,
        times: Tensor,
        lengths: Tensor,
        noise: Tensor,
        slots: int,
        pool: Tensor,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        config = flow.config
        dit, estimator, steps = config.dit, flow.estimator, len(times)
        self.config: FlowConfig = config
        self.dtype, self.device = dtype, device
        self.pool = pool
        self._chunk = dit.static_chunk_size
        self._rate = config.cfm.inference_cfg_rate

        def kept(value: Tensor, kind: torch.dtype = dtype) -> Tensor:
            return value.detach().to(device, kind).contiguous()

        def affine(module: nn.Module, path: str) -> tuple[Tensor, Tensor]:
            return kept(module.get_parameter(f"{path}.weight")), kept(module.get_parameter(f"{path}.bias"))

        blocks = cast(list[Block], list(estimator.transformer_blocks))
        self._layers = [
            _Weights(
                qkv=(
                    kept(torch.cat([block.attn.get_parameter(f"to_{part}.weight") for part in "qkv"])),
                    kept(torch.cat([block.attn.get_parameter(f"to_{part}.bias") for part in "qkv"])),
                ),
                out=affine(block, "attn.to_out.0"),
                up=affine(block, "ff.ff.0.0"),
                down=affine(block, "ff.ff.2"),
            )
            for block in blocks
        ]
        embed = estimator.input_embed
        weight, bias = embed.proj.weight, embed.proj.bias
        self._state_weight = kept(weight[:, : dit.mel_dim])
        self._static_weight, self._static_bias = kept(weight[:, dit.mel_dim :]), kept(bias)
        self._convs = [
            kernels.position_weights(*affine(embed.conv_pos_embed, f"conv{number}.0"), dit.conv_pos_groups)
            for number in (1, 2)
        ]
        embedded = estimator.time_embed(times.to(weight.device))
        modulations = torch.stack([torch.stack(block.attn_norm(embedded))[:, :, 0] for block in blocks])
        modulations[:, (1, 4)] += 1
        # [steps, depth, 6, dim]: one row of it is all that a stream needs in a step.
        self._modulations = kept(modulations.permute(2, 0, 1, 3))
        final = torch.stack(estimator.norm_out(embedded))[:, :, 0]
        final[0] += 1
        self._final_modulation = kept(final.permute(1, 0, 2))
        self._final = affine(estimator, "proj_out")
        # A chunk that begins before the end of the noise is filled up beyond it.
        noise = F.pad(noise, (0, 0, 0, -len(noise) % self._chunk))
        angles = estimator.rotary_embed(len(noise))[:, ::2].float()
        self._cos, self._sin = kept(angles.cos(), torch.float32), kept(angles.sin(), torch.float32)
        self._lengths = kept(lengths, torch.float32)
        self._noise = kept(noise, torch.float32)
        self._token_embedding = kept(flow.input_embedding.weight)
        self._ahead = [affine(flow.pre_lookahead_layer, name) for name in ("conv1", "conv2")]
        self._speaker = affine(flow, "spk_embed_affine_layer")

        def table(*shape: int, kind: torch.dtype = dtype) -> Tensor:
            return torch.zeros(slots, *shape, dtype=kind, device=device)

        self.state = table(self._chunk, dit.mel_dim, kind=torch.float32)
        self.static = table(GUIDANCE_ROWS, self._chunk, dit.dim)
        self.position = table(2, steps, GUIDANCE_ROWS, dit.conv_pos_kernel - 1, dit.dim)
        self.lookahead = table(config.pre_lookahead.channels, CONV2_CONTEXT)
        self._steps_ahead = torch.arange(self._chunk, device=device)
        self._places = torch.arange(self._chunk // config.token_mel_ratio + config.pre_lookahead_len, device=device)

    @torch.no_grad()
    def begin(self, opening: Opening) -> None:
        """Take over the sources' tails and lay ready the chunks: their noise, and what no step changes."""
        ratio, chunk = self.config.token_mel_ratio, self._chunk
        slots = opening.slots
        tails, hidden_before = self.position[opening.sources], self.lookahead[opening.sources]
        self.position[slots] = tails
        embeds = F.embedding(opening.tokens, self._token_embedding)
        embeds = embeds * (self._places < opening.known[:, None])[..., None]
        hidden = F.leaky_relu(F.conv1d(embeds.transpose(1, 2), *self._ahead[0]))
        hidden = torch.cat((hidden_before, hidden), dim=2)
        self.lookahead[slots] = hidden[:, :, -CONV2_CONTEXT:]
        mu = F.conv1d(hidden, *self._ahead[1]).transpose(1, 2) + embeds[:, : chunk // ratio]
        mu = mu.repeat_interleave(ratio, dim=1)
        speaker = F.linear(F.normalize(opening.speakers, dim=1).to(self.dtype), *self._speaker)
        joined = torch.cat((opening.cond.to(self.dtype), mu, speaker[:, None].expand(-1, chunk, -1)), dim=-1)
        conditional = F.linear(joined, self._static_weight, self._static_bias)
        self.static[slots] = torch.stack((conditional, self._static_bias.expand_as(conditional)), dim=1)
        self.state[slots] = self._noise[opening.starts[:, None] + self._steps_ahead]

    @torch.no_grad()
    def step(self, batch: Batch, splits: int, out: Tensor) -> None:
        """One Euler step; the new states go to `out` [B, 50, 80] float32. splits: shares of an attention's keys."""
        slots, steps = batch.slots, batch.steps
        heads, depth = self.config.dit.heads, len(self._layers)
        # By layer: shift, scale and gate of the attention, then of the feed-forward; at last of the output.
        rows = [self._modulations[:, layer].unbind(1) for layer in range(depth)]
        final_scale, final_shift = self._final_modulation.unbind(1)
        x = kernels.embed(self.state, self.static, self._state_weight, slots)
        x = kernels.position(x, self.position, slots, steps, self._convs)
        normed = kernels.norm_modulate(x, rows[0][0], rows[0][1], steps, NORM_EPS)
        for layer, (weights, (_, _, gate, ff_shift, ff_scale, ff_gate)) in enumerate(
            zip(self._layers, rows, strict=True)
        ):
            qkv = kernels.linear(normed, *weights.qkv)
            attended = kernels.attend(qkv, self._cos, self._sin, self.pool, layer, heads, batch, splits)
            weight, bias = weights.out
            parts = kernels.product(attended, weight)
            normed = kernels.gate_norm_modulate(x, parts, bias, gate, ff_shift, ff_scale, steps, NORM_EPS)
            weight, bias = weights.down
            parts = kernels.product(kernels.linear_gelu(normed, *weights.up), weight)
            shift, scale = rows[layer + 1][:2] if layer + 1 < depth else (final_shift, final_scale)
            normed = kernels.gate_norm_modulate(x, parts, bias, ff_gate, shift, scale, steps, NORM_EPS)
        velocity = F.linear(normed, *self._final)
        kernels.advance(self.state, velocity, slots, steps, self._lengths, self._rate, out)
