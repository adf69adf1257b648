"""Serves a draft network over paged K and V, in steps of fixed shape that a CUDA graph can hold.

Weights are brought into the engine's own numbering: the head, the Markov head and the embedding have a row for each
speech id, and a speech id that the draft cannot propose has a logit of minus infinity. Control and text ids of the
draft's vocabulary are left out, since no draft of them could be of use.

Ids are drawn from the draft's logits by the target's rule (`sampling`), under the very noise that the target will draw
with at that place: two rows that agree choose the same id, and the better they agree the more often they do.
"""

from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from oscine_engine.config import SamplingConfig
from oscine_engine.errors import CheckpointError
from oscine_engine.lm.draft import DraftLayer, DraftNetwork
from oscine_engine.lm.network import SpeechLM
from oscine_engine.runtime.kernels import draft as own_kernels
from oscine_engine.runtime.kernels import lm as kernels
from oscine_engine.runtime.pages import PagePool

_ALIGNMENT = 64
"""Rows of a head come in multiples of this, which matrix products are fastest with."""
_PROGRAMS = 64
_MOST_SPLITS = 8


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights of a layer; channels i and i + head_dim / 2 of the heads of q and k lie side by side."""

    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    query_norm: Tensor
    out: Tensor
    out_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class _Block(NamedTuple):
    """What the blocks of B streams always are: their first rows, how many each has, whose they are."""

    first: Tensor
    held: Tensor
    sequence: Tensor


class PackedDraft:
    """Implements `speculation.Drafter` for the target `lm`, whose K and V are in `pool`.

    Its own K and V are in pages of the same numbers. Weights have the network's type; it is brought to the pool's
    device. sampling, temperature: the target's. max_streams: most streams of a step. max_positions: as many as a stream
    may have. truncate: draw from the nucleus, as the target does; else from all ids, for a draft whose logits are those
    of what the target's nucleus leaves. Raises CheckpointError if the network was made for another target.
    """

    def __init__(
        self,
        network: DraftNetwork,
        lm: SpeechLM,
        pool: PagePool,
        sampling: SamplingConfig,
        *,
        temperature: float = 1.0,
        max_streams: int = 8,
        max_positions: int = 2048,
        truncate: bool = True,
    ) -> None:
        config, device = network.config, pool.data.device
        check_target(network, lm)
        self.config = config
        self.count = config.count
        self.layers = config.target_layer_ids
        self._sampling, self._temperature = sampling, temperature
        self._max_streams, self._truncate = max_streams, truncate
        page_tokens = int(pool.data.shape[-2])
        self._spare = own_kernels.Spare(pool.num_pages, -(-config.block_size // page_tokens), page_tokens)
        network = network.to(device).eval()
        self._dtype = network.fc.weight.dtype
        layers = [cast(DraftLayer, layer) for layer in network.layers]
        self._layers = [_pack(layer) for layer in layers]
        self._fc, self._hidden_norm = network.fc.weight.detach(), network.hidden_norm.weight.detach()
        self._norm = network.norm.weight.detach()
        queries = config.num_attention_heads * config.head_dim
        self._context = torch.cat([layer.qkv[queries:] for layer in self._layers])
        biases = [layer.qkv_bias[queries:] for layer in self._layers if layer.qkv_bias is not None]
        self._context_bias = torch.cat(biases) if biases else None
        self._key_norms = torch.stack([_paired(layer.self_attn.k_norm.weight.detach()) for layer in layers])
        self._pack_vocabulary(network, lm)
        self.pages = torch.zeros(
            pool.num_pages + self._spare.each * max_streams,
            len(layers),
            2,
            config.num_key_value_heads,
            page_tokens,
            config.head_dim,
            dtype=self._dtype,
            device=device,
        )
        exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        places = torch.arange(max_positions + config.block_size, dtype=torch.float32)
        angles = places[:, None] * config.rope_theta**-exponent
        self._cos, self._sin = angles.cos().to(device), angles.sin().to(device)
        self._blocks: dict[int, _Block] = {}

    @torch.no_grad()
    def _pack_vocabulary(self, network: DraftNetwork, lm: SpeechLM) -> None:
        """Rows by speech id, and two more for the controls that the sampler knows."""
        config, device = network.config, self._fc.device
        offset, speech_ids = config.speech_offset, lm.config.speech_token_size
        lm_device = lm.llm_decoder.weight.device
        ids = network.targets() - offset
        known = (ids >= 0) & (ids < speech_ids)
        ids = ids[known]
        width = -(-(speech_ids + 2) // _ALIGNMENT) * _ALIGNMENT
        head = network.head(lm).to(device, self._dtype)[known] * config.logit_scale
        self._head = head.new_zeros(width, config.hidden_size).index_copy_(0, ids, head)
        bias = network.markov_head.markov_w2.weight[known] * config.logit_scale
        self._bias = bias.new_zeros(width, config.markov_rank).index_copy_(0, ids, bias)
        self._barred = torch.full((width,), -torch.inf, device=device).index_fill_(0, ids, 0.0)
        self._before = network.markov_head.markov_w1.weight[offset : offset + speech_ids].detach().clone()
        self._mask_row = speech_ids
        rows = torch.arange(offset, offset + speech_ids + 1, device=device if config.own_embedding else lm_device)
        rows[-1] = config.mask_token_id
        self._embedding = network.embedding(rows, lm).to(device, self._dtype).clone()

    @torch.inference_mode()
    def remember(self, features: Tensor, positions: Tensor, slots: Tensor) -> None:
        """Write the context K and V of T rows of the target.

        features [T, layers * hidden]: outputs of `layers`, side by side. positions int64 [T]. slots int64 [T]: page *
        page_tokens + offset, as in the target's pages; below 0 for a row that is not kept.
        """
        config = self.config
        fused = F.linear(features.to(self._dtype), self._fc)
        context = kernels.add_norm(fused.float(), None, self._hidden_norm, config.rms_norm_eps)
        kv = F.linear(context, self._context, self._context_bias)
        kv = kv.view(len(kv), len(self._layers), 2, config.num_key_value_heads, config.head_dim)
        own_kernels.keep(kv, self._key_norms, positions, slots, self._cos, self._sin, self.pages, config.rms_norm_eps)

    @torch.inference_mode()
    def propose(
        self,
        anchors: Tensor,
        positions: Tensor,
        seeds: Tensor,
        said: Tensor,
        history: Tensor,
        tables: Tensor,
        lengths: Tensor,
        count: int | None = None,
    ) -> Tensor:
        """Guesses of what B streams say next, speech ids int64 [B, count]: the first ones of the network's, or all.

        anchors int64 [B]: the ids said last. positions int64 [B]: theirs. seeds int64 [B]. said int64 [B]: ids said,
        the anchor included. history int64 [B, window]: the last of them, NO_ID where there are fewer. tables int32
        [B, most pages]: pages of the rows before the anchor, whatever comes behind. lengths int32 [B]: those rows.
        """
        block, config = self._block(len(anchors)), self.config
        streams, rows = len(anchors), config.block_size
        ids, places, slots, tables = own_kernels.lay_out(
            anchors, positions, tables, lengths, self._mask_row, rows, self._spare
        )
        tiles = kernels.Tiles(
            block.first,
            block.held,
            lengths,
            block.sequence,
            tables,
            most=rows,
            splits=max(1, min(_MOST_SPLITS, _PROGRAMS // (config.num_key_value_heads * streams))),
            causal=False,
        )
        hidden = self._hidden(F.embedding(ids, self._embedding), places, slots, tiles)
        first = int(config.bonus_anchor)
        hidden = hidden.view(streams, rows, -1)[:, first : first + (count or self.count)]
        return self._draw(hidden, anchors, seeds, said, history)

    def _hidden(self, embeds: Tensor, positions: Tensor, slots: Tensor, tiles: kernels.Tiles) -> Tensor:
        """Final-normed states [R, hidden] of all blocks' rows."""
        config, heads, eps = self.config, self.config.num_attention_heads, self.config.rms_norm_eps
        queries = heads * config.head_dim
        x, update = embeds.float(), None
        for index, layer in enumerate(self._layers):
            qkv = F.linear(kernels.add_norm(x, update, layer.attention_norm, eps), layer.qkv, layer.qkv_bias)
            kv = qkv[:, queries:].view(len(qkv), 1, 2, config.num_key_value_heads, config.head_dim)
            weights, pages = self._key_norms[index : index + 1], self.pages[:, index : index + 1]
            own_kernels.keep(kv, weights, positions, slots, self._cos, self._sin, pages, eps)
            own_kernels.norm_queries(qkv, layer.query_norm, heads, eps)
            seen = kernels.attend(qkv, positions, self._cos, self._sin, self.pages[:, index], heads, tiles)
            out = F.linear(seen, layer.out, layer.out_bias)
            wide = F.linear(kernels.add_norm(x, out, layer.mlp_norm, eps), layer.gate_up)
            update = F.linear(kernels.silu_times(wide), layer.down)
        return kernels.add_norm(x, update, self._norm, eps)

    def _draw(self, hidden: Tensor, anchors: Tensor, seeds: Tensor, said: Tensor, history: Tensor) -> Tensor:
        """Ids from left to right, each with what the one before makes likely."""
        base, count = F.linear(hidden, self._head), hidden.shape[1]
        window, sampling = history.shape[1], self._sampling
        limit = sampling.win_size * sampling.tau_r
        rule = own_kernels.Rule(
            len(self._before), window, limit, self._temperature, sampling if self._truncate else None
        )
        past = history.new_empty(len(history), window + count)
        past[:, :window] = history
        previous = anchors
        for step in range(count):
            more = F.linear(F.embedding(previous, self._before), self._bias)
            previous = own_kernels.choose(base[:, step], more, self._barred, seeds, said, past, step, rule)
        return past[:, window:].contiguous()

    def _block(self, streams: int) -> _Block:
        """Made once for each number of streams, which a capture's first calls see to."""
        if streams not in self._blocks:
            if streams > self._max_streams:
                raise ValueError(f"{streams} streams are more than the {self._max_streams} that were asked for")
            rows = self.config.block_size
            numbers = torch.arange(streams, dtype=torch.int32, device=self.pages.device)
            self._blocks[streams] = _Block(
                first=numbers * rows,
                held=torch.full_like(numbers, rows),
                sequence=numbers,
            )
        return self._blocks[streams]


def check_target(network: DraftNetwork, lm: SpeechLM) -> None:
    """Raise CheckpointError if the draft cannot have been made for `lm`."""
    draft, target = network.config, lm.config
    last = draft.speech_offset + target.speech_token_size
    faults = [
        draft.target_hidden_size != target.hidden_size
        and f"it reads states of {draft.target_hidden_size} channels, the target's have {target.hidden_size}",
        not all(0 <= layer < target.num_hidden_layers for layer in draft.target_layer_ids)
        and f"it reads layers {list(draft.target_layer_ids)} of a target that has {target.num_hidden_layers}",
        last > draft.vocab_size
        and f"with speech_offset {draft.speech_offset} its vocabulary of {draft.vocab_size} ends before the target's "
        f"{target.speech_token_size} speech ids do",
        not draft.own_embedding
        and draft.hidden_size != target.hidden_size
        and f"it shares the target's embedding but has {draft.hidden_size} channels instead of {target.hidden_size}",
        not draft.own_embedding
        and draft.speech_offset > target.vocab_size
        and f"it shares the target's embedding, which has {target.vocab_size} text ids and not {draft.speech_offset}",
        not draft.own_embedding
        and draft.mask_token_id >= draft.speech_offset + target.decoder_rows
        and f"its mask id {draft.mask_token_id} is no row of the target's embedding, which it shares",
        not draft.own_head
        and (draft.hidden_size, draft.vocab_size) != (target.hidden_size, draft.speech_offset + target.decoder_rows)
        and "it shares the target's head, which is of another size",
    ]
    found = [fault for fault in faults if fault]
    if not found:
        ids = network.targets() - draft.speech_offset
        if not bool(((ids >= 0) & (ids < target.speech_token_size)).any()):
            found = ["none of the ids it can propose is a speech id"]
    if found:
        raise CheckpointError(f"the draft does not fit the language model: {'; '.join(found)}")


def _pack(layer: DraftLayer) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    sides = [attention.q_proj, attention.k_proj, attention.v_proj]
    heads = [attention.heads, attention.kv_heads, None]
    biases = [side.bias for side in sides]
    return _Layer(
        attention_norm=layer.input_layernorm.weight.detach(),
        qkv=torch.cat([_paired(side.weight.detach(), of) for side, of in zip(sides, heads, strict=True)]),
        qkv_bias=None
        if biases[0] is None
        else torch.cat([_paired(bias.detach(), of) for bias, of in zip(biases, heads, strict=True)]),
        query_norm=_paired(attention.q_norm.weight.detach()),
        out=attention.o_proj.weight.detach(),
        out_bias=None if attention.o_proj.bias is None else attention.o_proj.bias.detach(),
        mlp_norm=layer.post_attention_layernorm.weight.detach(),
        gate_up=torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight)).detach(),
        down=mlp.down_proj.weight.detach(),
    )


def _paired(rows: Tensor, heads: int | None = 1) -> Tensor:
    """Rows of `heads` heads with i and i + head_dim / 2 of each side by side; as they are for None (the values)."""
    if heads is None:
        return rows
    return rows.view(heads, 2, -1, *rows.shape[1:]).transpose(1, 2).flatten(0, 2).contiguous()
