"""The speech-token language model: a Qwen2 decoder with a speech embedding and a speech head.

Submodules are named so that `state_dict()` has exactly the keys of a released `llm.pt`. The architecture is Qwen2
(arXiv:2407.10671): pre-norm RMSNorm, grouped-query attention with biases on q, k and v, rotary positions over the two
halves of a head, SwiGLU. This file is the trainable, whole-sequence form; `runner` serves the same weights.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oscine_engine.config import LMConfig

INIT_STD = 0.02


class RMSNorm(nn.Module):
    """Root-mean-square norm, computed in float32 whatever the input's dtype."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        normed: Tensor = self.weight * wide.to(x.dtype)
        return normed


def rope_table(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines [..., head_dim // 2], float32, of rotary angles at integer `positions` [...]."""
    exponent = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device) / head_dim
    angles = positions.float()[..., None] * (1.0 / theta**exponent)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary positions to `x` [..., head_dim]; channel i is paired with channel i + head_dim / 2."""
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).to(x.dtype)


class Attention(nn.Module):
    """Causal grouped-query self-attention."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.head_dim = config.head_dim
        kv_size = self.kv_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.k_proj = nn.Linear(config.hidden_size, kv_size)
        self.v_proj = nn.Linear(config.hidden_size, kv_size)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        group = self.heads // self.kv_heads
        k = rotate(k, cos, sin).repeat_interleave(group, dim=1)
        v = v.repeat_interleave(group, dim=1)
        out = F.scaled_dot_product_attention(rotate(q, cos, sin), k, v, is_causal=True)
        projected: Tensor = self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))
        return projected


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One pre-norm decoder layer; `dropout` (training only) acts on both residual branches."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config.hidden_size, config.intermediate_size)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, dropout: float) -> Tensor:
        x = x + F.dropout(self.self_attn(self.input_layernorm(x), cos, sin), dropout, self.training)
        return x + F.dropout(self.mlp(self.post_attention_layernorm(x)), dropout, self.training)


class Decoder(nn.Module):
    """Text embedding, layers and final norm."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class TextModel(nn.Module):
    """The decoder with Qwen2's text head, which shares the text embedding's matrix and is never used for speech."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.tie()
        self.register_load_state_dict_post_hook(lambda module, _: module.tie())  # type: ignore[no-untyped-call]

    def tie(self) -> None:
        self.lm_head.weight = self.model.embed_tokens.weight


class Backbone(nn.Module):
    """Only a level of the released key names."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.model = TextModel(config)


class SpeechLM(nn.Module):
    """Text and speech ids in, speech-token logits out.

    Speech ids are 0 .. speech_token_size - 1; sos, eos, task_id and fill follow, as rows of the same embedding
    and head.
    `dropout` is used in training mode only and is not part of the configuration.
    """

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = 0.0
        self.llm = Backbone(config)
        self.llm_decoder = nn.Linear(config.hidden_size, config.decoder_rows, bias=False)
        self.speech_embedding = nn.Embedding(config.decoder_rows, config.hidden_size)
        self.reset_parameters()

    @property
    def decoder(self) -> Decoder:
        return self.llm.model.model

    def reset_parameters(self) -> None:
        """Normal(0, 0.02) weights, outputs of residual branches smaller by sqrt(2 * layers), zero biases."""
        branch_std = INIT_STD / math.sqrt(2 * self.config.num_hidden_layers)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                is_branch_output = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=branch_std if is_branch_output else INIT_STD)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def embed_text(self, ids: Tensor) -> Tensor:
        """Embeddings [..., hidden] of text ids [...], each in 0 .. vocab_size - 1."""
        embeds: Tensor = self.decoder.embed_tokens(ids)
        return embeds

    def embed_speech(self, ids: Tensor) -> Tensor:
        """Embeddings [..., hidden] of speech ids or sos, eos, task_id, fill [...]."""
        embeds: Tensor = self.speech_embedding(ids)
        return embeds

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [..., decoder_rows] of final-normed hidden states [..., hidden]."""
        logits: Tensor = self.llm_decoder(hidden)
        return logits

    def forward(self, embeds: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Final-normed hidden states [B, T, hidden] of `embeds` [B, T, hidden], positions counting from 0.

        Rows may be padded on the right: causal attention keeps padding out of what precedes it, so `lengths` [B] only
        zeroes the states of the padding.
        """
        length = embeds.shape[1]
        positions = torch.arange(length, device=embeds.device)
        cos, sin = rope_table(positions, self.config.head_dim, self.config.rope_theta)
        x = embeds
        for layer in self.decoder.layers:
            x = layer(x, cos, sin, self.dropout)
        hidden: Tensor = self.decoder.norm(x)
        if lengths is not None:
            hidden = hidden * (positions < lengths[:, None])[..., None]
        return hidden
