"""The draft network once more, written down plainly from the published weights' names: one row, one head at a time."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from oscine_engine.lm.draft import DraftConfig


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.pow(2).mean() + eps).sqrt() * weight


def turn(x: Tensor, position: int, theta: float) -> Tensor:
    half = len(x) // 2
    out = x.clone()
    for i in range(half):
        angle = position / theta ** (2 * i / len(x))
        out[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        out[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
    return out


class PlainDraft:
    """state: weights under their published names. embedding [vocab, hidden], head [draft vocab, hidden]."""

    def __init__(self, config: DraftConfig, state: Mapping[str, Tensor], embedding: Tensor, head: Tensor) -> None:
        self.config, self.embedding, self.head = config, embedding.double(), head.double()
        self.state = {name: value.double() for name, value in state.items() if value.is_floating_point()}

    def _heads(self, layer: int, name: str, x: Tensor, position: int) -> list[Tensor]:
        prefix = f"layers.{layer}.self_attn.{name}"
        out = self.state[f"{prefix}_proj.weight"] @ x
        if self.config.attention_bias:
            out = out + self.state[f"{prefix}_proj.bias"]
        heads = list(out.split(self.config.head_dim))
        if name == "v":
            return heads
        normed = [norm(head, self.state[f"{prefix}_norm.weight"], self.config.rms_norm_eps) for head in heads]
        return [turn(head, position, self.config.rope_theta) for head in normed]

    def states(self, features: Tensor, anchor: int) -> Tensor:
        """States [count, hidden] that guess the ids after `anchor`, which follows features [T, layers * hidden]."""
        config, state, eps = self.config, self.state, self.config.rms_norm_eps
        context = [norm(state["fc.weight"] @ row, state["hidden_norm.weight"], eps) for row in features.double()]
        ids = [anchor] + [config.mask_token_id] * (config.block_size - 1)
        rows = [self.embedding[i] for i in ids]
        places = list(range(len(context), len(context) + len(rows)))
        group = config.num_attention_heads // config.num_key_value_heads
        for layer in range(config.num_hidden_layers):
            weight = {
                k.removeprefix(f"layers.{layer}."): v for k, v in state.items() if k.startswith(f"layers.{layer}.")
            }
            normed = [norm(row, weight["input_layernorm.weight"], eps) for row in rows]
            sources = list(zip([*context, *normed], [*range(len(context)), *places], strict=True))
            keys = [self._heads(layer, "k", x, at) for x, at in sources]
            values = [self._heads(layer, "v", x, at) for x, at in sources]
            for index, (x, at) in enumerate(zip(normed, places, strict=True)):
                seen = []
                for head, query in enumerate(self._heads(layer, "q", x, at)):
                    scores = torch.stack([query @ key[head // group] for key in keys]) / math.sqrt(config.head_dim)
                    shares = scores.softmax(0)
                    seen.append(sum(share * value[head // group] for share, value in zip(shares, values, strict=True)))
                out = weight["self_attn.o_proj.weight"] @ torch.cat(seen)
                if config.attention_bias:
                    out = out + weight["self_attn.o_proj.bias"]
                rows[index] = rows[index] + out
            for index, row in enumerate(rows):
                y = norm(row, weight["post_attention_layernorm.weight"], eps)
                gate, up = weight["mlp.gate_proj.weight"] @ y, weight["mlp.up_proj.weight"] @ y
                rows[index] = row + weight["mlp.down_proj.weight"] @ (gate * gate.sigmoid() * up)
        return torch.stack([norm(row, state["norm.weight"], eps) for row in rows[int(config.bonus_anchor) :]])

    def logits(self, hidden: Tensor, previous: int) -> Tensor:
        """Logits [draft vocab] of one state after the id `previous`."""
        rank = self.state["markov_head.markov_w1.weight"][previous]
        return (self.head @ hidden + self.state["markov_head.markov_w2.weight"] @ rank) * self.config.logit_scale
