"""Shared by all tests."""

import gc
import os

# Streams are many and short: one thread per operation keeps timings steady. Must be set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Recorded log filterbanks are compared to 1e-4, which MKL's processor-specific transforms exceed (see bench.parity).
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")
# Services that tests start run beside each other.
os.environ.setdefault("OSCINE_HTTP_PORT", "0")


def pytest_collection_finish() -> None:
    """What there is now stays: engines at rest, and some tests, would walk all of it whenever they collect."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()
