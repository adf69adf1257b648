"""A DSpark draft network: it guesses the next speech ids from what the target model's layers hold, all in one pass.

DSpark is a block drafter (DFlash) with a Markov head. Outputs of a few of the target's layers, side by side, are
brought to the draft's width by `fc`; every layer projects K and V of all rows so far from that, so the context costs
two matrix products. The block is the last id said and mask ids; its rows see the context and each other. The head gives
a row's logits, and `markov_head` adds what the id before makes likely, so that a block is drawn from left to right.

Submodules are named as in the published checkpoints (`Qwen3DSparkModel`). This file is the trainable form, for whole
sequences; `drafter` serves the same weights.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oscine_engine.lm.network import INIT_STD, FeedForward, RMSNorm, SpeechLM, rope_table, rotate


@dataclass(frozen=True, slots=True)
class DraftConfig:
    """Sizes of a draft and of the target that it was made for.

    target_layer_ids: whose outputs it reads, counted from 0, in this order. vocab_size: ids of the target as the draft
    counts them: text ids, if any, before `speech_offset`, then the rows of the speech tables. draft_vocab_size: ids
    that it can propose; the network's `d2t` says which. block_size: rows of a block. bonus_anchor: the last id's row
    only looks back, and each mask row guesses the id in its own place; else each row, the last id's among them, guesses
    the next one's. own_embedding, own_head: false if the target's are shared.
    """

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    draft_vocab_size: int
    target_hidden_size: int
    target_layer_ids: tuple[int, ...]
    mask_token_id: int
    markov_rank: int
    block_size: int
    speech_offset: int = 0
    bonus_anchor: bool = True
    rope_theta: float = 1e6
    rms_norm_eps: float = 1e-6
    attention_bias: bool = False
    logit_scale: float = 1.0
    own_embedding: bool = True
    own_head: bool = True

    @property
    def count(self) -> int:
        """Ids that a block guesses."""
        return self.block_size - self.bonus_anchor


class DraftAttention(nn.Module):
    """Qwen3 attention: heads of q and k are normed before they are turned."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        size, kv_size, bias = self.heads * self.head_dim, self.kv_heads * self.head_dim, config.attention_bias
        self.q_proj = nn.Linear(config.hidden_size, size, bias=bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=bias)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=bias)
        self.o_proj = nn.Linear(size, config.hidden_size, bias=bias)
        self.q_norm = RMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps)

    def keys_values(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """K and V [B, kv_heads, n, head_dim] of x [B, n, hidden]; cos, sin [B or 1, 1, n, head_dim / 2] turn K."""
        keys, values = (
            projection(x).unflatten(-1, (self.kv_heads, self.head_dim)).transpose(1, 2)
            for projection in (self.k_proj, self.v_proj)
        )
        return rotate(self.k_norm(keys), cos, sin), values

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, past: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        """x [B, n, hidden] attends to `past` and then to itself, where mask [B, 1, n, past + n] is true."""
        queries = self.q_proj(x).unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)
        queries = rotate(self.q_norm(queries), cos, sin)
        own = self.keys_values(x, cos, sin)
        keys, values = (
            torch.cat((before, now), dim=2).repeat_interleave(self.heads // self.kv_heads, dim=1)
            for before, now in zip(past, own, strict=True)
        )
        seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        out: Tensor = self.o_proj(seen.transpose(1, 2).flatten(2))
        return out


class DraftLayer(nn.Module):
    """One pre-norm layer of the block."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.self_attn = DraftAttention(config)
        self.mlp = FeedForward(config.hidden_size, config.intermediate_size)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, past: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, past, mask)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class MarkovHead(nn.Module):
    """Logits that the id before adds, of low rank: `markov_w2(markov_w1[id])`."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(config.vocab_size, config.markov_rank)
        self.markov_w2 = nn.Linear(config.markov_rank, config.draft_vocab_size, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.markov_w2(self.markov_w1(ids))
        return out


class DraftNetwork(nn.Module):
    """Outputs of the target's layers and the last id said in, logits of the next `config.count` ids out."""

    d2t: Tensor

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(len(config.target_layer_ids) * config.target_hidden_size, config.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers = nn.ModuleList(DraftLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.markov_head = MarkovHead(config)
        if config.own_embedding:
            self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.own_head:
            self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        if config.draft_vocab_size != config.vocab_size:
            self.register_buffer("d2t", torch.zeros(config.draft_vocab_size, dtype=torch.int64))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal(0, 0.02) matrices and zero biases; the Markov head begins without a say."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=INIT_STD)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        nn.init.zeros_(self.markov_head.markov_w2.weight)

    def targets(self) -> Tensor:
        """The target's id of every draft id, int64 [draft_vocab_size]."""
        own = torch.arange(self.config.draft_vocab_size, device=self.fc.weight.device)
        return own if self.config.draft_vocab_size == self.config.vocab_size else own + self.d2t

    def embedding(self, ids: Tensor, lm: SpeechLM) -> Tensor:
        """Embeddings [..., hidden] of the target's ids [...], the draft's own or those of `lm`."""
        if self.config.own_embedding:
            own: Tensor = self.embed_tokens(ids)
            return own
        row = ids - self.config.speech_offset
        speech = lm.embed_speech(row.clamp(min=0))
        if self.config.speech_offset == 0:
            return speech
        text = lm.embed_text(ids.clamp(max=self.config.speech_offset - 1))
        return torch.where((row >= 0)[..., None], speech, text)

    def head(self, lm: SpeechLM) -> Tensor:
        """The head's matrix [draft_vocab_size, hidden], its own or the speech head of `lm`."""
        if self.config.own_head:
            return self.lm_head.weight
        return F.pad(lm.llm_decoder.weight, (0, 0, self.config.speech_offset, 0))

    def forward(self, features: Tensor, ids: Tensor, positions: Tensor, lm: SpeechLM) -> Tensor:
        """States [B, K, count, hidden] that guess the ids after K anchors of each of B sequences.

        features [B, T, layers * target hidden]: outputs of the target's layers. ids [B, K]: the anchors, as the target
        counts ids. positions [B, K]: theirs; a block sees the rows of `features` before its own anchor.
        """
        config = self.config
        batch, length, blocks = *features.shape[:2], ids.shape[1]
        context = self.hidden_norm(self.fc(features))
        rows = torch.full((batch, blocks, config.block_size), config.mask_token_id, device=ids.device)
        rows[..., 0] = ids
        places = (positions[..., None] + torch.arange(config.block_size, device=ids.device)).flatten(1)
        past_turn, turn = (
            tuple(part[:, None] for part in rope_table(at, config.head_dim, config.rope_theta))
            for at in (torch.arange(length, device=ids.device)[None], places)
        )
        block = torch.arange(blocks, device=ids.device).repeat_interleave(config.block_size)
        before = torch.arange(length, device=ids.device) < positions.repeat_interleave(config.block_size, 1)[..., None]
        mask = torch.cat((before, (block[:, None] == block).expand(batch, -1, -1)), dim=-1)[:, None]
        x = self.embedding(rows, lm).flatten(1, 2)
        for layer in self.layers:
            past = layer.self_attn.keys_values(context, *past_turn)  # type: ignore[union-attr, operator]
            x = layer(x, *turn, past, mask)
        hidden: Tensor = self.norm(x).unflatten(1, (blocks, config.block_size))
        return hidden[:, :, int(config.bonus_anchor) :]

    def logits(self, hidden: Tensor, previous: Tensor, lm: SpeechLM) -> Tensor:
        """Logits [..., draft_vocab_size] of states [..., hidden] whose ids before are `previous` [...]."""
        out: Tensor = F.linear(hidden, self.head(lm)) + self.markov_head(previous)
        return out * self.config.logit_scale
