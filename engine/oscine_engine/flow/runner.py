"""The flow for a CPU: ragged batches, every stream's state in tensors of its own, nothing computed in vain."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from oscine_engine.flow.network import CONV2_CONTEXT, Flow
from oscine_engine.flow.noise import initial_noise
from oscine_engine.flow.packed import PackedDiT
from oscine_engine.flow.schedule import euler_steps, time_span
from oscine_engine.flow.stream import ChunkWork, FlowChunk, FlowPrefix, FlowStream, Tails
from oscine_engine.flow.streams import GUIDANCE_ROWS, FlowStreams, page_shape
from oscine_engine.runtime.pages import PagePool

__all__ = ["FlowPrefix", "FlowRunner", "FlowStream", "page_shape"]


class FlowRunner(FlowStreams):
    """`noise` [1, 80, frames] replaces the fixed noise; its length bounds prompt plus speech."""

    def __init__(self, flow: Flow, pool: PagePool, n_timesteps: int = 10, noise: Tensor | None = None) -> None:
        config = flow.config
        drawn = noise if noise is not None else initial_noise(config.cfm)
        super().__init__(config, pool, n_timesteps, drawn.shape[-1])
        self.flow = flow
        self.device, self.dtype = flow.input_embedding.weight.device, flow.input_embedding.weight.dtype
        times, lengths = euler_steps(time_span(config.cfm, n_timesteps))
        self._noise = drawn[0].transpose(0, 1).to(self.device, self.dtype).contiguous()
        self._lengths = lengths.to(self.device, self.dtype)
        self._dit = PackedDiT(flow.estimator, times, len(self._noise))

    @torch.no_grad()
    def prompt(self, tokens: Tensor, mel: Tensor, embedding: Tensor) -> FlowStream:
        ids = self._checked(tokens, mel, embedding)
        mel = mel.to(self.device, self.dtype)
        speaker = self.flow.speaker(embedding.to(self.device, self.dtype).view(1, -1))[0]
        prompt = FlowStream(mel, speaker, pages=[], frames=0, tokens=[], tails=self._no_tails())
        self.feed(prompt, ids, last=False)
        return prompt

    def prefix(self, prompt: FlowStream) -> FlowPrefix:
        self._check_solved(prompt)
        return FlowPrefix(
            tuple(prompt.pages), prompt.frames, tuple(prompt.tokens), prompt.prefix_mel, prompt.speaker, prompt.tails
        )

    def release(self, prefix: FlowPrefix) -> None:
        self.pool.release(list(prefix.pages))

    def open(self, prefix: FlowPrefix) -> FlowStream:
        pages = list(prefix.pages)
        self.pool.retain(pages)
        assert prefix.tails is not None
        return FlowStream(
            prefix.mel, prefix.speaker, pages, prefix.frames, list(prefix.tokens), tails=prefix.tails.clone()
        )

    def close(self, stream: FlowStream) -> None:
        self.pool.release(stream.pages)
        stream.pages, stream.tokens, stream.chunk, stream.closed = [], [], None, True

    @torch.no_grad()
    def begin(self, stream: FlowStream) -> None:
        if not self.ready(stream):
            raise ValueError("begin on a stream that is not ready")
        stream.pages += self.pool.alloc(1)
        taken, ahead = stream.tokens[: self._chunk_tokens], stream.tokens[self._chunk_tokens :]
        assert stream.tails is not None
        mu = self._condition(stream.tails, taken, ahead[: self.config.pre_lookahead_len])
        start, frames = stream.frames, len(mu)
        prompt = stream.prefix_mel[start : start + frames]
        cond = F.pad(prompt, (0, 0, 0, frames - len(prompt)))
        stream.tokens = ahead
        work = ChunkWork(
            x=self._noise[start : start + frames].clone(),
            static=self._dit.static_input(cond, mu, stream.speaker),
            rotor=self._dit.rotor(start, frames),
            pages=[self.pool.data[held] for held in stream.pages],
        )
        stream.chunk = FlowChunk(frames, step=0, work=work)

    @torch.no_grad()
    def step(self, streams: Sequence[FlowStream]) -> None:
        opened = [
            (chunk, chunk.work, stream.tails)
            for stream in streams
            if (chunk := stream.chunk) is not None and chunk.work is not None and stream.tails is not None
        ]
        if len(opened) != len(streams) or not opened:
            raise ValueError("step needs streams with a begun chunk")
        rate = self.config.cfm.inference_cfg_rate
        velocities = self._dit.velocities(opened)
        for stream, (chunk, work, _), (conditional, unconditional) in zip(streams, opened, velocities, strict=True):
            velocity = (1 + rate) * conditional - rate * unconditional
            work.x = work.x + self._lengths[chunk.step] * velocity
            chunk.step += 1
            if chunk.step == self.n_timesteps:
                stream.out.append(work.x[max(0, stream.prompt_frames - stream.frames) :])
                stream.end = work.x
                stream.frames += chunk.frames
                stream.chunk = None

    def settle(self) -> None:
        """Every step is waited for."""

    def _no_tails(self) -> Tails:
        """Convolution tails before the first frame."""
        dit, channels = self.config.dit, self.config.pre_lookahead.channels
        position = (2, self.n_timesteps, GUIDANCE_ROWS, dit.dim, dit.conv_pos_kernel - 1)
        return Tails(
            torch.zeros(channels, CONV2_CONTEXT, dtype=self.dtype, device=self.device),
            torch.zeros(position, dtype=self.dtype, device=self.device),
        )

    def _condition(self, tails: Tails, tokens: list[int], ahead: list[int]) -> Tensor:
        """Mel-rate conditioning [n, 80] of a chunk's tokens; a short `ahead` is filled up with zero vectors."""
        layer = self.flow.pre_lookahead_layer
        embeds = self.flow.input_embedding(torch.tensor(tokens + ahead, device=self.device))
        missing = self.config.pre_lookahead_len - len(ahead)
        padded = F.pad(embeds, (0, 0, 0, missing)).transpose(0, 1)[None]
        hidden = torch.cat((tails.lookahead[None], F.leaky_relu(layer.conv1(padded))), dim=2)
        tails.lookahead = hidden[0, :, -CONV2_CONTEXT:].clone()
        mu: Tensor = layer.finish(embeds[None, : len(tokens)], hidden)[0]
        return mu.repeat_interleave(self.config.token_mel_ratio, dim=0)
