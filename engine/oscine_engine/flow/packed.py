"""The DiT over packed rows: chunks of several streams, at any Euler step and of any length, in one pass.

Everything that depends on the time step alone is computed once. Linear layers see all rows at once; attention runs per
stream, over its own pages. A chunk's keys and values are written to its page before they are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from oscine_engine.flow.dit import Block, DiT, normed
from oscine_engine.flow.stream import ChunkWork, FlowChunk, Tails


@dataclass(frozen=True, slots=True, eq=False)
class _BlockWeights:
    qkv: tuple[Tensor, Tensor]
    out: tuple[Tensor, Tensor]
    up: tuple[Tensor, Tensor]
    down: tuple[Tensor, Tensor]


def _affine(module: nn.Module, path: str) -> tuple[Tensor, Tensor]:
    return module.get_parameter(f"{path}.weight").detach(), module.get_parameter(f"{path}.bias").detach()


def _block_weights(block: Block) -> _BlockWeights:
    weights, biases = zip(*(_affine(block, f"attn.to_{part}") for part in "qkv"), strict=True)
    return _BlockWeights(
        qkv=(torch.cat(weights), torch.cat(biases)),
        out=_affine(block, "attn.to_out.0"),
        up=_affine(block, "ff.ff.0.0"),
        down=_affine(block, "ff.ff.2"),
    )


class PackedDiT:
    """A read-only copy of `estimator` for the Euler times `times` [steps] and up to `max_frames` positions.

    Weights are shared where they can be and fused where that is faster; later changes of `estimator` have no effect.
    """

    @torch.no_grad()
    def __init__(self, estimator: DiT, times: Tensor, max_frames: int) -> None:
        config = estimator.config
        self.config = config
        blocks = cast(list[Block], list(estimator.transformer_blocks))
        self._blocks = [_block_weights(block) for block in blocks]
        self._final = _affine(estimator, "proj_out")
        self._conv1 = estimator.input_embed.conv_pos_embed.conv1
        self._conv2 = estimator.input_embed.conv_pos_embed.conv2
        weight, self._input_bias = _affine(estimator.input_embed, "proj")
        self._state_weight = weight[:, : config.mel_dim].contiguous()
        self._static_weight = weight[:, config.mel_dim :].contiguous()
        embedded = estimator.time_embed(times.to(weight.device))
        # [depth, 6, steps, dim] and [2, steps, dim]; scales have their 1 added
        self._modulations = torch.stack([torch.stack(block.attn_norm(embedded))[:, :, 0] for block in blocks])
        self._modulations[:, (1, 4)] += 1
        self._final_modulation = torch.stack(estimator.norm_out(embedded))[:, :, 0]
        self._final_modulation[0] += 1
        angles = estimator.rotary_embed(max_frames)[:, ::2]
        self._rotors = torch.polar(torch.ones_like(angles), angles)

    def rotor(self, start: int, frames: int) -> Tensor:
        """Complex [2 * frames, 1, dim_head / 2]: the turn of head 0 at positions from `start`, for both rows."""
        return self._rotors[start : start + frames].repeat(2, 1)[:, None]

    def static_input(self, cond: Tensor, mu: Tensor, speaker: Tensor) -> Tensor:
        """`cond`, `mu` [n, 80], `speaker` [80] -> [2, n, dim]; the unconditional row sees zeros for all three."""
        joined = torch.cat((cond, mu, speaker.expand(len(mu), -1)), dim=-1)
        conditional = F.linear(joined, self._static_weight, self._input_bias)
        return torch.stack((conditional, self._input_bias.expand_as(conditional)))

    def velocities(self, chunks: Sequence[tuple[FlowChunk, ChunkWork, Tails]]) -> list[Tensor]:
        """One estimate for each chunk at its own step: [2, n, 80] each, conditional row first.

        Writes the chunks' keys and values to their pages and, once all is computed, moves their position tails on: a
        pass that raises can be taken again.
        """
        opened = [chunk for chunk, _, _ in chunks]
        works = [work for _, work, _ in chunks]
        sizes = [2 * chunk.frames for chunk in opened]
        embedded, moved = zip(*(self._embed(*chunk) for chunk in chunks), strict=True)
        rows = torch.cat(embedded) if len(embedded) > 1 else embedded[0]
        rotor = torch.cat([work.rotor for work in works]) if len(works) > 1 else works[0].rotor
        steps = torch.tensor([chunk.step for chunk in opened], device=rows.device)
        if len(set(sizes)) == 1:
            # equal lengths: one modulation a stream, broadcast over its rows
            h = rows.view(len(sizes), sizes[0], -1)
            modulations = self._modulations.index_select(2, steps)[:, :, :, None]
            final = self._final_modulation.index_select(1, steps)[:, :, None]
        else:
            by_row = steps.repeat_interleave(torch.tensor(sizes, device=rows.device))
            h = rows
            modulations = self._modulations.index_select(2, by_row)
            final = self._final_modulation.index_select(1, by_row)
        for layer, (weights, modulation) in enumerate(zip(self._blocks, modulations, strict=True)):
            shift, scale, gate, ff_shift, ff_scale, ff_gate = modulation
            qkv = F.linear(torch.addcmul(shift, normed(h), scale), *weights.qkv).view(len(rows), 3, -1)
            self._rotate(qkv, rotor)
            parts = zip(torch.split(qkv, sizes), opened, works, strict=True)
            seen = [_attend(part, chunk, work, layer, self.config.heads) for part, chunk, work in parts]
            joined = torch.cat(seen) if len(seen) > 1 else seen[0]
            h = torch.addcmul(h, gate, F.linear(joined, *weights.out).view_as(h))
            wide = F.gelu(F.linear(torch.addcmul(ff_shift, normed(h), ff_scale), *weights.up), approximate="tanh")
            h = torch.addcmul(h, ff_gate, F.linear(wide, *weights.down))
        scale, shift = final
        out = F.linear(torch.addcmul(shift, normed(h), scale), *self._final).view(len(rows), -1)
        for (chunk, _, tails), after in zip(chunks, moved, strict=True):
            for kept, tail in zip(tails.position[:, chunk.step], after, strict=True):
                kept.copy_(tail)
        return [part.view(2, len(part) // 2, -1) for part in torch.split(out, sizes)]

    def _embed(self, chunk: FlowChunk, work: ChunkWork, tails: Tails) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Input rows [2n, dim] of the chunk at its step, position convolutions added, and the tails after it."""
        h = (work.static + F.linear(work.x, self._state_weight)).transpose(1, 2)
        first, second = tails.position[:, chunk.step]
        before = torch.cat((first, h), dim=2)
        middle = torch.cat((second, self._conv1(before)), dim=2)
        convolved: Tensor = self._conv2(middle)
        after = before[:, :, chunk.frames :], middle[:, :, chunk.frames :]
        return (h + convolved).transpose(1, 2).flatten(0, 1), after

    def _rotate(self, qkv: Tensor, rotor: Tensor) -> None:
        """Turn head 0 of queries and keys in place; `qkv` [rows, 3, heads * dim_head]."""
        width = self.config.dim_head
        pairs = qkv[:, :2, :width].view(len(qkv), 2, width // 2, 2)
        torch.view_as_complex(pairs).mul_(rotor)


def _attend(qkv: Tensor, chunk: FlowChunk, work: ChunkWork, layer: int, heads: int) -> Tensor:
    """Attention of one stream's rows [2n, 3, inner] over its pages and itself -> [2n, inner]."""
    query, key, value = qkv.view(2, chunk.frames, 3, -1).unbind(2)
    own = work.pages[-1][chunk.step, layer, :, :, : chunk.frames]
    own[0].copy_(key)
    own[1].copy_(value)
    before = [page[chunk.step, layer] for page in work.pages[:-1]]
    keys, values = (torch.cat((*before, own), dim=2) if before else own).to(query.dtype)
    query, keys, values = (part.view(*part.shape[:2], heads, -1).transpose(1, 2) for part in (query, keys, values))
    return F.scaled_dot_product_attention(query, keys, values).transpose(1, 2).reshape(len(qkv), -1)
