"""Streaming flow: registered voices, streams opened on them, and Euler steps over many streams at once.

Frames see all of their own chunk and everything before it, so a chunk can be solved once its tokens and the look-ahead
after them are known, and is final. The last chunk of an utterance is solved under the same rule.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from oscine_engine.config import FlowConfig
from oscine_engine.errors import InvalidInput
from oscine_engine.flow.network import CONV2_CONTEXT, Flow
from oscine_engine.flow.noise import initial_noise
from oscine_engine.flow.packed import PackedDiT
from oscine_engine.flow.schedule import euler_steps, time_span
from oscine_engine.flow.stream import FlowChunk, FlowPrefix, FlowStream, Tails
from oscine_engine.runtime.pages import PagePool

__all__ = ["FlowPrefix", "FlowRunner", "FlowStream", "page_shape"]

GUIDANCE_ROWS = 2


def page_shape(config: FlowConfig, n_timesteps: int) -> tuple[int, ...]:
    """Shape of one page: keys and values of one chunk, for every Euler step, layer and guidance row.

    [steps, depth, 2 (key, value), 2 (conditional, unconditional), chunk frames, heads * dim_head]
    """
    dit = config.dit
    return (n_timesteps, dit.depth, 2, GUIDANCE_ROWS, dit.static_chunk_size, dit.heads * dit.dim_head)


class FlowRunner:
    """Moves streams through `flow` in Euler steps, their keys and values in `pool`.

    `pool` must be made with `page_shape(flow.config, n_timesteps)`. `noise` [1, 80, frames] replaces the fixed noise;
    its length bounds prompt plus speech. Not thread-safe: one thread owns a runner and its streams.
    """

    def __init__(self, flow: Flow, pool: PagePool, n_timesteps: int = 10, noise: Tensor | None = None) -> None:
        config = flow.config
        if tuple(pool.data.shape[1:]) != page_shape(config, n_timesteps):
            raise ValueError(f"pages are {list(pool.data.shape[1:])}, wanted {list(page_shape(config, n_timesteps))}")
        if config.dit.static_chunk_size % config.token_mel_ratio:
            raise ValueError("a chunk must hold a whole number of tokens")
        self.config = config
        self.flow = flow
        self.pool = pool
        self.n_timesteps = n_timesteps
        self.device, self.dtype = flow.input_embedding.weight.device, flow.input_embedding.weight.dtype
        times, lengths = euler_steps(time_span(config.cfm, n_timesteps))
        drawn = noise if noise is not None else initial_noise(config.cfm)
        self._noise = drawn[0].transpose(0, 1).to(self.device, self.dtype).contiguous()
        self._lengths = lengths.to(self.device, self.dtype)
        self._dit = PackedDiT(flow.estimator, times, len(self._noise))
        self._chunk_tokens = config.dit.static_chunk_size // config.token_mel_ratio

    @property
    def max_tokens(self) -> int:
        """Most tokens a stream can hold, prompt included: the fixed noise ends there."""
        return len(self._noise) // self.config.token_mel_ratio

    def register(self, tokens: Tensor, mel: Tensor, embedding: Tensor) -> FlowPrefix:
        """Solve the finished chunks of a voice's prompt, once for all streams, in one go.

        The caller holds the prefix until `release`. Raises what `prompt` and `begin` raise.
        """
        prompt = self.prompt(tokens, mel, embedding)
        try:
            while self.ready(prompt):
                self.begin(prompt)
                for _ in range(self.n_timesteps):
                    self.step([prompt])
        except BaseException:
            self.close(prompt)
            raise
        return self.prefix(prompt)

    @torch.no_grad()
    def prompt(self, tokens: Tensor, mel: Tensor, embedding: Tensor) -> FlowStream:
        """A voice's prompt as a stream to be solved like any other; once it is not `ready` any more, take its `prefix`.

        `tokens` int [P], `mel` [2P, 80] of the same audio, `embedding` [192]. It holds `prompt_pages(P)` pages in the
        end and gives no mel. Raises InvalidInput if they do not fit together.
        """
        ratio, ids = self.config.token_mel_ratio, tokens.flatten().tolist()
        wanted = [ratio * len(ids), self.config.output_size]
        if list(mel.shape) != wanted:
            raise InvalidInput(f"prompt mel is {list(mel.shape)}; {len(ids)} tokens need {wanted}")
        if embedding.numel() != self.config.spk_embed_dim:
            raise InvalidInput(
                f"speaker embedding has {embedding.numel()} values; {self.config.spk_embed_dim} are needed"
            )
        mel = mel.to(self.device, self.dtype)
        speaker = self.flow.speaker(embedding.to(self.device, self.dtype).view(1, -1))[0]
        prompt = FlowStream(mel, speaker, self._no_tails(), pages=[], frames=0, tokens=[])
        self.feed(prompt, ids, last=False)
        return prompt

    def prompt_pages(self, tokens: int) -> int:
        """Chunks of a prompt of so many tokens that are finished: their look-ahead lies in the prompt too."""
        return max(0, tokens - self.config.pre_lookahead_len) // self._chunk_tokens

    def prefix(self, prompt: FlowStream) -> FlowPrefix:
        """The solved `prompt` as a prefix for others, which holds its pages until `release`."""
        if self.ready(prompt) or prompt.chunk is not None or prompt.closed:
            raise ValueError("a prompt becomes a prefix once all its finished chunks are solved")
        return FlowPrefix(
            tuple(prompt.pages), prompt.frames, tuple(prompt.tokens), prompt.prefix_mel, prompt.speaker, prompt.tails
        )

    def release(self, prefix: FlowPrefix) -> None:
        """Give up a prefix; its pages live on while streams opened on it do."""
        self.pool.release(list(prefix.pages))

    def open(self, prefix: FlowPrefix) -> FlowStream:
        """A new utterance in the prefix's voice, sharing its pages."""
        pages = list(prefix.pages)
        self.pool.retain(pages)
        tails = prefix.tails.clone()
        return FlowStream(prefix.mel, prefix.speaker, tails, pages, prefix.frames, list(prefix.tokens))

    def close(self, stream: FlowStream) -> None:
        """Release the stream's pages, at any time and more than once; mel already finished can still be taken."""
        self.pool.release(stream.pages)
        stream.pages, stream.tokens, stream.chunk, stream.closed = [], [], None, True

    def feed(self, stream: FlowStream, tokens: Sequence[int], last: bool) -> None:
        """Append speech tokens; `last` says that no more will come.

        Raises InvalidInput for an id outside the vocabulary, a stream already ended, or one that would grow beyond the
        fixed noise.
        """
        if stream.last or stream.closed:
            raise InvalidInput("the stream has ended and takes no more tokens; open a new one")
        wrong = next((token for token in tokens if not 0 <= token < self.config.vocab_size), None)
        if wrong is not None:
            raise InvalidInput(f"speech token {wrong} is outside 0 to {self.config.vocab_size - 1}")
        if self._known_frames(stream) // self.config.token_mel_ratio + len(tokens) > self.max_tokens:
            raise InvalidInput(
                f"a stream holds at most {self.max_tokens} speech tokens, prompt included; split the text"
            )
        stream.tokens.extend(tokens)
        stream.last = last

    def rewind(self, stream: FlowStream, count: int) -> None:
        """Take back the last `count` tokens fed, of those that no begun chunk holds, and that no more would come.

        A finished chunk has looked at the pre_lookahead_len tokens after it: taking those back leaves it as it is.
        """
        if not 0 <= count <= len(stream.tokens):
            raise ValueError(f"cannot take back {count} tokens: {len(stream.tokens)} are not in a chunk yet")
        del stream.tokens[len(stream.tokens) - count :]
        stream.last = False

    def ready(self, stream: FlowStream) -> bool:
        """Whether the next chunk can begin: no chunk is open, and its tokens and look-ahead are known or the end is."""
        if stream.chunk is not None or stream.closed:
            return False
        if len(stream.tokens) >= self._chunk_tokens + self.config.pre_lookahead_len:
            return True
        return stream.last and bool(stream.tokens) and self._known_frames(stream) > stream.prompt_frames

    def finished(self, stream: FlowStream) -> bool:
        """Whether all mel of the stream has been solved (it may still be waiting in `take_mel`)."""
        return stream.closed or (stream.last and stream.chunk is None and not self.ready(stream))

    @torch.no_grad()
    def begin(self, stream: FlowStream) -> None:
        """Open the next chunk of a `ready` stream. Raises PoolExhausted, changing nothing, if no page is free."""
        if not self.ready(stream):
            raise ValueError("begin on a stream that is not ready")
        stream.pages += self.pool.alloc(1)
        taken, ahead = stream.tokens[: self._chunk_tokens], stream.tokens[self._chunk_tokens :]
        mu = self._condition(stream.tails, taken, ahead[: self.config.pre_lookahead_len])
        start, frames = stream.frames, len(mu)
        prompt = stream.prefix_mel[start : start + frames]
        cond = F.pad(prompt, (0, 0, 0, frames - len(prompt)))
        stream.tokens = ahead
        stream.chunk = FlowChunk(
            frames=frames,
            step=0,
            x=self._noise[start : start + frames].clone(),
            static=self._dit.static_input(cond, mu, stream.speaker),
            rotor=self._dit.rotor(start, frames),
            pages=[self.pool.data[held] for held in stream.pages],
        )

    @torch.no_grad()
    def step(self, streams: Sequence[FlowStream]) -> None:
        """One Euler step for each stream, all with a begun chunk; a chunk's last step makes its mel available.

        If it raises nothing has changed, so that a stream at fault can be found by stepping them one by one.
        """
        opened = [(stream.chunk, stream.tails) for stream in streams if stream.chunk is not None]
        if len(opened) != len(streams) or not opened:
            raise ValueError("step needs streams with a begun chunk")
        rate = self.config.cfm.inference_cfg_rate
        velocities = self._dit.velocities(opened)
        for stream, (chunk, _), (conditional, unconditional) in zip(streams, opened, velocities, strict=True):
            velocity = (1 + rate) * conditional - rate * unconditional
            chunk.x = chunk.x + self._lengths[chunk.step] * velocity
            chunk.step += 1
            if chunk.step == self.n_timesteps:
                stream.out.append(chunk.x[max(0, stream.prompt_frames - stream.frames) :])
                stream.end = chunk.x
                stream.frames += chunk.frames
                stream.chunk = None

    def take_mel(self, stream: FlowStream) -> Tensor:
        """Finished mel not taken before, [n, 80], prompt frames left out; n is 0 when there is none."""
        out, stream.out = stream.out, []
        return torch.cat(out) if out else stream.prefix_mel.new_zeros(0, self.config.output_size)

    def sound(self, stream: FlowStream) -> bool:
        """Whether the numbers of the last finished chunk are: a stream that is not can only be closed."""
        return stream.end is None or bool(stream.end.isfinite().all())

    def _known_frames(self, stream: FlowStream) -> int:
        """Frames of all tokens fed so far, prompt included."""
        begun = stream.chunk.frames if stream.chunk is not None else 0
        return stream.frames + begun + self.config.token_mel_ratio * len(stream.tokens)

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
