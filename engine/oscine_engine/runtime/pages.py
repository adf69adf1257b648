"""Fixed pools of equal pages with reference counts: the memory of every stream's K/V."""

import math

import numpy as np
import torch


class PoolExhausted(Exception):
    """A pool has fewer free pages than were asked for; nothing was allocated."""


class PagePool:
    """`num_pages` pages of `page_shape` in one tensor, `data`, allocated once.

    The memory of a pool on the CPU is the system's until a page is first written, and the last pages to come back are
    the first to go out again, so what stays resident is what was ever needed at once.

    A page is free, owned by one holder, or shared by several (a voice's prefix); it returns to the free list when its
    last holder releases it. Contents are not cleared.
    """

    def __init__(
        self,
        num_pages: int,
        page_shape: tuple[int, ...],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.data = _zeros((num_pages, *page_shape), dtype, torch.device(device))
        self._counts = [0] * num_pages
        self._free = list(range(num_pages - 1, -1, -1))

    @property
    def num_pages(self) -> int:
        return len(self._counts)

    @property
    def num_free(self) -> int:
        return len(self._free)

    def alloc(self, count: int) -> list[int]:
        """Take `count` pages, each held once. Raises PoolExhausted, taking none, if too few are free."""
        if count > len(self._free):
            raise PoolExhausted(f"{count} pages wanted, {len(self._free)} of {self.num_pages} free")
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            self._counts[page] = 1
        return pages

    def retain(self, pages: list[int]) -> None:
        """Add one holder to each page, all of which must be held already."""
        for page in pages:
            if self._counts[page] == 0:
                raise ValueError(f"page {page} is free and cannot be shared")
            self._counts[page] += 1

    def release(self, pages: list[int]) -> None:
        """Drop one holder of each page; a page without holders is free again."""
        for page in pages:
            if self._counts[page] == 0:
                raise ValueError(f"page {page} is already free")
            self._counts[page] -= 1
            if self._counts[page] == 0:
                self._free.append(page)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros that cost nothing before they are written, where the system can give them."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(math.prod(shape) * dtype.itemsize, np.uint8)).view(dtype).view(shape)
