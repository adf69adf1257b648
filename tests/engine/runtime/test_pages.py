"""The pool: exact counts, and memory that is not taken before it is used."""

from pathlib import Path

import pytest
import torch

from oscine_engine.runtime.pages import PagePool, PoolExhausted

STATM = Path("/proc/self/statm")


def test_a_page_returns_with_its_last_holder() -> None:
    pool = PagePool(3, (2, 4))
    pages = pool.alloc(2)
    pool.retain(pages)
    pool.release(pages)
    assert pool.num_free == 1
    pool.release(pages[:1])
    assert pool.num_free == 2
    with pytest.raises(ValueError, match="already free"):
        pool.release(pages[:1])
    with pytest.raises(ValueError, match="is free"):
        pool.retain(pages[:1])


def test_too_many_pages_are_none_at_all() -> None:
    pool = PagePool(3, (2, 4))
    with pytest.raises(PoolExhausted):
        pool.alloc(4)
    assert pool.num_free == 3


def test_the_last_page_back_is_the_first_out() -> None:
    pool = PagePool(8, (1,))
    first = pool.alloc(2)
    pool.release(first)
    assert set(pool.alloc(2)) == set(first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_pages_start_as_zeros_of_their_type(dtype: torch.dtype) -> None:
    pool = PagePool(2, (3, 5), dtype=dtype)
    assert pool.data.shape == (2, 3, 5) and pool.data.dtype is dtype
    assert not pool.data.any()
    pool.data[1] = 1.5
    assert pool.data[1].eq(1.5).all() and not pool.data[0].any()


@pytest.mark.skipif(not STATM.exists(), reason="asks Linux what is resident")
def test_a_pool_takes_no_memory_before_it_is_used() -> None:
    before = resident_mb()
    pool = PagePool(1 << 10, (1 << 19,))
    assert pool.data.nbytes == 2 << 30
    assert resident_mb() - before < 200
    pool.data[:600] = 1.0
    assert resident_mb() - before > 1000


def resident_mb() -> float:
    return int(STATM.read_text().split()[1]) * 4096 / 1e6
