"""State of the streaming flow: plain data, moved along by a flow runner.

A prompt and the speech after it are cut into chunks on one grid that starts with the prompt. A finished chunk leaves
behind its page of keys and values and the tails of three convolutions, and is never looked at again.
"""

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(slots=True, eq=False)
class Tails:
    """What the convolutions remember of the frames before the open chunk.

    lookahead: [channels, 2], hidden columns of the pre-lookahead. position: [2 convolutions, steps, 2 guidance rows,
    dim, kernel - 1], inputs of the position convolutions at every Euler step.
    """

    lookahead: Tensor
    position: Tensor

    def clone(self) -> "Tails":
        return Tails(self.lookahead.clone(), self.position.clone())


@dataclass(frozen=True, slots=True, eq=False)
class FlowPrefix:
    """A registered voice: its prompt's finished chunks, shared read-only by every stream opened on it.

    pages: held once by this prefix. frames: how many the pages cover. tokens: prompt tokens of the unfinished rest.
    mel: [2P, 80], the whole prompt. speaker: [80], projected if tails are kept here. tails, slot: as in FlowStream.
    """

    pages: tuple[int, ...]
    frames: int
    tokens: tuple[int, ...]
    mel: Tensor
    speaker: Tensor
    tails: Tails | None = None
    slot: int = -1


@dataclass(slots=True, eq=False)
class ChunkWork:
    """What the runner for a CPU computes with. Rows are guidance row by frame, conditional frames first.

    x: state [n, 80]. static: [2, n, dim], the part of the input projection that no step changes. rotor: complex
    [2n, 1, dim_head / 2]. pages: views of all pages up to and including the chunk's own, each [steps, depth,
    2 (key, value), 2 rows, chunk, heads * dim_head].
    """

    x: Tensor
    static: Tensor
    rotor: Tensor
    pages: list[Tensor]


@dataclass(slots=True, eq=False)
class FlowChunk:
    """The chunk being solved. frames: n, at most a whole chunk. step: Euler steps done. work: on a CPU."""

    frames: int
    step: int
    work: ChunkWork | None = None


@dataclass(slots=True, eq=False)
class FlowStream:
    """One utterance on its way from tokens to mel.

    pages: all pages held, the prefix's first. frames: in finished chunks, prompt included. tokens: known but not yet in
    a begun chunk. last: no more tokens will come. out: finished mel not yet taken. end: the last finished chunk, whole.
    tails: what convolutions remember, on a CPU. Otherwise slot: the place that holds it and the state, and source: that
    of what the next chunk goes on from.
    """

    prefix_mel: Tensor
    speaker: Tensor
    pages: list[int]
    frames: int
    tokens: list[int]
    last: bool = False
    closed: bool = False
    chunk: FlowChunk | None = None
    out: list[Tensor] = field(default_factory=list)
    end: Tensor | None = None
    tails: Tails | None = None
    slot: int = -1
    source: int = -1

    @property
    def prompt_frames(self) -> int:
        return self.prefix_mel.shape[0]
