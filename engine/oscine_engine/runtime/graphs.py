"""Steps of fixed shape: captured once as CUDA graphs where there is a GPU, called as they are where there is none.

A step reads what `Inputs` brought to the device, works on tensors that never move, and leaves its results in `Outputs`.
So a tick costs the host one copy, one launch and one wait, whatever the step does, and on a CPU the very same code runs
without a graph.
"""

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Fields: TypeAlias = Mapping[str, tuple[tuple[int, ...], torch.dtype]]
"""Name to shape and type of the arrays that travel together."""
Step: TypeAlias = Callable[[], None]

_ALIGNMENT = 16
_WARM_UPS = 2
"""Calls before a capture: then kernels are compiled and libraries have their workspaces, which no capture allows."""


class _Block:
    """Named arrays in one piece of memory: on the device, or on the host and pinned where there is a GPU."""

    def __init__(self, fields: Fields, device: torch.device, *, pinned: bool = False) -> None:
        offsets, size = {}, 0
        for name, (shape, dtype) in fields.items():
            offsets[name] = size
            size += -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self.whole = torch.zeros(max(size, _ALIGNMENT), dtype=torch.uint8, device=device, pin_memory=pinned)
        self.tensors: dict[str, Tensor] = {
            name: self.whole[at : at + math.prod(shape) * dtype.itemsize].view(dtype).view(shape)
            for (name, (shape, dtype)), at in zip(fields.items(), offsets.values(), strict=True)
        }

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return {name: tensor.numpy() for name, tensor in self.tensors.items()}


class Inputs:
    """What the host tells a step. Fill the arrays of `host`, then `send`; the step reads the tensors of `device`.

    There are two host blocks taken in turn, so that one can be filled while the copy of the other is under way. An
    array of `host` holds what was written to it two sends ago: fill all that the step reads.
    """

    def __init__(self, fields: Fields, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._blocks = [_Block(fields, torch.device("cpu"), pinned=self._cuda) for _ in range(2)]
        self._views = [block.arrays() for block in self._blocks]
        self._copied = [_event() for _ in self._blocks] if self._cuda else []
        self._turn = 0
        self._target = _Block(fields, device)

    @property
    def host(self) -> dict[str, NDArray[np.generic]]:
        return self._views[self._turn]

    @property
    def device(self) -> dict[str, Tensor]:
        return self._target.tensors

    def send(self) -> None:
        """Copy the arrays to the device, behind what was launched there before. Does not wait."""
        self._target.whole.copy_(self._blocks[self._turn].whole, non_blocking=True)
        if self._cuda:
            self._copied[self._turn].record()
        self._turn ^= 1
        if self._cuda:
            self._copied[self._turn].synchronize()


class Pulled:
    """What the host tells a step that is waited for before anything is written again: the step itself fetches it.

    That costs no call. Fill the arrays of `host`; the step begins with `pull`, and then reads the tensors of `device`.
    """

    def __init__(self, fields: Fields, device: torch.device) -> None:
        self._source = _Block(fields, torch.device("cpu"), pinned=device.type == "cuda")
        self._target = _Block(fields, device)
        self.host = self._source.arrays()
        self.device = self._target.tensors

    def pull(self) -> None:
        """Copy to the device; part of the step, and of its graph."""
        self._target.whole.copy_(self._source.whole, non_blocking=True)


class Outputs:
    """What a step tells the host: it fills the tensors of `device` and ends with `fetch`; read `host` after a wait."""

    def __init__(self, fields: Fields, device: torch.device) -> None:
        self._source = _Block(fields, device)
        self._host = _Block(fields, torch.device("cpu"), pinned=device.type == "cuda")
        self.host = self._host.arrays()

    @property
    def device(self) -> dict[str, Tensor]:
        return self._source.tensors

    def fetch(self) -> None:
        """Copy to the host; part of the step, and of its graph."""
        self._host.whole.copy_(self._source.whole, non_blocking=True)


class Graphs:
    """Captures steps that share one pool of memory, since only one of them runs at a time.

    aside: they run on a CUDA stream of their own, beside whatever the device is at for others.
    """

    def __init__(self, device: torch.device, *, aside: bool = False) -> None:
        self._cuda = device.type == "cuda"
        self._aside = aside and self._cuda
        self._pool = torch.cuda.graph_pool_handle() if self._cuda else None
        self._usual = torch.cuda.current_stream(device) if self._cuda else None
        self._stream = _stream(device) if self._aside else self._usual
        # A stream of its own to capture on, too: the workspace of a matrix product belongs to the stream that it was
        # captured on, and steps that run at the same time must not share one.
        self._capturing = _stream(device) if self._cuda else None
        self._marks = [_event(), _event()] if self._cuda else []

    def capture(self, step: Step) -> Step:
        """`step` as one launch. It is called a few times here: what it reads must be valid, what it writes is lost."""
        if self._capturing is None:
            return step
        self._capturing.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._capturing):
            for _ in range(_WARM_UPS):
                step()
        torch.cuda.current_stream().wait_stream(self._capturing)
        graph = torch.cuda.CUDAGraph()
        # Other threads may allocate or synchronise meanwhile: only this thread's calls are captured.
        with torch.cuda.graph(graph, self._pool, self._capturing, capture_error_mode="thread_local"):
            step()
        return self._beside(graph) if self._aside else graph.replay

    def _beside(self, graph: torch.cuda.CUDAGraph) -> Step:
        own, usual = self._stream, self._usual
        assert own is not None and usual is not None
        own.wait_stream(torch.cuda.current_stream())

        def launch() -> None:
            # Cheaper than a context, which would look at the device first.
            torch.cuda.set_stream(own)
            graph.replay()
            torch.cuda.set_stream(usual)

        return launch

    def mark(self) -> None:
        """Remember this moment in the device's work."""
        if self._marks:
            self._marks.reverse()
            self._marks[0].record(self._stream)

    def wait(self) -> None:
        """Return once the device has come to the last mark. Other threads run meanwhile."""
        if self._marks:
            self._marks[0].synchronize()

    def keep_up(self) -> None:
        """Return once the device has come to the mark before the last: it is one step behind then, and never two."""
        if self._marks:
            self._marks[1].synchronize()


def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]
