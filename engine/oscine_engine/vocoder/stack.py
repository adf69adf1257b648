"""The vocoder's convolutions in slots: their weights side by side, and where each keeps its past in a table."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor

from oscine_engine.runtime.kernels import vocoder as kernels
from oscine_engine.runtime.kernels.vocoder import Batch, Bend, Conv, Entry
from oscine_engine.vocoder.fold import FixedConv, FixedSnake
from oscine_engine.vocoder.layers import ResBlock, Snake
from oscine_engine.vocoder.network import HiFT

BESIDE = False
"""Whether what depends on the source alone runs on a stream of its own on a GPU, beside the rest."""
_POST_SLOPE = 0.01
"""Of the leaky rectifier before the last convolution."""


class _Row:
    """Gives out the places of a table's row."""

    def __init__(self) -> None:
        self.size = 0

    def entries(self, lefts: Sequence[int], channels: int) -> tuple[Entry, ...]:
        out = []
        for left in lefts:
            out.append(Entry(self.size, left))
            self.size += left * channels
        return tuple(out)


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """up: `rate` columns for one. down: from the spectrum, `skip` columns in. aside, blocks: pairs of convolutions."""

    up: Conv
    rate: int
    down: Conv
    skip: int
    aside: list[Conv]
    enter: Bend
    blocks: list[Conv]
    leave: Bend


class Stack:
    """From mel and source spectrum to raw bins, for streams whose pasts lie in the rows of `table` and `fine`.

    table, fine: [slots, size] and [slots, fine_size], the first in the type of the weights, `fine` in float32: what the
    last convolution reads, whose outcome's sine is the phase.
    """

    def __init__(self, network: HiFT, dtype: torch.dtype, slots: int) -> None:
        """`network` must be folded."""
        config = network.config
        self._dtype = dtype
        row, fine = _Row(), _Row()
        post = cast(FixedConv, network.conv_post)
        blocks = len(config.resblock_kernel_sizes)
        pre = cast(FixedConv, network.conv_pre)
        first_up = cast(FixedConv, network.ups[0])
        lead = Bend(row.entries([first_up.left], first_up.weight.shape[1]), slope=config.lrelu_slope)
        self._pre = self._conv([pre], (), lead)
        self._stages = []
        bend = lead
        for index, rate in enumerate(config.upsample_rates):
            up, down = cast(FixedConv, network.ups[index]), cast(FixedConv, network.source_downs[index])
            aside = [cast(ResBlock, network.source_resblocks[index])]
            side = [cast(ResBlock, block) for block in network.resblocks[index * blocks : (index + 1) * blocks]]
            into, aside_convs = self._blocks(aside, row)
            enter, block_convs = self._blocks(side, row)
            width = cast(FixedConv, side[0].convs1[0]).weight.shape[0]
            if index + 1 < len(config.upsample_rates):
                following = cast(FixedConv, network.ups[index + 1])
                leave = Bend(row.entries([following.left], width), slope=config.lrelu_slope)
            else:
                leave = Bend(fine.entries([post.left], width), slope=_POST_SLOPE)
            self._stages.append(
                _Stage(
                    up=self._conv([up], bend.entries, None),
                    rate=rate,
                    down=self._strided(down, into),
                    skip=network.strides[0] - network.strides[index],
                    aside=aside_convs,
                    enter=enter,
                    blocks=block_convs,
                    leave=leave,
                )
            )
            bend = leave
        self._post = self._conv([post], bend.entries, None, precise=True)
        device = post.weight.device
        self.table = torch.zeros(slots, row.size, dtype=dtype, device=device)
        self.fine = torch.zeros(slots, fine.size, device=device)
        self.width = post.weight.shape[1]
        """Channels of the last stage."""
        self._side = _stream() if BESIDE and device.type == "cuda" else None

    def _conv(
        self,
        convs: Sequence[FixedConv],
        entries: tuple[Entry, ...],
        bend: Bend | None,
        *,
        precise: bool = False,
    ) -> Conv:
        dtype = torch.float32 if precise else self._dtype
        weights = [conv.weight.permute(2, 0, 1).flatten().to(dtype) for conv in convs]
        return Conv(
            weight=torch.cat(weights),
            bias=torch.stack([conv.bias.float() for conv in convs]),
            taps=tuple(conv.weight.shape[2] for conv in convs),
            dilation=convs[0].dilation[0],
            inputs=convs[0].weight.shape[1],
            step=convs[0].weight.shape[1],
            room=max((conv.taps - 1) * conv.dilation[0] for conv in convs),
            entries=entries,
            bend=bend,
        )

    def _strided(self, conv: FixedConv, bend: Bend) -> Conv:
        """All taps as one, since channels are innermost and a window is one run of numbers."""
        _, inputs, taps = conv.weight.shape
        weight = conv.weight.permute(0, 2, 1).flatten().to(self._dtype)
        return Conv(weight, conv.bias.float()[None], (1,), 1, taps * inputs, conv.stride[0] * inputs, room=0, bend=bend)

    def _blocks(self, blocks: Sequence[ResBlock], row: _Row) -> tuple[Bend, list[Conv]]:
        """Residual blocks side by side: what bends their input, and their convolutions in order."""
        convs, snakes = [], []
        for pair in range(len(blocks[0].convs1)):
            convs.append([cast(FixedConv, block.convs1[pair]) for block in blocks])
            convs.append([cast(FixedConv, block.convs2[pair]) for block in blocks])
            snakes.append([block.activations1[pair] for block in blocks])
            snakes.append([block.activations2[pair] for block in blocks])
        bends = []
        for group, bent in zip(convs, snakes, strict=True):
            entries = row.entries([conv.left for conv in group], group[0].weight.shape[1])
            numbers = [_snake(cast("Snake | FixedSnake", snake), group[0].weight) for snake in bent]
            scale, wave, turn = (torch.stack(part) for part in zip(*numbers, strict=True))
            bends.append(Bend(entries, scale, wave, turn))
        out = [
            self._conv(group, bend.entries, behind)
            for group, (bend, behind) in zip(convs, pairwise([*bends, None]), strict=True)
            if bend is not None
        ]
        return bends[0], out

    def __call__(
        self, mel: Tensor, spectrum: Tensor, frames: int, shift: tuple[Tensor, Tensor], batch: Batch
    ) -> Tensor:
        """mel [B, frames + 4, 80] and spectrum [1, B, n, bins] -> raw bins [B, frames * 120 + 1, bins] float32.

        shift: the column before the last stage's, [B, C] float32, and where to leave that of the next step.
        """
        columns, table = frames, self.table
        # All of them are held until the end: their memory is the other stream's, which knows nothing of who reads it.
        asides = self._asides(spectrum, frames, batch)
        x = kernels.convolve(mel[None], self._pre, table, batch, columns, 1, None, raw=False)[1]
        rate = 1
        for index, (stage, (aside, ready)) in enumerate(zip(self._stages, asides, strict=True)):
            final = index == len(self._stages) - 1
            up = kernels.convolve(x, stage.up, table, batch, columns, rate, None, raw=True)[0]
            columns, rate = columns * stage.rate, rate * stage.rate
            up = up.view(up.shape[1], columns, -1)
            move = (*shift, rate) if final else None
            ready()
            raw, bent = kernels.enter(up, aside, stage.enter, table, batch, move)
            raw = self._through(stage.blocks, raw, bent, batch, raw.shape[2], rate)
            x = kernels.leave(raw, stage.leave, self.fine if final else table, batch)
        return kernels.convolve(x, self._post, self.fine, batch, columns + 1, rate, None, raw=True)[0][0]

    def _asides(self, spectrum: Tensor, frames: int, batch: Batch) -> list[tuple[Tensor, Callable[[], None]]]:
        """What each stage takes from the source, float32 [B, T, C], and what waits until it is there."""
        if self._side is None:
            return [(aside, lambda: None) for aside in self._aside(spectrum, frames, batch)]
        side, here = self._side, torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            return [
                (aside, partial(here.wait_event, side.record_event())) for aside in self._aside(spectrum, frames, batch)
            ]

    def _aside(self, spectrum: Tensor, frames: int, batch: Batch) -> Iterator[Tensor]:
        rate = 1
        for index, stage in enumerate(self._stages):
            rate *= stage.rate
            columns = frames * rate + int(index == len(self._stages) - 1)
            seen = spectrum[:, :, stage.skip :]
            raw, bent = kernels.convolve(seen, stage.down, self.table, batch, columns, rate, None, raw=True)
            yield self._through(stage.aside, raw, bent, batch, columns, rate)[0]

    def _through(self, convs: list[Conv], raw: Tensor, bent: Tensor, batch: Batch, columns: int, rate: int) -> Tensor:
        for number, conv in enumerate(convs):
            if number % 2 == 0:
                bent = kernels.convolve(bent, conv, self.table, batch, columns, rate, None, raw=False)[1]
            else:
                raw, bent = kernels.convolve(bent, conv, self.table, batch, columns, rate, raw, raw=True)
        return raw


def _snake(snake: Snake | FixedSnake, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scale, wave and turn of `Bend`."""
    ones = like.new_ones(like.shape[0])
    if isinstance(snake, Snake):
        alpha = snake.alpha.detach()
        return ones, 1 / (alpha + 1e-9), alpha
    alpha = ones if snake.alpha is None else snake.alpha[:, 0]
    return alpha, ones, alpha


def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]
