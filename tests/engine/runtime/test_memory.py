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


LENGTHS = r"""
import re
import threading
import torch
from oscine_engine.runtime.memory import give_back, hold_little

def resident():
    return int(re.search(r"VmRSS:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024

def convolve(lengths):
    for length in lengths:
        torch.nn.functional.conv1d(torch.ones(1, 64, length), weight, groups=64)
        torch.nn.functional.conv1d(torch.ones(3, 64, length), other)

def speak():
    convolve(range(60, 360))  # more kernels than are kept
    give_back()
    before = resident()
    convolve(range(360, 960))
    give_back()
    print(resident() - before)

hold_little()
torch.set_grad_enabled(False)
weight, other = torch.ones(64, 1, 7), torch.ones(64, 64, 3)
thread = threading.Thread(target=speak)
thread.start()
thread.join()
"""


def test_sounds_of_ever_new_lengths_leave_nothing() -> None:
    """In a process of its own, in which nothing has been convolved: then it is read how much is kept."""
    done = subprocess.run([sys.executable, "-c", LENGTHS], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 8


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
