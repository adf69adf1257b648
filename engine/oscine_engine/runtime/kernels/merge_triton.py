"""Joins what several programs found in their shares of the keys of one attention."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit(do_not_specialize=["rows"])
def _merge_kernel(
    parts, sums, out, rows,
    HEADS: tl.constexpr, INNER: tl.constexpr, INNER_PAD: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, INNER_PAD)
    inside = columns < INNER
    head = columns // WIDTH
    best = tl.full((INNER_PAD,), float("-inf"), tl.float32)
    for split in tl.static_range(SPLITS):
        best = tl.maximum(best, tl.load(sums + ((split * rows + row) * HEADS + head) * 2, inside, 0.0))
    total = tl.zeros((INNER_PAD,), tl.float32)
    weight = tl.zeros((INNER_PAD,), tl.float32)
    for split in tl.static_range(SPLITS):
        peak = tl.load(sums + ((split * rows + row) * HEADS + head) * 2, inside, 0.0)
        fade = tl.where(peak > float("-inf"), tl.exp2(peak - best), 0.0)
        weight += fade * tl.load(sums + ((split * rows + row) * HEADS + head) * 2 + 1, inside, 0.0)
        total += fade * tl.load(parts + (split * rows + row) * INNER + columns, inside, 0.0)
    total = total / tl.where(weight > 0, weight, 1.0)
    tl.store(out + row * INNER + columns, total.to(out.dtype.element_ty), inside)


def merge(parts: Tensor, sums: Tensor, out: Tensor) -> None:
    """parts float32 [splits, R, heads * width], not yet divided; sums float32 [splits, R, heads, 2]: the largest score,
    in powers of two, and the sum of weights. out [R, heads * width].
    """
    splits, rows, heads, _ = sums.shape
    inner = out.shape[1]
    _merge_kernel[(rows,)](
        parts, sums, out, rows,
        HEADS=heads, INNER=inner, INNER_PAD=triton.next_power_of_2(inner), WIDTH=inner // heads, SPLITS=splits,
    )  # fmt: skip
