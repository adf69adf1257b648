"""The network's weights arranged for serving: fewer, larger matrices; a ragged forward over paged K and V.

Rows of several streams, some with one new position and some with many, are packed as [sum of rows, hidden] through
every linear; only attention looks at a stream at a time. q, k and v are one matrix, gate and up another. Within each
head of q and k the channels are reordered so that the pairs a rotation acts on are neighbours: scores are unchanged,
and rotating is one complex product. K is cached in that order.
"""

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.config import LMConfig
from oscine_engine.lm.attention import Span, attend
from oscine_engine.lm.network import Attention, Layer, SpeechLM


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """Weights of one decoder layer; `qkv` is [(heads + 2 * kv_heads) * head_dim, hidden]."""

    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class PackedLM:
    """Serves a SpeechLM. Weights are copied at construction, in the network's dtype and on its device."""

    def __init__(self, lm: SpeechLM) -> None:
        self.config = lm.config
        decoder = lm.decoder
        self.layers = [_pack(cast(Layer, layer)) for layer in decoder.layers]
        self.norm = decoder.norm.weight.detach()
        self.text_embedding = decoder.embed_tokens.weight.detach()
        self.speech_embedding = lm.speech_embedding.weight.detach()
        self.head_weight = lm.llm_decoder.weight.detach()
        exponent = torch.arange(0, self.config.head_dim, 2, dtype=torch.float32, device=self.device)
        self._inverse_frequency = 1.0 / self.config.rope_theta ** (exponent / self.config.head_dim)

    @property
    def device(self) -> torch.device:
        return self.head_weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.head_weight.dtype

    def embed(self, kinds: Tensor, ids: Tensor) -> Tensor:
        """Embeddings [n, hidden] of ids [n] whose kinds [n] are 0 (text) or 1 (speech and controls)."""
        is_speech = kinds == 1
        speech = F.embedding(torch.where(is_speech, ids, 0), self.speech_embedding)
        text = F.embedding(torch.where(is_speech, 0, ids), self.text_embedding)
        return torch.where(is_speech[:, None], speech, text)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [n, decoder_rows] of final-normed hidden states [n, hidden]."""
        return F.linear(hidden, self.head_weight)

    def forward(self, embeds: Tensor, positions: Tensor, pages: Tensor, spans: list[Span], slots: Tensor) -> Tensor:
        """Final-normed hidden states [n, hidden] of packed rows; their K and V are written to the pages.

        embeds [n, hidden] and positions [n]: all spans' rows in order. pages: the pool's tensor, [pages, layers, 2,
        kv_heads, page_tokens, head_dim]. slots [n, 2]: page and offset of each row.
        """
        config = self.config
        count, hidden = embeds.shape
        rotated = config.num_attention_heads + config.num_key_value_heads
        turns = self._turns(positions)
        page_rows, offset_rows = slots.unbind(-1)
        x = embeds
        for index, layer in enumerate(self.layers):
            y = F.rms_norm(x, (hidden,), layer.attention_norm, config.rms_norm_eps)
            qkv = F.linear(y, layer.qkv, layer.qkv_bias).view(count, -1, config.head_dim)
            _rotate_pairs(qkv[:, :rotated], turns)
            cache = pages[:, index]
            kv = qkv[:, config.num_attention_heads :].view(count, 2, config.num_key_value_heads, config.head_dim)
            cache[page_rows, :, :, offset_rows] = kv.to(cache.dtype)
            attended = attend(qkv[:, : config.num_attention_heads], cache, spans)
            x = x + F.linear(attended.reshape(count, hidden), layer.out)
            y = F.rms_norm(x, (hidden,), layer.mlp_norm, config.rms_norm_eps)
            gate, up = F.linear(y, layer.gate_up).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate).mul_(up), layer.down)
        return F.rms_norm(x, (hidden,), self.norm, config.rms_norm_eps)

    def _turns(self, positions: Tensor) -> Tensor:
        """Unit complex numbers [n, 1, head_dim / 2] that rotate the rows' channel pairs."""
        angles = (positions[:, None].float() * self._inverse_frequency)[:, None]
        return torch.polar(torch.ones_like(angles), angles)


def page_shape(config: LMConfig, page_tokens: int) -> tuple[int, ...]:
    """Shape of a page that holds K and V of `page_tokens` positions of all layers."""
    return (config.num_hidden_layers, 2, config.num_key_value_heads, page_tokens, config.head_dim)


def _pack(layer: Layer) -> PackedLayer:
    return PackedLayer(
        attention_norm=layer.input_layernorm.weight.detach(),
        qkv=_fuse_qkv(layer.self_attn, "weight"),
        qkv_bias=_fuse_qkv(layer.self_attn, "bias"),
        out=layer.self_attn.o_proj.weight.detach(),
        mlp_norm=layer.post_attention_layernorm.weight.detach(),
        gate_up=torch.cat((layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight)).detach(),
        down=layer.mlp.down_proj.weight.detach(),
    )


def _rotate_pairs(heads: Tensor, turns: Tensor) -> None:
    """Rotate channel pairs (0, 1), (2, 3), ... of heads [n, h, head_dim] in place, in float32."""
    pairs = torch.view_as_complex(heads.float().view(*heads.shape[:-1], -1, 2))
    pairs *= turns
    if heads.dtype != torch.float32:
        heads.copy_(torch.view_as_real(pairs).flatten(-2))


def _fuse_qkv(attention: Attention, name: str) -> Tensor:
    """q, k and v weights or biases as one, the channels i and i + head_dim / 2 of each q and k head side by side."""
    parts = []
    for projection, heads in (
        (attention.q_proj, attention.heads),
        (attention.k_proj, attention.kv_heads),
        (attention.v_proj, None),
    ):
        part: Tensor = getattr(projection, name).detach()
        if heads is not None:
            part = part.view(heads, 2, attention.head_dim // 2, *part.shape[1:]).transpose(1, 2).flatten(0, 2)
        parts.append(part)
    return torch.cat(parts)
