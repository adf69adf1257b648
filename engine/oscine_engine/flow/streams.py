"""What every flow runner shares: streams as plain data, and the rules by which their tokens become chunks.

Frames see all of their own chunk and everything before it, so a chunk can be solved once its tokens and the look-ahead
after them are known, and is final. The last chunk of an utterance is solved under the same rule.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from oscine_engine.config import FlowConfig
from oscine_engine.errors import InvalidInput
from oscine_engine.flow.stream import FlowPrefix, FlowStream
from oscine_engine.runtime.pages import PagePool

GUIDANCE_ROWS = 2


def page_shape(config: FlowConfig, n_timesteps: int) -> tuple[int, ...]:
    """Shape of one page: keys and values of one chunk, for every Euler step, layer and guidance row.

    [steps, depth, 2 (key, value), 2 (conditional, unconditional), chunk frames, heads * dim_head]
    """
    dit = config.dit
    return (n_timesteps, dit.depth, 2, GUIDANCE_ROWS, dit.static_chunk_size, dit.heads * dit.dim_head)


class FlowStreams(ABC):
    """Moves streams from tokens to mel in Euler steps, their keys and values in `pool`. One thread owns it."""

    pending = False
    """Whether the device may still be at the last step; never after one that ended a chunk."""

    def __init__(self, config: FlowConfig, pool: PagePool, n_timesteps: int, max_frames: int) -> None:
        """max_frames: prompt and speech of one stream together. `pool` must be made with `page_shape`."""
        if tuple(pool.data.shape[1:]) != page_shape(config, n_timesteps):
            raise ValueError(f"pages are {list(pool.data.shape[1:])}, wanted {list(page_shape(config, n_timesteps))}")
        if config.dit.static_chunk_size % config.token_mel_ratio:
            raise ValueError("a chunk must hold a whole number of tokens")
        self.config = config
        self.pool = pool
        self.n_timesteps = n_timesteps
        self.max_tokens = max_frames // config.token_mel_ratio
        """Most tokens a stream can hold, prompt included: the fixed noise ends there."""
        self._chunk_tokens = config.dit.static_chunk_size // config.token_mel_ratio

    @abstractmethod
    def prompt(self, tokens: Tensor, mel: Tensor, embedding: Tensor) -> FlowStream:
        """A voice's prompt as a stream to be solved like any other; once it is not `ready` any more, take its `prefix`.

        `tokens` int [P], `mel` [2P, 80] of the same audio, `embedding` [192]. It holds `prompt_pages(P)` pages in the
        end and gives no mel. Raises InvalidInput if they do not fit together.
        """

    @abstractmethod
    def prefix(self, prompt: FlowStream) -> FlowPrefix:
        """The solved `prompt` as a prefix for others, which holds its pages until `release`."""

    @abstractmethod
    def release(self, prefix: FlowPrefix) -> None:
        """Give up a prefix; its pages live on while streams opened on it do."""

    @abstractmethod
    def open(self, prefix: FlowPrefix) -> FlowStream:
        """A new utterance in the prefix's voice, sharing its pages."""

    @abstractmethod
    def close(self, stream: FlowStream) -> None:
        """Release the stream's pages, at any time and more than once; mel already finished can still be taken."""

    @abstractmethod
    def begin(self, stream: FlowStream) -> None:
        """Open the next chunk of a `ready` stream. Raises PoolExhausted, changing nothing, if no page is free."""

    @abstractmethod
    def step(self, streams: Sequence[FlowStream]) -> None:
        """One Euler step for each stream, all with a begun chunk; a chunk's last step makes its mel available.

        If it raises nothing has changed, so that a stream at fault can be found by stepping them one by one.
        """

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

    def prompt_pages(self, tokens: int) -> int:
        """Chunks of a prompt of so many tokens that are finished: their look-ahead lies in the prompt too."""
        return max(0, tokens - self.config.pre_lookahead_len) // self._chunk_tokens

    def feed(self, stream: FlowStream, tokens: Sequence[int], last: bool) -> None:
        """Append speech tokens; `last` says that no more will come.

        Raises InvalidInput for an id outside the vocabulary, a stream already ended, or one that would grow beyond the
        fixed noise.
        """
        if stream.last or stream.closed:
            raise InvalidInput("the stream has ended and takes no more tokens; open a new one")
        if tokens and not 0 <= min(tokens) <= max(tokens) < self.config.vocab_size:
            wrong = next(token for token in tokens if not 0 <= token < self.config.vocab_size)
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

    def take_mel(self, stream: FlowStream) -> Tensor:
        """Finished mel not taken before, [n, 80], prompt frames left out; n is 0 when there is none."""
        out, stream.out = stream.out, []
        if len(out) == 1:
            return out[0]
        return torch.cat(out) if out else stream.prefix_mel.new_zeros(0, self.config.output_size)

    @abstractmethod
    def settle(self) -> None:
        """Return once all steps that were taken are done, which some runners do not wait for."""

    def sound(self, stream: FlowStream) -> bool:
        """Whether the numbers of the last finished chunk are: a stream that is not can only be closed."""
        return stream.end is None or bool(stream.end.isfinite().all())

    def _checked(self, tokens: Tensor, mel: Tensor, embedding: Tensor) -> list[int]:
        """The prompt's ids. Raises InvalidInput if the parts of a prompt do not fit together."""
        ratio, ids = self.config.token_mel_ratio, tokens.flatten().tolist()
        wanted = [ratio * len(ids), self.config.output_size]
        if list(mel.shape) != wanted:
            raise InvalidInput(f"prompt mel is {list(mel.shape)}; {len(ids)} tokens need {wanted}")
        if embedding.numel() != self.config.spk_embed_dim:
            raise InvalidInput(
                f"speaker embedding has {embedding.numel()} values; {self.config.spk_embed_dim} are needed"
            )
        return ids

    def _check_solved(self, prompt: FlowStream) -> None:
        if self.ready(prompt) or prompt.chunk is not None or prompt.closed:
            raise ValueError("a prompt becomes a prefix once all its finished chunks are solved")

    def _known_frames(self, stream: FlowStream) -> int:
        """Frames of all tokens fed so far, prompt included."""
        begun = stream.chunk.frames if stream.chunk is not None else 0
        return stream.frames + begun + self.config.token_mel_ratio * len(stream.tokens)
