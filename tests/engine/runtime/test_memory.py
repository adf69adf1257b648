"""Memory that was freed between blocks that stay goes back to the system, and what refers to itself is freed."""

import gc
import subprocess
import sys
import weakref

from oscine_engine.runtime.memory import give_back

HOLES = r"""
import re
import torch
from oscine_engine.runtime.memory import give_back

def resident():
    return int(re.search(r"VmRSS:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024

blocks = [torch.ones(25_000) for _ in range(1000)]  # 100 kB each: too small for a mapping of its own
kept = blocks[::10]
del blocks
before = resident()
give_back()
print(before - resident())
assert all(block.sum() == 25_000 for block in kept)
"""


def test_holes_go_back_to_the_system() -> None:
    """In a process of its own, whose heap nothing else has filled."""
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 60


class Ring:
    def __init__(self) -> None:
        self.me = self


def test_what_only_refers_to_itself_is_freed() -> None:
    gc.disable()
    try:
        left = weakref.ref(Ring())
        assert left() is not None
        give_back()
        assert left() is None
    finally:
        gc.enable()
