"""Speech tokens to mel: the weights of flow.pt and their one-shot, trainable use."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from oscine_engine.config import FlowConfig
from oscine_engine.flow.dit import DiT

CONV2_CONTEXT = 2


class PreLookaheadLayer(nn.Module):
    """Two convolutions over token embeddings: the first sees `look_ahead` tokens ahead, the second two behind."""

    def __init__(self, in_channels: int, channels: int, look_ahead: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(in_channels, channels, look_ahead + 1)
        self.conv2 = nn.Conv1d(channels, in_channels, CONV2_CONTEXT + 1)

    def forward(self, embeds: Tensor, ahead: Tensor) -> Tensor:
        """`embeds` [B, T, C], `ahead` [B, look_ahead, C] following them -> [B, T, C]."""
        hidden = F.leaky_relu(self.conv1(torch.cat((embeds, ahead), dim=1).transpose(1, 2)))
        return self.finish(embeds, F.pad(hidden, (CONV2_CONTEXT, 0)))

    def finish(self, embeds: Tensor, hidden: Tensor) -> Tensor:
        """The second convolution: `hidden` [B, channels, 2 + T], of which the first two belong to the past."""
        out: Tensor = self.conv2(hidden).transpose(1, 2)
        return out + embeds


class ConditionalFlow(nn.Module):
    """Holds the estimator under the released name."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.estimator = DiT(config.dit)


class Flow(nn.Module):
    """The flow model. `estimator` is the DiT: estimator(x, mask, mu, t, spks, cond, streaming) -> velocity."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.config = config
        self.input_embedding = nn.Embedding(config.vocab_size, config.input_size)
        self.spk_embed_affine_layer = nn.Linear(config.spk_embed_dim, config.output_size)
        lookahead = config.pre_lookahead
        self.pre_lookahead_layer = PreLookaheadLayer(
            lookahead.in_channels, lookahead.channels, config.pre_lookahead_len
        )
        self.decoder = ConditionalFlow(config)

    @property
    def estimator(self) -> DiT:
        return self.decoder.estimator

    def encode(self, tokens: Tensor, lengths: Tensor | None = None, context: Tensor | None = None) -> Tensor:
        """Mel-rate conditioning of speech tokens.

        `tokens` int [B, T], of which the first `lengths` [B] of each row count (all when None). `context` int
        [B, pre_lookahead_len] are the tokens after them; None means the utterance ends, and zeros follow.
        Returns mu [B, 80, T * token_mel_ratio], meaningless beyond each row's length.
        """
        embeds = self.input_embedding(tokens.clamp(min=0))
        if lengths is not None:
            real = torch.arange(tokens.shape[1], device=tokens.device)[None] < lengths[:, None]
            embeds = embeds * real[..., None]
        if context is None:
            ahead = embeds.new_zeros(embeds.shape[0], self.config.pre_lookahead_len, embeds.shape[2])
        else:
            ahead = self.input_embedding(context.clamp(min=0))
        mu = self.pre_lookahead_layer(embeds, ahead)
        return cast(Tensor, mu).repeat_interleave(self.config.token_mel_ratio, dim=1).transpose(1, 2)

    def speaker(self, embedding: Tensor) -> Tensor:
        """Speaker embedding [B, 192], any length -> [B, 80]."""
        projected: Tensor = self.spk_embed_affine_layer(F.normalize(embedding, dim=1))
        return projected
