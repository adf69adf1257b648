"""Memory that nothing uses any more."""

import ctypes
import gc
import os
import sys
from typing import Any

KERNELS = {"LRU_CACHE_CAPACITY": 256, "ONEDNN_PRIMITIVE_CACHE_CAPACITY": 64}
"""Kept at a time, by torch for each thread and by oneDNN: as fast as a thousand of each."""
M_ARENA_MAX = -8
"""Of mallopt, in glibc's malloc.h."""


def hold_little() -> None:
    """Set the limits of libraries on what they keep. Before the first convolution, which is when they are read.

    A convolution over a length not met before has a kernel of its own, of which torch keeps 1024 for each thread and
    oneDNN as many again, 20 kB to 400 kB each: 80 MiB after 500 sessions.
    """
    for name, kernels in KERNELS.items():
        os.environ.setdefault(name, str(kernels))
    share_a_heap()


def share_a_heap() -> None:
    """Let all threads allocate from one heap. Before there are threads.

    The C library gives each a heap of its own, up to eight a core, and tensors of ever new sizes leave holes in each:
    30 MiB after a hundred sessions. One thread computes, so nobody waits. Not for a service: its event loop would wait
    for encoders that hold the heap's lock while others have their core (frames over gRPC came up to 0.2 s later).
    """
    if (mallopt := _of_glibc("mallopt")) is not None:
        mallopt(M_ARENA_MAX, 1)


def give_back() -> None:
    """Free what only refers to itself, and hand the system what the C library keeps of memory already freed. Takes
    milliseconds, or tens of them where what lasts was not set aside (`gc.freeze`).

    Tensors of ever new sizes leave holes between those that stay, and only this gives back the pages in them: some 60
    MiB after a few hundred sentences of the embedded voice.
    """
    # First: streams that have ended may refer to themselves, and what they hold lies in the midst of the rest.
    gc.collect()
    if (trim := _of_glibc("malloc_trim")) is not None:
        trim(0)


def _of_glibc(name: str) -> Any:
    """A function of the C library; None where there is another."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
