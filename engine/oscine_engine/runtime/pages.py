"""Fixed pools of equal pages with reference counts: the memory of every stream's K/V."""

import torch


class PoolExhausted(Exception):
    """A pool has fewer free pages than were asked for; nothing was allocated."""


class PagePool:
    """`num_pages` pages of `page_shape` in one tensor, `data`, allocated once.

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
        self.data = torch.zeros((num_pages, *page_shape), dtype=dtype, device=device)
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
