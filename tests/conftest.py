"""Shared by all tests."""

import os

# Streams are many and short: one thread per operation keeps timings steady. Must be set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
