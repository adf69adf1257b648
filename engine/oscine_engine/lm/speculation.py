"""Speculation: a drafter guesses what a stream says next, the target checks all guesses in one step.

The target draws at every guessed place as it would have drawn step by step, under the same keyed noise. Guesses are
kept as far as they are what it drew, and the first that is not is replaced by what it drew. So ids are the same with
any drafter and without one; a good drafter only makes them come sooner.
"""

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Integers: TypeAlias = NDArray[np.int64]


class Drafter(Protocol):
    """Both methods belong to a step of fixed shape: they neither wait for the device nor allocate outside a graph.

    count: most guesses a step. layers: layers of the target, counted from 0, whose outputs (the residual stream behind
    the layer) it reads, in the order that `features` has them.
    """

    @property
    def count(self) -> int: ...

    @property
    def layers(self) -> tuple[int, ...]: ...

    def remember(self, features: Tensor, positions: Tensor, slots: Tensor) -> None:
        """Keep what T rows of the target tell of their context.

        features [T, layers * hidden], any float type. positions int64 [T]. slots int64 [T]: page * page_tokens + offset
        in the target's own pages, below 0 for a row that is not kept.
        """
        ...

    def propose(
        self,
        anchors: Tensor,
        positions: Tensor,
        seeds: Tensor,
        said: Tensor,
        history: Tensor,
        tables: Tensor,
        lengths: Tensor,
        count: int,
    ) -> Tensor:
        """Guesses of what B streams say next: speech ids int64 [B, count], count being 1 to `self.count`.

        Fewer guesses are the first ones of more. Rows of length 0 may come out as anything.

        anchors int64 [B]: the speech ids said last, which the target has not been fed yet. positions int64 [B]: where
        they will stand. seeds int64 [B]. said int64 [B]: ids said so far, the anchor included, which is the next
        draw's position. history int64 [B, window]: the last of them, NO_ID where there are fewer. tables int32
        [B, most pages]: pages of the rows before the anchor. lengths int32 [B]: how many rows those are.
        """
        ...


LOTS = 1 << 14


def lots(mean: float, count: int) -> Integers:
    """For benchmarks: how many guesses are kept, int64 [LOTS], so that a step says `mean` ids where all may be kept.

    Each of `count` guesses is kept with the same probability if the one before it was. `kernels.lm_lines.drawn` tells
    which lot falls on a step. Raises ValueError for a mean that is not within 1 and 1 + count.
    """
    if not 1 <= mean <= 1 + count:
        raise ValueError(f"a step of {count} guesses says 1 to {1 + count} ids on average, not {mean}")
    low, high = 0.0, 1.0
    places = np.arange(1, count + 1)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 + (middle**places).sum() < mean else (low, middle)
    evenly = (np.arange(LOTS) + 0.5) / LOTS
    kept: Integers = (evenly[:, None] < high**places).sum(1)
    return kept
