"""The past of a batch of streams, kept as one flat row a stream.

`Layout` lists what a network asks of its past, in order; `Carried` hands that out of the rows and writes the rows for
the next step. Streams of different lengths are padded on the right: nothing in the network looks right, so padding
never reaches valid columns, and each stream's next past is cut at its own length.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from oscine_engine.vocoder.layers import SILENCE, Past


@dataclass(frozen=True, slots=True)
class Entry:
    """`left` columns of `channels` channels at `offset` of a row, time-major; `rate` columns make one mel frame."""

    offset: int
    channels: int
    left: int
    rate: int


class _Recorder:
    """A silent past that notes what is asked of it, for one mel frame."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.size = 0

    def extend(self, x: Tensor, left: int) -> Tensor:
        self._note(x, left)
        return SILENCE.extend(x, left)

    def shift(self, x: Tensor) -> Tensor:
        self._note(x, 1)
        return x

    def _note(self, x: Tensor, left: int) -> None:
        self.entries.append(Entry(self.size, x.shape[1], left, x.shape[2]))
        self.size += x.shape[1] * left


@dataclass(frozen=True, slots=True)
class Layout:
    """The row of one stream: `size` numbers, cut into `entries`."""

    entries: tuple[Entry, ...]
    size: int

    @classmethod
    def of(cls, run: Callable[[Past], object]) -> "Layout":
        """What `run`, fed one mel frame of one stream, asks of its past."""
        recorder = _Recorder()
        with torch.inference_mode():
            run(recorder)
        return cls(tuple(recorder.entries), recorder.size)


def join(before: Tensor, x: Tensor) -> Tensor:
    """[B, C, left] and [B, C, T] -> [B, C, left + T], channels innermost in memory if they are so in `x`."""
    if x.stride(1) != 1:
        return torch.cat((before, x), dim=2)
    batch, channels, columns = x.shape
    left = before.shape[2]
    joined = x.new_empty(batch, left + columns, channels).transpose(1, 2)
    joined[:, :, :left] = before
    joined[:, :, left:] = x
    return joined


class Carried:
    """The past of B streams for one step of up to `frames` mel frames.

    memory: [B, layout.size]; `after` is the same for the step to come, complete once the network has run.
    lengths: each stream's own frames, int64 [B] on the memory's device, or None if all have `frames`.
    starts: bool [B, 1], true for streams at their first column, or None if none is.
    closing: whether some stream ends here, and so has the one column more that `shift` holds back.
    """

    def __init__(
        self,
        layout: Layout,
        memory: Tensor,
        frames: int,
        lengths: Tensor | None = None,
        starts: Tensor | None = None,
        closing: bool = False,
    ) -> None:
        self.memory, self.frames, self.lengths, self.starts, self.closing = memory, frames, lengths, starts, closing
        self.after = torch.empty_like(memory)
        self._entries = iter(layout.entries)

    def extend(self, x: Tensor, left: int) -> Tensor:
        entry = next(self._entries)
        return self._join(self._read(self.memory, entry), x, entry)

    def shift(self, x: Tensor) -> Tensor:
        entry = next(self._entries)
        before = self._read(self.memory, entry)
        if self.starts is not None:
            before = torch.where(self.starts[:, :, None], x[:, :, 1:2], before)
        joined = self._join(before, x, entry)
        return joined if self.closing else joined[:, :, :-1]

    @staticmethod
    def _read(memory: Tensor, entry: Entry) -> Tensor:
        flat = memory[:, entry.offset : entry.offset + entry.channels * entry.left]
        return flat.view(-1, entry.left, entry.channels).transpose(1, 2)

    def _join(self, before: Tensor, x: Tensor, entry: Entry) -> Tensor:
        joined = join(before, x)
        if self.lengths is None:
            start = self.frames * entry.rate
            tail = joined[:, :, start : start + entry.left]
        else:
            index = self.lengths[:, None] * entry.rate + torch.arange(entry.left, device=x.device)
            tail = joined.gather(2, index[:, None].expand(-1, entry.channels, -1))
        self._read(self.after, entry).copy_(tail)
        return joined
